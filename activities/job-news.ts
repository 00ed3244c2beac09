/**
 * News of jobs inside one process: an activity that moved money here tells whoever waits here, before
 * any round trip. News are hints; the truth is the job's row.
 */
import type { ReserveVerdict } from '../jobs/ledger-verdicts.ts';

/** What happened to a job. */
export type JobEvent =
  | { kind: 'verdict'; verdict: ReserveVerdict }
  /** The job was reserved, or ended, in another process. */
  | { kind: 'changed' }
  | { kind: 'done' };

type Listener = (event: JobEvent) => void;

/** Publishes and hears news. */
export interface JobNews {
  publish: (jobId: string, event: JobEvent) => void;
  /** Hears news of a job until the returned function is called. */
  subscribe: (jobId: string, listener: Listener) => () => void;
  /** Jobs that somebody waits for. */
  awaited: () => string[];
}

/** A board of news; nothing is kept for those who come late. */
export function createJobNews(): JobNews {
  const listeners = new Map<string, Set<Listener>>();
  return {
    publish(jobId, event) {
      for (const listener of listeners.get(jobId) ?? []) listener(event);
    },
    subscribe(jobId, listener) {
      const ofJob = listeners.get(jobId) ?? new Set();
      listeners.set(jobId, ofJob.add(listener));
      return () => {
        ofJob.delete(listener);
        if (ofJob.size === 0) listeners.delete(jobId);
      };
    },
    awaited: () => [...listeners.keys()],
  };
}
