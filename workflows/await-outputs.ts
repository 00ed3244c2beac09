/**
 * Wait for the outputs of a call that its provider has accepted. A notification is not a result:
 * `store` reads the result from the provider. While the outcome is unknown, nothing is released
 * (design §3.5, §3.6).
 */
import { condition } from '@temporalio/workflow';
import type { CallOutputs } from '../jobs/job-plan.ts';
import type { ProviderOperation } from '../providers/provider.ts';
import { failed, failureOf } from './failures.ts';
import { markVerifying } from './mark-verifying.ts';
import { next, waitOf, type Waiting } from './next-check.ts';
import { clock, requestText } from './row-texts.ts';
import type { RunningCall } from './running-job.ts';
import { stepOf } from './step.ts';
import { run } from './steps.ts';

/** Failure types of a status check that end the call. */
const finalFailures: ReadonlySet<string> = new Set([
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'PROVIDER_ERROR',
  'STORAGE_ERROR',
  'CANCELED',
]);

/** Waits until the operation ends; a notification or a timer triggers each check. */
export async function awaitOutputs(
  running: RunningCall,
  operation: ProviderOperation,
): Promise<CallOutputs> {
  const { plan, call, route, signals, progress, deadlineAtMs } = running;
  signals.expect(call.index, operation.id);
  const firstWait = { waitMs: call.firstCheckMs, cancelSent: false, overdue: false };
  let waiting: Waiting = { deadlineAtMs, outcomeWaitMs: plan.outcomeWaitMs, ...firstWait };
  for (;;) {
    const { checkRequests } = signals;
    const waitMs = waitOf(waiting, Date.now());
    const state = waiting.overdue ? 'the outcome is unknown' : `${route.provider} works on it`;
    progress.call(call.index, `${state}, next check at ${clock(Date.now() + waitMs)}`);
    const { cancelSent } = waiting;
    await condition(
      () =>
        signals.isNotified(call.index) ||
        signals.checkRequests > checkRequests ||
        (signals.cancelRequested && !cancelSent),
      waitMs,
      { summary: `${requestText(running, operation.id)}: notification, or the next check` },
    );
    const outputs = await collect(running, operation);
    if (outputs) return outputs;

    const follows = next(waiting, {
      nowMs: Date.now(),
      cancelRequested: signals.cancelRequested,
    });
    ({ waiting } = follows);
    for (const action of follows.actions) {
      if (action === 'give_up') {
        throw failed('OUTCOME_UNKNOWN', 'the provider reported no outcome after the deadline');
      }
      await (action === 'cancel' ? cancel(running, operation) : markVerifying(running));
    }
  }
}

/**
 * Stores the outputs of a call that has ended: at once after a notification, otherwise after a
 * check. Returns null while the provider works on the call, and if its status or result could not
 * be read.
 */
async function collect(
  running: RunningCall,
  operation: ProviderOperation,
): Promise<CallOutputs | null> {
  const { call, signals, progress, deadlineAtMs, task } = running;
  const notified = signals.isNotified(call.index);
  if (notified) signals.takeNotification(call.index);
  const accepted = { ...task, operation };
  let step = stepOf(running, 'check');
  try {
    if (!notified) {
      const checked = await run(running, step, (activities) => activities.check(accepted));
      if (checked.kind === 'pending') return null;
    }
    step = stepOf(running, 'store');
    return await run(running, step, (activities) => activities.store({ ...accepted, notified }));
  } catch (error) {
    const failure = failureOf(error);
    const { type } = failure;
    progress.failed(step, failure);
    // An unreachable provider or database leaves the outcome unknown.
    if (type === null || !finalFailures.has(type)) return null;
    if (type === 'CANCELED' && !signals.cancelRequested) {
      throw Date.now() >= deadlineAtMs
        ? failed('DEADLINE_EXCEEDED', 'the provider did not finish in time')
        : failed('PROVIDER_ERROR', 'the provider canceled the work');
    }
    throw error;
  }
}

/** Sends a cancel to the provider. A later check shows whether the provider has stopped. */
async function cancel(running: RunningCall, operation: ProviderOperation): Promise<void> {
  const { call, route, progress, task } = running;
  progress.call(call.index, `canceling at ${route.provider}`);
  const step = stepOf(running, 'cancel');
  try {
    await run(running, step, (activities) => activities.cancel({ ...task, operation }));
  } catch (error) {
    // A failed cancel changes nothing: the next check shows the status.
    progress.failed(step, failureOf(error));
  }
}
