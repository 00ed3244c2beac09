/**
 * Waits for the outputs of a call that its provider has accepted. A notification only says that the
 * call may have ended: `store` always reads the result from the provider. While the outcome is
 * unknown, no credits are released.
 */
import { condition } from '@temporalio/workflow';
import type { CallOutputs } from '../jobs/job-plan.ts';
import type { ProviderOperation } from '../providers/provider.ts';
import { createFailure, readFailure } from './failures.ts';
import { markVerifying } from './mark-verifying.ts';
import { decideNext, nextWaitMs, type WaitState } from './next-check.ts';
import { formatTimeUtc, requestLabel } from './display-texts.ts';
import type { RunningCall } from './running-job.ts';
import { callStep } from './step.ts';
import { runStep } from './steps.ts';

/**
 * Failure types that end the call when a check or `store` reports them. After any other failure,
 * the call is checked again.
 */
const finalFailures: ReadonlySet<string> = new Set([
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'PROVIDER_ERROR',
  'STORAGE_ERROR',
  'CANCELED',
]);

/**
 * Waits until the operation ends, and returns its outputs. Each check is triggered by a
 * notification, a timer, a check request or a cancellation.
 */
export async function awaitOutputs(
  running: RunningCall,
  operation: ProviderOperation,
): Promise<CallOutputs> {
  const { plan, call, route, signals, progress, deadlineAtMs } = running;
  signals.expectOperation(call.index, operation.id);
  const firstWait = { waitMs: call.firstCheckMs, cancelSent: false, overdue: false };
  let waiting: WaitState = { deadlineAtMs, outcomeWaitMs: plan.outcomeWaitMs, ...firstWait };
  for (;;) {
    const { checkRequests } = signals;
    const waitMs = nextWaitMs(waiting, Date.now());
    const state = waiting.overdue ? 'the outcome is unknown' : `${route.provider} is working on it`;
    progress.setCallPhase(
      call.index,
      `${state}, next check at ${formatTimeUtc(Date.now() + waitMs)}`,
    );
    const { cancelSent } = waiting;
    await condition(
      () =>
        signals.isNotified(call.index) ||
        signals.checkRequests > checkRequests ||
        (signals.cancelRequested && !cancelSent),
      waitMs,
      { summary: `${requestLabel(running, operation.id)}: notification, or the next check` },
    );
    const outputs = await storeIfEnded(running, operation);
    if (outputs) return outputs;

    const decision = decideNext(waiting, {
      nowMs: Date.now(),
      cancelRequested: signals.cancelRequested,
    });
    ({ waiting } = decision);
    for (const action of decision.actions) {
      if (action === 'give_up') {
        throw createFailure(
          'OUTCOME_UNKNOWN',
          'the provider reported no outcome after the deadline',
        );
      }
      await (action === 'cancel'
        ? requestCancellation(running, operation)
        : markVerifying(running));
    }
  }
}

/**
 * Stores the outputs of a call that has ended. A status check comes first, unless a notification
 * arrived. Returns null if the provider is still working on the call, or if its status or result
 * could not be read.
 */
async function storeIfEnded(
  running: RunningCall,
  operation: ProviderOperation,
): Promise<CallOutputs | null> {
  const { call, signals, progress, deadlineAtMs, task } = running;
  const notified = signals.isNotified(call.index);
  if (notified) signals.clearNotification(call.index);
  const accepted = { ...task, operation };
  let step = callStep(running, 'check');
  try {
    if (!notified) {
      const checked = await runStep(running, step, (activities) => activities.check(accepted));
      if (checked.kind === 'pending') return null;
    }
    step = callStep(running, 'store');
    return await runStep(running, step, (activities) =>
      activities.store({ ...accepted, notified }),
    );
  } catch (error) {
    const failure = readFailure(error);
    const { type } = failure;
    progress.addFailure(step, failure);
    // An unreachable provider or database leaves the outcome unknown.
    if (type === null || !finalFailures.has(type)) return null;
    if (type === 'CANCELED' && !signals.cancelRequested) {
      throw Date.now() >= deadlineAtMs
        ? createFailure('DEADLINE_EXCEEDED', 'the provider did not finish in time')
        : createFailure('PROVIDER_ERROR', 'the provider canceled the call');
    }
    throw error;
  }
}

/**
 * Requests cancellation from the provider. A later check shows whether the provider has stopped.
 */
async function requestCancellation(
  running: RunningCall,
  operation: ProviderOperation,
): Promise<void> {
  const { call, route, progress, task } = running;
  progress.setCallPhase(call.index, `requesting cancellation from ${route.provider}`);
  const step = callStep(running, 'cancel');
  try {
    await runStep(running, step, (activities) => activities.cancel({ ...task, operation }));
  } catch (error) {
    // A failed request changes nothing: the next check shows the status.
    progress.addFailure(step, readFailure(error));
  }
}
