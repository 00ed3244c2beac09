/** Runs one attempt of an activity: occupies a slot of the provider and sends heartbeats. */
import { Context } from '@temporalio/activity';
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import type { CallTask } from '../jobs/job-plan.ts';
import { toApplicationFailure } from './activity-failures.ts';

const heartbeatIntervalMs = 4000;

/**
 * Runs one attempt in a slot of its provider. `freeSlots` has the number of free slots in this
 * process, by provider. The worker of the provider's task queue never runs more attempts than there
 * are slots. A local activity that finds no free slot fails with `PROVIDER_BUSY` instead of waiting
 * here, because only the task queue shares the slots fairly between organizations.
 * @throws ApplicationFailure
 */
export async function attemptInSlot<Outcome>(
  freeSlots: Map<string, number>,
  { route: { provider, submitTimeoutMs }, submitAttemptsMax }: CallTask,
  run: () => Promise<Outcome>,
): Promise<Outcome> {
  const { activityType, isLocal } = Context.current().info;
  const free = (): number => freeSlots.get(provider) ?? 0;
  if (isLocal && free() <= 0) {
    throw ApplicationFailure.create({
      message: 'nothing was sent: all slots of the provider in this process are in use',
      type: 'PROVIDER_BUSY',
      category: ApplicationFailureCategory.BENIGN,
    });
  }
  freeSlots.set(provider, free() - 1);
  try {
    const limit = activityType === 'submit' ? { providerLimitSeconds: submitTimeoutMs / 1000 } : {};
    return await attempt(run, { submitAttemptsMax, detail: { provider, ...limit } });
  } finally {
    freeSlots.set(provider, free() + 1);
  }
}

/** Options of an attempt. */
interface AttemptOptions {
  /**
   * Number of the last attempt on the task queue that is made if the provider accepts none. A first
   * attempt as a local activity is not counted.
   */
  submitAttemptsMax?: number;
  /**
   * Heartbeat details, which the Temporal UI shows while the activity is pending. The start time of
   * the attempt is added.
   */
  detail?: { provider: string; providerLimitSeconds?: number };
}

/** Runs one attempt with heartbeats. @throws ApplicationFailure */
export async function attempt<Outcome>(
  run: () => Promise<Outcome>,
  { submitAttemptsMax = Infinity, detail }: AttemptOptions = {},
): Promise<Outcome> {
  const context = Context.current();
  const since = new Date().toISOString();
  const heartbeats = setInterval(
    () => context.heartbeat(detail && { ...detail, since }),
    heartbeatIntervalMs,
  );
  try {
    return await run();
  } catch (error) {
    const { isLocal, attempt: number } = context.info;
    throw toApplicationFailure(error, { attempt: isLocal ? 0 : number, submitAttemptsMax });
  } finally {
    clearInterval(heartbeats);
  }
}
