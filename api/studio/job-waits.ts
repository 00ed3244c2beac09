/** Waits for jobs to end, for synchronous requests and long polls. */
import type { JobReads, JobRecord } from '../../jobs/records/job-reads.ts';
import type { Config } from '../../platform/config.ts';
import { createFairShare } from '../../platform/fair-share.ts';
import type { JobSubscription } from './job-topics.ts';
import type { JobUpdates } from './job-updates.ts';

interface WaitDeps {
  updates: JobUpdates;
  reads: JobReads;
  config: Pick<Config, 'SYNC_WAITERS_MAX'>;
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
}

/** Creates the functions that wait for jobs. */
export function createJobWaits(deps: WaitDeps) {
  const waiting = createFairShare(deps.config.SYNC_WAITERS_MAX);

  return {
    /**
     * Waits like `awaitEnd`, but returns immediately if too many requests of the organization are
     * waiting (`SYNC_WAITERS_MAX`). The response is then 202.
     */
    async awaitEndLimited(job: AwaitedJob, waitMs: number): Promise<JobRecord | null> {
      const release = waitMs > 0 ? waiting.take(job.organizationId) : null;
      if (!release) return awaitEnd(deps, job, 0);
      try {
        return await awaitEnd(deps, job, waitMs);
      } finally {
        release();
      }
    },

    /**
     * Waits until the job ends, for at most `waitMs` milliseconds. Returns earlier if the process
     * is stopping. Returns the job's row, or null if the job has none.
     */
    awaitEnd: (job: AwaitedJob, waitMs: number) => awaitEnd(deps, job, waitMs),

    /** Returns whether the process is stopping. Requests must not wait in a stopping process. */
    isDraining: () => deps.updates.isDraining,
  };
}

async function awaitEnd(
  deps: Pick<WaitDeps, 'updates' | 'reads'>,
  { organizationId, jobId, updates: subscription }: AwaitedJob,
  waitMs: number,
): Promise<JobRecord | null> {
  const updates = subscription ?? deps.updates.subscribe(jobId);
  try {
    const deadlineAtMs = performance.now() + waitMs;
    if (subscription) await awaitEndEvent(subscription, waitMs);
    for (;;) {
      const job = await deps.reads.read(organizationId, jobId);
      const remainingMs = deadlineAtMs - performance.now();
      if (!job || job.status !== 'open' || remainingMs <= 0 || deps.updates.isDraining) return job;
      await awaitEndEvent(updates, remainingMs);
    }
  } finally {
    updates.end();
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
