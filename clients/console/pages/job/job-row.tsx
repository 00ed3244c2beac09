/** Row of the job list. */
import { Link } from 'wouter';
import type { Job } from '../../gateway/client.ts';
import { formatType } from '../../parts/names.ts';
import { Credits } from '../../parts/amounts.tsx';
import { JobState } from '../../parts/state.tsx';
import { RelativeTime, formatDuration, useNow } from '../../parts/times.tsx';
import { ExpectedEnd } from './expected-end.tsx';
import { listMedia } from './job-media.ts';

/** Shows a job as a row that links to its page. */
export function JobRow({ job }: { job: Job }) {
  const { jobId, type, prompt, model, provider, status, error, createdAt } = job;
  const { state, charged, reserved } = job.billing;
  return (
    <Link href={`/jobs/${jobId}`} className="job-row" data-job={jobId}>
      <Thumbnail job={job} />
      <span title={prompt ?? undefined}>
        <strong>
          <bdi>{prompt ?? formatType(type)}</bdi>
        </strong>{' '}
        <span className="dim">{prompt !== null && formatType(type)}</span>
      </span>
      <span title={provider}>{model ?? '–'}</span>
      <span title={error?.code}>
        <JobState job={job} />{' '}
        {error ? (
          status === 'failed' && <span className="dim">{error.message}</span>
        ) : (
          <ExpectedEnd job={job} />
        )}
      </span>
      <span className="dim">
        <JobDuration job={job} />
      </span>
      <span className={state === 'reserved' ? 'number dim' : 'number'}>
        {state === 'released' ? (
          '–'
        ) : (
          <Credits amount={state === 'reserved' ? reserved : charged} />
        )}
      </span>
      <span className="dim">
        <RelativeTime time={createdAt} />
      </span>
    </Link>
  );
}

/** Shows how long a job took, or has run. */
export function JobDuration({ job: { createdAt, completedAt } }: { job: Job }) {
  const now = useNow(completedAt === null ? 1000 : 3_600_000);
  const endMs = completedAt === null ? now : Date.parse(completedAt);
  return formatDuration(endMs - Date.parse(createdAt));
}

const mediaSymbols = { video: '▶', audio: '♪', file: '–' } as const;

/** Shows the first picture of a result, or a symbol. */
export function Thumbnail({ job }: { job: Job }) {
  const [media] = listMedia(job);
  if (media?.kind === 'image')
    return <img className="thumb" src={media.url} alt="" loading="lazy" />;
  return (
    <span className="thumb" aria-hidden="true">
      {media ? mediaSymbols[media.kind] : job.done ? '–' : '…'}
    </span>
  );
}
