/** Activity `adopt`: reads the recorded outcome of an earlier submit, without sending anything. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import type { CallOutputs, CallTask } from '../jobs/job-plan.ts';
import type { BeginVerdict } from '../providers/call-records.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderOperation } from '../providers/provider.ts';
import { getCallIds, getOperations, type ProviderCallDeps } from './called-provider.ts';

/**
 * Outcome of a call that a provider has accepted: the queued operation, or the stored outputs if
 * the provider responded with the result.
 */
export type AcceptedOutcome =
  | { kind: 'operation'; operation: ProviderOperation }
  | { kind: 'outputs'; outputs: CallOutputs; providerRequestId: string | null };

/**
 * Outcome of an earlier submit. `not_sent` means that no provider has accepted the call, so it is
 * safe to send it.
 */
export type AdoptOutcome = AcceptedOutcome | { kind: 'not_sent' };

/**
 * How long the record may go without an update before the attempt that sends the call is presumed
 * crashed.
 */
const silenceMaxMs = 15_000;
/** Interval between reads of the record. */
const recordPollMs = 500;

/**
 * Reads the outcome of an earlier submit of a call. Waits while that submit is in progress.
 * @throws ProviderFailure `unknown` if the call may have been sent and its outcome is unknown
 */
export async function adopt(deps: ProviderCallDeps, task: CallTask): Promise<AdoptOutcome> {
  const found = await waitUntilDecided(() => deps.records.find(getCallIds(task)));
  if (found === null || found.verdict === 'not_accepted' || found.verdict === 'waiting') {
    return { kind: 'not_sent' };
  }
  return outcomeFromRecord(deps, task, found);
}

/**
 * Returns the outcome in the record of a submit. If only a notification identifies the operation,
 * records the call as accepted.
 * @throws ProviderFailure `unknown` if the record contains no outcome
 */
export async function outcomeFromRecord(
  deps: ProviderCallDeps,
  task: CallTask,
  found: BeginVerdict | null,
): Promise<AcceptedOutcome> {
  if (found?.verdict === 'accepted') return { kind: 'operation', operation: found.operation };
  if (found?.verdict === 'answered') {
    const { outputs, providerRequestId } = found;
    return { kind: 'outputs', outputs, providerRequestId };
  }
  const mayBeNotified = found?.verdict === 'begun' || found?.verdict === 'unknown';
  if (!mayBeNotified || found.notifiedId === null) {
    throw new ProviderFailure('unknown', 'an earlier attempt may have sent the call');
  }
  const operation = getOperations(deps, task).adopt(task.route.providerEndpoint, found.notifiedId);
  await deps.records.markAccepted({ ...getCallIds(task), operation });
  return { kind: 'operation', operation };
}

/**
 * Polls the record of a call until no other attempt is sending the call, or the attempt that sends
 * it has not updated the record for `silenceMaxMs`.
 */
export async function waitUntilDecided(
  read: () => Promise<BeginVerdict | null>,
): Promise<BeginVerdict | null> {
  let touchedAtMs = 0;
  let seenAtMs = 0;
  for (;;) {
    const found = await read();
    if (found?.verdict !== 'begun' || found.notifiedId !== null) return found;
    // Only successful reads count, measured with this process's clock: while the database is
    // unavailable, the attempt that sends the call cannot update the record.
    if (found.touchedAtMs !== touchedAtMs) seenAtMs = performance.now();
    ({ touchedAtMs } = found);
    if (performance.now() - seenAtMs > silenceMaxMs) return found;
    await sleep(recordPollMs, undefined, { signal: Context.current().cancellationSignal });
  }
}
