/** Shows the result of a job as an image, a player or text, or shows the error of the job. */
import { useQuery } from '@tanstack/react-query';
import { FileText } from 'lucide-react';
import type { Job } from '../../gateway/client.ts';
import { formatType, splitType, toWords } from '../../parts/names.ts';
import { LinkExpiry, LocalTimes } from '../../parts/times.tsx';
import { ExpectedBar } from './expected-end.tsx';
import { timelineQuery } from './job-query.ts';
import { listMedia, findTranscript, type Media } from './job-media.ts';
import { ResultActions } from './result-actions.tsx';

/** Delay between requests for the statement about a running job, in milliseconds. */
const refreshMs = 4000;

/** Shows the result or the error of a job, or a placeholder of the same shape while it runs. */
export function JobResult({ job }: { job: Job }) {
  // A call that gets no response changes the statement without an event.
  const refetchInterval = job.done ? false : refreshMs;
  const { data } = useQuery({ ...timelineQuery(job.jobId), refetchInterval });
  if (job.error) {
    return (
      <div className="error" role="alert">
        <p>
          <LocalTimes text={data?.why ?? job.error.message} />
        </p>
        <code className="dim">{job.error.code}</code>
      </div>
    );
  }
  if (!job.done) {
    if (!job.steps) return <Placeholder job={job} />;
    return (
      <p>
        <LocalTimes text={data?.why ?? ''} />
      </p>
    );
  }
  if (job.mediaDeletedAt) return <p className="dim">The media of this job were deleted.</p>;
  // The graph of a pipeline shows the results of its steps.
  if (!job.result || job.steps) return null;
  const media = listMedia(job);
  const text = findTranscript(job.result);
  return (
    <div className="stack" data-result={job.type}>
      {media.length > 0 && (
        <div className={media.length > 2 ? 'media many' : 'media'}>
          {media.map((file) => (
            <MediaFigure
              key={file.url.split('?')[0]}
              media={file}
              job={job}
              isCompact={media.length > 1}
            />
          ))}
        </div>
      )}
      {text !== null && <pre className="card">{text}</pre>}
      {media.length === 0 && text === null && (
        <pre className="code">{JSON.stringify(job.result, null, 2)}</pre>
      )}
    </div>
  );
}

interface MediaFigureProps {
  media: Media;
  job: Job;
  isCompact: boolean;
}

function MediaFigure({ media, job, isCompact }: MediaFigureProps) {
  const { caption, credentials, expiresAt } = media;
  const origin = !isCompact && credentials && `content credentials: ${credentials}`;
  const text = [caption, origin].filter(Boolean).join(' · ');
  return (
    <figure>
      <MediaPlayer media={media} alt={`Result: ${job.prompt ?? formatType(job.type)}`} />
      <figcaption className="dim">
        {text}
        {text && expiresAt && ' · '}
        {expiresAt && <LinkExpiry time={expiresAt} />}
      </figcaption>
      <ResultActions media={media} jobId={job.jobId} isCompact={isCompact} />
    </figure>
  );
}

/** Shows a file as an image or in a player. */
export function MediaPlayer({ media: { url, kind }, alt }: { media: Media; alt: string }) {
  if (kind === 'image') return <img src={url} alt={alt} loading="lazy" />;
  if (kind === 'file') return <FileText className="thumb" aria-label={alt} />;
  const Player = kind;
  return <Player src={url} controls preload="metadata" aria-label={alt} />;
}

/** Shows the shape of the result while the job runs, with its phase and expected end. */
function Placeholder({ job }: { job: Job }) {
  const { data } = useQuery(timelineQuery(job.jobId));
  const ratio = /^\d+:\d+$/.exec(String(data?.request['aspectRatio']))?.[0].replace(':', ' / ');
  const defaultRatio = { image: '1 / 1', video: '16 / 9' }[splitType(job.type).kind.toLowerCase()];
  return (
    <div
      className={data?.outcomeUnknown ? 'placeholder unknown' : 'placeholder'}
      style={{ aspectRatio: defaultRatio && (ratio ?? defaultRatio) }}
    >
      <p role="status">
        <LocalTimes text={data?.why ?? `${toWords(job.phase)}…`} />
      </p>
      <ExpectedBar job={job} />
    </div>
  );
}
