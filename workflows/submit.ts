/**
 * Submits a call on one route. A call is sent again only if the provider certainly did not accept
 * it. If the outcome of a submit is unknown, the workflow waits for a provider notification that
 * identifies the call.
 */
import { condition, upsertSearchAttributes } from '@temporalio/workflow';
import type { AcceptedOutcome, AdoptOutcome } from '../activities/adopt.ts';
import type { SubmitOutcome } from '../activities/submit.ts';
import { searchAttributes } from '../domain/job-contract.ts';
import { createFailure, readFailure } from './failures.ts';
import { markVerifying } from './mark-verifying.ts';
import { callPrefix } from './display-texts.ts';
import { throwIfCanceledOrOverdue, type RunningCall } from './running-job.ts';
import { callStep } from './step.ts';
import { runStep, runStepAsActivity } from './steps.ts';

/** Submits a call on its current route, and waits for a notification if the outcome is unknown. */
export async function submit(
  running: RunningCall,
): Promise<SubmitOutcome | { kind: 'not_accepted'; message: string }> {
  const { call, route, progress } = running;
  progress.setCallPhase(call.index, `submitting to ${route.provider}`);
  try {
    const submitOutcome = await sendCall(running);
    if (submitOutcome.kind !== 'paused') reportAccepted(running, submitOutcome);
    return submitOutcome;
  } catch (error) {
    const { type, message } = readFailure(error);
    if (type === 'PROVIDER_NOT_ACCEPTED') return { kind: 'not_accepted', message };
    // After a timeout, as after a lost connection, the outcome of the call is unknown.
    if (type !== 'OUTCOME_UNKNOWN' && type !== null) throw error;
    if (!route.notifies) throw createFailure('OUTCOME_UNKNOWN', message);
    await awaitNotification(running);
    const adoptOutcome = await adopt(running);
    if (adoptOutcome.kind === 'not_sent') throw createFailure('OUTCOME_UNKNOWN', message);
    reportAccepted(running, adoptOutcome);
    return adoptOutcome;
  }
}

/**
 * Sends a call. After a timeout or a cancellation, the submit may still be in progress, so its
 * recorded outcome is read first. Only if the provider certainly did not accept the call, it is
 * sent a second time.
 */
async function sendCall(running: RunningCall): Promise<SubmitOutcome> {
  const step = callStep(running, 'submit');
  for (const runAttempts of [runStep, runStepAsActivity]) {
    try {
      return await runAttempts(running, step, (activities) => activities.submit(running.task));
    } catch (error) {
      const failure = readFailure(error);
      if (failure.isFinal) running.progress.addFailure(step, failure);
      if (failure.type !== null) throw error;
    }
    const adoptOutcome = await adopt(running);
    if (adoptOutcome.kind !== 'not_sent') return adoptOutcome;
    throwIfCanceledOrOverdue(running);
  }
  throw createFailure('DEADLINE_EXCEEDED', 'no provider accepted the call in time');
}

/** Reads the recorded outcome of the submit of a call. */
async function adopt(running: RunningCall): Promise<AdoptOutcome> {
  const step = callStep(running, 'adopt');
  try {
    return await runStep(running, step, (activities) => activities.adopt(running.task));
  } catch (error) {
    running.progress.addFailure(step, readFailure(error));
    throw error;
  }
}

/** Waits for a notification with the operation id of a submit that got no response. */
async function awaitNotification(running: RunningCall): Promise<void> {
  const { plan, call, signals, progress } = running;
  progress.setCallPhase(
    call.index,
    'the outcome is unknown: waiting for a notification from the provider',
  );
  if (signals.isNotified(call.index)) return;
  await markVerifying(running);
  const isNotified = await condition(() => signals.isNotified(call.index), plan.outcomeWaitMs, {
    summary: `${callPrefix(running)}wait for a notification that identifies the call`,
  });
  if (!isNotified) {
    throw createFailure(
      'OUTCOME_UNKNOWN',
      'the provider did not report whether it accepted the call',
    );
  }
}

/**
 * Adds the provider request id of an accepted call to the progress and the search attributes. Also
 * sets the search attribute of the provider, unless the call was accepted on its first route.
 */
function reportAccepted(running: RunningCall, accepted: AcceptedOutcome): void {
  const { call, route, progress, providerRequestIds } = running;
  const isFirstRoute = call.routes[0] === route;
  const id = accepted.kind === 'operation' ? accepted.operation.id : accepted.providerRequestId;
  if (id) {
    progress.setCallPhase(call.index, `accepted by ${route.provider}`, id);
    providerRequestIds.push(id);
  }
  if (isFirstRoute && !id) return;
  upsertSearchAttributes([
    ...(isFirstRoute ? [] : [{ key: searchAttributes.provider, value: route.provider }]),
    ...(id ? [{ key: searchAttributes.providerRequestId, value: providerRequestIds }] : []),
  ]);
}
