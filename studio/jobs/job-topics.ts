/** Distributes job events inside a process: a subscription receives the events of one job. */
import { z } from 'zod';
import { rejection } from '../../domain/ledger-results.ts';

/** Schema of a job event as `ledger_write_jobs` sends it. `id` is the job's id. */
export const jobEvent = z.discriminatedUnion('event', [
  z.object({
    event: z.enum(['reserved', 'done']),
    id: z.string(),
    /** Organization of the job. Undefined if the event was derived from the job's row. */
    organizationId: z.string().optional(),
  }),
  z.object({ event: z.literal('rejected'), id: z.string(), rejection }),
]);
type JobEvent = z.infer<typeof jobEvent>;

/** Subscription to the events of one job. Events that arrive before `next` is called are queued. */
export interface JobSubscription {
  /** Waits up to `waitMs` milliseconds for the next event. Returns null if there is none. */
  next: (waitMs: number) => Promise<JobEvent | null>;
  /** Ends the subscription, and a pending call of `next`. */
  end: () => void;
}

/** Creates the event topics, one per job. A new subscription does not receive earlier events. */
export function createTopics() {
  const topics = new Map<string, Set<(event: JobEvent) => void>>();
  /** Functions that end the pending calls of `next`, one function for each call. */
  const wakeFunctions = new Set<() => void>();

  function subscribe(jobId: string): JobSubscription {
    const topic = topics.get(jobId) ?? new Set();
    topics.set(jobId, topic);
    const queue: JobEvent[] = [];
    let wake: (() => void) | undefined;
    const receive = (event: JobEvent): void => {
      queue.push(event);
      wake?.();
    };
    topic.add(receive);
    return {
      async next(waitMs) {
        if (queue.length === 0 && waitMs > 0) {
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, waitMs);
            wake = () => {
              clearTimeout(timer);
              resolve();
            };
            wakeFunctions.add(wake);
          });
          if (wake) wakeFunctions.delete(wake);
        }
        return queue.shift() ?? null;
      },
      end() {
        wake?.();
        topic.delete(receive);
        if (topic.size === 0 && topics.get(jobId) === topic) topics.delete(jobId);
      },
    };
  }

  return {
    subscribe,
    publish: (event: JobEvent): void => {
      for (const receive of topics.get(event.id) ?? []) receive(event);
    },
    wakeAll: (): void => wakeFunctions.forEach((wake) => wake()),
    /** Returns the ids of the jobs that have a subscription. */
    listJobIds: () => [...topics.keys()],
  };
}
