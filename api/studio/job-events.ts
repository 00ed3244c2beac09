/** A job as a stream of server-sent events: the resource, each time it has changed (design §4). */
import type { PassThrough } from 'node:stream';
import type { JobRecord } from '../../activities/jobs/job-reads.ts';
import type { JobView } from '../../studio/job-view.ts';

interface JobStream {
  events: PassThrough;
  first: JobRecord;
  view: JobView;
  /** The job after a change, or after a short while without one. */
  next: (last: JobRecord) => Promise<JobRecord>;
}

const keepaliveIntervalMs = 15_000;

/** Writes until the job is done or the reader is gone. Never throws. */
export async function streamJob(stream: JobStream): Promise<void> {
  const { events, view } = stream;
  const keepalive = setInterval(() => events.write(': keepalive\n\n'), keepaliveIntervalMs);
  let job = stream.first;
  let shown = '';
  try {
    for (;;) {
      const mark = markOf(job);
      if (mark !== shown) {
        const resource = await view.resource(job);
        events.write(`event: job\ndata: ${JSON.stringify(resource)}\n\n`);
      }
      shown = mark;
      if (job.status !== 'queued' || events.destroyed) break;
      job = await stream.next(job);
    }
  } catch {
    // The stream ends without a `done` state; a reader connects again or polls.
  } finally {
    clearInterval(keepalive);
    events.end();
  }
}

/** What tells one state from the next; result URLs do not, they are signed anew each time. */
export function markOf(job: JobRecord): string {
  return JSON.stringify([job.status, job.call_states, job.progress, job.verifying]);
}
