/** Runs one attempt of an activity: occupies a slot of the provider and sends heartbeats. */
import { Context } from '@temporalio/activity';
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import type { CallTask } from '../jobs/job-plan.ts';
import { toApplicationFailure } from './activity-failures.ts';

const heartbeatIntervalMs = 4000;

/**
 * Runs one attempt in a slot of its provider. `freeSlots` has the number of free slots in this
 * process for each provider. The worker of the provider's task queue never runs more attempts than
 * there are slots. A local activity that finds no free slot does not wait but fails with
 * `PROVIDER_BUSY`, because only the task queue shares the slots fairly between organizations.
 * @throws ApplicationFailure
 */
export async function attemptInSlot<Outcome>(
  freeSlots: Map<string, number>,
  { route: { provider, submitTimeoutMs }, submitAttemptsMax }: CallTask,
  run: () => Promise<Outcome>,
): Promise<Outcome> {
  const { activityType, isLocal } = Context.current().info;
  const countFreeSlots = (): number => freeSlots.get(provider) ?? 0;
  if (isLocal && countFreeSlots() <= 0) {
    throw ApplicationFailure.create({
      message: 'no request was sent: all slots of the provider in this process are occupied',
      type: 'PROVIDER_BUSY',
      category: ApplicationFailureCategory.BENIGN,
    });
  }
  freeSlots.set(provider, countFreeSlots() - 1);
  try {
    const timeLimit =
      activityType === 'submit' ? { providerLimitSeconds: submitTimeoutMs / 1000 } : {};
    return await attempt(run, { submitAttemptsMax, detail: { provider, ...timeLimit } });
  } finally {
    freeSlots.set(provider, countFreeSlots() + 1);
  }
}

/** Options of an attempt. */
interface AttemptOptions {
  /** Defaults to no maximum (`CallTask.submitAttemptsMax`). */
  submitAttemptsMax?: number;
  /**
   * Details of the heartbeats, which the Temporal UI shows while the activity is pending. Each
   * heartbeat also contains the start time of the attempt.
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
