/**
 * Waits for the outputs of a call that its provider has accepted. A notification only means that
 * the call may have ended; the step `store` always reads the result from the provider. While the
 * outcome is unknown, no credits are released.
 */
import type { RunningCall } from './running-job.ts';
import { callStep, runStep } from './steps.ts';
import { condition } from '@temporalio/workflow';
import type { CallOutputs } from '../domain/job-plan.ts';
import type { ProviderOperation } from '../providers/provider.ts';
import { createFailure, readFailure } from './failures.ts';
import { decideNext, calculateWaitMs, type WaitState } from './next-check.ts';
import { formatTimeUtc, formatRequest } from './progress.ts';

/** Shows callers that the outcome of the job is being verified. */
export function markVerifying(running: RunningCall): Promise<void> {
  return runStep(running, callStep(running, 'markVerifying'), (activities) =>
    activities.markVerifying(running.plan.jobId),
  );
}

/**
 * Failure types of the steps `check` and `store` that end the call. After a failure of another
 * type, the call is checked again.
 */
const finalFailures: ReadonlySet<string> = new Set([
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'PROVIDER_ERROR',
  'STORAGE_ERROR',
  'CANCELED',
  'INPUT_UNREAD',
]);

/**
 * Waits until a provider operation ends, and returns the outputs of its call. A notification, a
 * timer, a check request or a cancellation triggers each check.
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
    const waitMs = calculateWaitMs(waiting, Date.now());
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
      {
        summary: `${formatRequest(running, operation.id)}: wait for a notification until the next check`,
      },
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
 * Stores the outputs of a call that has ended. If no notification arrived, requests the status of
 * the call first. Returns null if the provider is still working on the call, or if the status or
 * the result could not be read.
 */
async function storeIfEnded(
  running: RunningCall,
  operation: ProviderOperation,
): Promise<CallOutputs | null> {
  const { call, signals, progress, deadlineAtMs, task } = running;
  const isNotified = signals.isNotified(call.index);
  if (isNotified) signals.clearNotification(call.index);
  const acceptedCall = { ...task, operation };
  let step = callStep(running, 'check');
  try {
    if (!isNotified) {
      const checkOutcome = await runStep(running, step, (activities) =>
        activities.check(acceptedCall),
      );
      if (checkOutcome.kind === 'pending') return null;
    }
    step = callStep(running, 'store');
    return await runStep(running, step, (activities) =>
      activities.store({ ...acceptedCall, notified: isNotified }),
    );
  } catch (error) {
    const failure = readFailure(error);
    const { type } = failure;
    progress.addFailure(step, failure);
    // If the provider or the database is unreachable, the call is checked again.
    if (type === null || !finalFailures.has(type)) return null;
    if (type === 'CANCELED' && !signals.cancelRequested) {
      throw Date.now() >= deadlineAtMs
        ? createFailure('DEADLINE_EXCEEDED', 'the provider did not finish in time')
        : createFailure('PROVIDER_ERROR', 'the provider canceled the call');
    }
    // The message of the provider's failure does not say that the caller requested it.
    if (type === 'CANCELED') throw createFailure('CANCELED', 'the job was canceled on request');
    throw error;
  }
}

/** Requests cancellation of a call. A later check shows whether the provider has canceled it. */
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
    // If the request fails, the workflow keeps waiting: the next check shows the status.
    progress.addFailure(step, readFailure(error));
  }
}
