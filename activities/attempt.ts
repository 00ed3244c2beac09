/** One attempt of an activity: it takes a slot of the provider and sends heartbeats. */
import { Context } from '@temporalio/activity';
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import type { CallTask } from '../jobs/job-plan.ts';
import { toApplicationFailure } from './activity-failures.ts';

const heartbeatIntervalMs = 4000;

/**
 * Runs one attempt in a slot of its provider; `slots` counts the free slots in this process. The
 * provider's task queue never dispatches more attempts than there are slots. A local activity
 * without a free slot fails as `PROVIDER_BUSY`, because the queue is fair between organizations.
 * @throws ApplicationFailure
 */
export async function attemptInSlot<Outcome>(
  slots: Map<string, number>,
  { route: { provider, submitTimeoutMs }, refusalsMax }: CallTask,
  run: () => Promise<Outcome>,
): Promise<Outcome> {
  const { activityType, isLocal } = Context.current().info;
  const free = (): number => slots.get(provider) ?? 0;
  if (isLocal && free() <= 0) {
    throw ApplicationFailure.create({
      message: 'nothing was sent: all slots of the provider in this process are in use',
      type: 'PROVIDER_BUSY',
      category: ApplicationFailureCategory.BENIGN,
    });
  }
  slots.set(provider, free() - 1);
  try {
    const limit = activityType === 'submit' ? { providerLimitSeconds: submitTimeoutMs / 1000 } : {};
    return await attempt(run, { refusalsMax, detail: { provider, ...limit } });
  } finally {
    slots.set(provider, free() + 1);
  }
}

/** Options of an attempt. */
interface AttemptOptions {
  /**
   * Number of attempts on the task queue after which a refusal is final. The first attempt, which
   * is a local activity, is not counted.
   */
  refusalsMax?: number;
  /**
   * Detail of the heartbeats, which the Temporal UI shows while the activity is pending, with the
   * time at which the attempt began.
   */
  detail?: { provider: string; providerLimitSeconds?: number };
}

/** Runs one attempt with heartbeats. @throws ApplicationFailure */
export async function attempt<Outcome>(
  run: () => Promise<Outcome>,
  { refusalsMax = Infinity, detail }: AttemptOptions = {},
): Promise<Outcome> {
  const context = Context.current();
  const since = new Date().toISOString();
  const beat = setInterval(
    () => context.heartbeat(detail && { ...detail, since }),
    heartbeatIntervalMs,
  );
  try {
    return await run();
  } catch (error) {
    throw toApplicationFailure(error, !context.info.isLocal && context.info.attempt >= refusalsMax);
  } finally {
    clearInterval(beat);
  }
}
