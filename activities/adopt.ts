/** Activity `adopt`: reads the recorded outcome of an earlier submit. It sends no call. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import type { CallOutputs, CallInput } from '../domain/job-plan.ts';
import type { BeginResult } from '../providers/call-records.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderOperation } from '../providers/provider.ts';
import { getCallIds, getOperations, type ProviderCallDeps } from './attempt.ts';

/**
 * Outcome of a call that a provider has accepted. `operation`: the provider has queued the call.
 * `outputs`: the provider responded with the result, whose outputs are stored.
 */
export type AcceptedOutcome =
  | { kind: 'operation'; operation: ProviderOperation }
  | { kind: 'outputs'; outputs: CallOutputs; providerRequestId: string | null };

/**
 * Outcome of an earlier submit. `not_sent`: no provider has accepted the call, so it may be sent.
 */
export type AdoptOutcome = AcceptedOutcome | { kind: 'not_sent' };

/**
 * Maximum time between two updates of the record by the attempt that sends the call. If it is
 * exceeded, the attempt is presumed to have crashed.
 */
const updateIntervalMaxMs = 15_000;
/** Interval between two reads of the record. */
const recordPollMs = 500;

/**
 * Reads the outcome of an earlier submit of a call. Waits while that submit is in progress.
 * @throws ProviderFailure `unknown` if the call may have been sent and its outcome is unknown
 */
export async function adopt(deps: ProviderCallDeps, task: CallInput): Promise<AdoptOutcome> {
  const record = await waitUntilDecided(() => deps.records.find(getCallIds(task)));
  if (record === null || record.verdict === 'not_accepted' || record.verdict === 'waiting') {
    return { kind: 'not_sent' };
  }
  return outcomeFromRecord(deps, task, record);
}

/**
 * Returns the outcome in the record of a call. If only a notification contains the operation id,
 * records the call as accepted.
 * @throws ProviderFailure `unknown` if the record contains no outcome
 */
export async function outcomeFromRecord(
  deps: ProviderCallDeps,
  task: CallInput,
  record: BeginResult | null,
): Promise<AcceptedOutcome> {
  if (record?.verdict === 'accepted') return { kind: 'operation', operation: record.operation };
  if (record?.verdict === 'answered') {
    const { outputs, providerRequestId } = record;
    return { kind: 'outputs', outputs, providerRequestId };
  }
  const mayBeNotified = record?.verdict === 'begun' || record?.verdict === 'unknown';
  if (!mayBeNotified || record.notifiedId === null) {
    throw new ProviderFailure('unknown', 'an earlier attempt may have sent the call');
  }
  const operation = getOperations(deps, task).adopt(task.route.providerEndpoint, record.notifiedId);
  await deps.records.markAccepted({ ...getCallIds(task), operation });
  return { kind: 'operation', operation };
}

/**
 * Polls the record of a call until no other attempt is sending the call, or the attempt that sends
 * it has not updated the record for `updateIntervalMaxMs`.
 */
export async function waitUntilDecided(
  read: () => Promise<BeginResult | null>,
): Promise<BeginResult | null> {
  let updatedAtMs = 0;
  let updateSeenAtMs = 0;
  for (;;) {
    const record = await read();
    if (record?.verdict !== 'begun' || record.notifiedId !== null) return record;
    // The time since the last update is measured with the clock of this process, from the read that
    // first returned the update. After a database outage, `updatedAtMs` is old even if the attempt
    // that sends the call is still running.
    if (record.updatedAtMs !== updatedAtMs) updateSeenAtMs = performance.now();
    ({ updatedAtMs } = record);
    if (performance.now() - updateSeenAtMs > updateIntervalMaxMs) return record;
    await sleep(recordPollMs, undefined, { signal: Context.current().cancellationSignal });
  }
}
