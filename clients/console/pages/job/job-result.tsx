/** Shows the result of a job as an image, a player or text, or shows the error of the job. */
import type { Job } from '../../gateway/client.ts';
import { formatType } from '../../parts/names.ts';
import { listMedia, findTranscript, type Media } from './job-media.ts';

/** Shows the result or the error of a job, or nothing while it runs. */
export function JobResult({ job }: { job: Job }) {
  if (job.error) {
    return (
      <div className="error" role="alert">
        <p>{job.error.message}</p>
        <p className="dim">
          {job.error.code}
          {job.error.retryable && ' · the same request may succeed if you retry later'}
          {job.billing.state === 'released' && ' · nothing was charged'}
        </p>
      </div>
    );
  }
  if (job.mediaDeletedAt) return <p className="dim">The media of this job were deleted.</p>;
  if (!job.result) return null;
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
              alt={`Result: ${job.prompt ?? formatType(job.type)}`}
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

function MediaFigure({ media: { url, kind, caption }, alt }: { media: Media; alt: string }) {
  return (
    <figure>
      {kind === 'image' && <img src={url} alt={alt} loading="lazy" />}
      {/* oxlint-disable-next-line media-has-caption -- a generated file has no captions */}
      {kind === 'video' && <video src={url} controls preload="metadata" aria-label={alt} />}
      {/* oxlint-disable-next-line media-has-caption -- a generated file has no captions */}
      {kind === 'audio' && <audio src={url} controls preload="metadata" aria-label={alt} />}
      <figcaption className="dim">
        <span>{caption}</span>
        <a href={url} download target="_blank" rel="noreferrer">
          Open
        </a>
      </figcaption>
    </figure>
  );
}
