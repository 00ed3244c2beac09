/** Waits for jobs to end, for synchronous requests and long polls. */
import type { JobReads, JobRecord } from './job-reads.ts';
import type { JobSubscription } from './job-topics.ts';
import type { JobUpdates } from './job-updates.ts';

interface WaitDeps {
  updates: JobUpdates;
  reads: JobReads;
}

/** Job to wait for. */
interface AwaitedJob {
  organizationId: string;
  jobId: string;
  /**
   * Subscription that was opened before the job started. If set, `awaitEnd` waits for the end event
   * before it reads the row; otherwise it reads the row immediately.
   */
  updates?: JobSubscription | null;
  /** Ends the wait early, because nobody reads its result. */
  signal?: AbortSignal;
}

/** Creates the functions that wait for jobs. */
export function createJobWaits(deps: WaitDeps) {
  return {
    /**
     * Waits until the job ends, for at most `waitMs` milliseconds. Returns earlier if the process
     * is stopping or the signal aborts. Returns the job's row, or null if the job has none.
     */
    awaitEnd: (job: AwaitedJob, waitMs: number) => awaitEnd(deps, job, waitMs),

    /** Returns whether the process is stopping. Requests must not wait in a stopping process. */
    isDraining: () => deps.updates.isDraining,
  };
}

async function awaitEnd(
  deps: Pick<WaitDeps, 'updates' | 'reads'>,
  { organizationId, jobId, updates: subscription, signal }: AwaitedJob,
  waitMs: number,
): Promise<JobRecord | null> {
  const updates = subscription ?? deps.updates.subscribe(jobId);
  const end = (): void => updates.end();
  signal?.addEventListener('abort', end);
  try {
    const deadlineAtMs = performance.now() + waitMs;
    if (subscription) await awaitEndEvent(subscription, waitMs);
    for (;;) {
      const job = await deps.reads.read(organizationId, jobId);
      const remainingMs = deadlineAtMs - performance.now();
      if (!job || job.status !== 'open' || remainingMs <= 0) return job;
      if (deps.updates.isDraining || signal?.aborted) return job;
      await awaitEndEvent(updates, remainingMs);
    }
  } finally {
    signal?.removeEventListener('abort', end);
    end();
  }
}

/** Waits up to `waitMs` milliseconds for the event that the job has ended. */
async function awaitEndEvent(updates: JobSubscription, waitMs: number): Promise<void> {
  const deadlineAtMs = performance.now() + waitMs;
  for (let remainingMs = waitMs; remainingMs > 0; remainingMs = deadlineAtMs - performance.now()) {
    const event = await updates.next(remainingMs);
    if (event === null || event.event === 'done') return;
  }
}

export type JobWaits = ReturnType<typeof createJobWaits>;
