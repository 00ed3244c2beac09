/** Rows of the job lists of callers and operators. */
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { Job } from '../../gateway/client.ts';
import { formatType } from '../../parts/names.ts';
import { Credits } from '../../parts/amounts.tsx';
import { JobState } from '../../parts/state.tsx';
import { RelativeTime, formatDuration, useNow } from '../../parts/times.tsx';
import { ExpectedEnd } from './expected-end.tsx';
import { listMedia } from './job-media.ts';

/** Fields of a job that its row shows, of the list of callers or of operators. */
export type RowJob = Pick<
  Job,
  'jobId' | 'type' | 'prompt' | 'model' | 'provider' | 'createdAt' | 'completedAt' | 'billing'
>;

interface RowProps {
  job: RowJob;
  href: string;
  /** First cell: the picture of the result, or the organization. */
  first: ReactNode;
  /** State of the job, with the reason of a failure. */
  state: ReactNode;
}

/** Shows a job as a row that links to its page. */
export function JobRow({ job, href, first, state }: RowProps) {
  const { jobId, type, prompt, model, provider, createdAt, billing } = job;
  return (
    <Link href={href} className="job-row" data-job={jobId}>
      {first}
      <span title={prompt ?? undefined}>
        <strong>
          <bdi>{prompt ?? formatType(type)}</bdi>
        </strong>{' '}
        <span className="dim">{prompt !== null && formatType(type)}</span>
      </span>
      <span title={provider}>{model ?? '–'}</span>
      {state}
      <span className="dim">
        <JobDuration job={job} />
      </span>
      <span className={billing.state === 'reserved' ? 'number dim' : 'number'}>
        {billing.state === 'released' ? (
          '–'
        ) : (
          <Credits amount={billing.state === 'reserved' ? billing.reserved : billing.charged} />
        )}
      </span>
      <span className="dim">
        <RelativeTime time={createdAt} />
      </span>
    </Link>
  );
}

/** Shows a job of the caller as a row. */
export function OwnJobRow({ job }: { job: Job }) {
  const { jobId, status, error } = job;
  const state = (
    <span title={error?.code}>
      <JobState job={job} />{' '}
      {error ? (
        status === 'failed' && <span className="dim">{error.message}</span>
      ) : (
        <ExpectedEnd job={job} />
      )}
    </span>
  );
  return <JobRow job={job} href={`/jobs/${jobId}`} first={<Thumbnail job={job} />} state={state} />;
}

/** Shows how long a job took, or has run. */
export function JobDuration({ job }: { job: Pick<Job, 'createdAt' | 'completedAt'> }) {
  const { createdAt, completedAt } = job;
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
