/** Hearing the news of one job: events that come before anybody waits for them are kept. */
import type { JobEvent, JobNews } from '../../activities/job-news.ts';

/** An ear for one job. */
export interface Hearing {
  /** The next event, or null when none came in time. */
  next: (waitMs: number) => Promise<JobEvent | null>;
  stop: () => void;
}

/** Listens from now on, until `stop`. */
export function hear(news: JobNews, jobId: string): Hearing {
  const kept: JobEvent[] = [];
  let wake: (() => void) | undefined;
  const stop = news.subscribe(jobId, (event) => {
    kept.push(event);
    wake?.();
  });
  return {
    stop,
    async next(waitMs) {
      if (kept.length === 0 && waitMs > 0) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, waitMs);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      return kept.shift() ?? null;
    },
  };
}
