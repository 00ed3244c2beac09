/**
 * News of jobs inside one process: an activity that moved money here tells whoever waits here, before
 * any round trip. News are hints; the truth is the job's row.
 */
import type { ReserveVerdict } from '../../jobs/ledger-verdicts.ts';

/** What happened to a job. */
export type JobEvent =
  | { kind: 'verdict'; verdict: ReserveVerdict }
  /** The job was reserved, or ended, in another process. */
  | { kind: 'changed' }
  | { kind: 'done' };

/** The news of one job since it was subscribed to: what comes before anybody waits is kept. */
export interface JobSubscription {
  /** The next event, or null when none came in time. */
  next: (waitMs: number) => Promise<JobEvent | null>;
  end: () => void;
}

/** A job that was reserved, or that ended, in whichever process; or that some of these may have been missed. */
export type JobChange = { organizationId: string; jobId: string } | 'interrupted';

/** A topic for each job. */
export interface JobNews {
  publish: (jobId: string, event: JobEvent) => void;
  subscribe: (jobId: string) => JobSubscription;
  /** Jobs that somebody waits for. */
  awaited: () => string[];
  announce: (change: JobChange) => void;
  /** Tells of every change from then on. */
  watch: (hear: (change: JobChange) => void) => void;
}

/** See `JobNews`; nothing is kept for those who come late. */
export function createJobNews(): JobNews {
  const topics = new Map<string, Set<(event: JobEvent) => void>>();
  const watchers = new Set<(change: JobChange) => void>();
  return {
    publish(jobId, event) {
      for (const hear of topics.get(jobId) ?? []) hear(event);
    },
    subscribe(jobId) {
      const topic = topics.get(jobId) ?? new Set();
      topics.set(jobId, topic);
      const kept: JobEvent[] = [];
      let wake: (() => void) | undefined;
      const hear = (event: JobEvent): void => {
        kept.push(event);
        wake?.();
      };
      topic.add(hear);
      return {
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
        end() {
          topic.delete(hear);
          if (topic.size === 0 && topics.get(jobId) === topic) topics.delete(jobId);
        },
      };
    },
    awaited: () => [...topics.keys()],
    announce(change) {
      for (const hear of watchers) hear(change);
    },
    watch: (hear) => void watchers.add(hear),
  };
}
