/** Activity `adopt`: reads the outcome of an earlier submit of a call. It sends nothing. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import type { CallOutputs, CallTask } from '../jobs/job-plan.ts';
import type { BeginVerdict } from '../providers/call-records.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderOperation } from '../providers/provider.ts';
import { callOf, queueOf, type ProviderCallDeps } from './called-provider.ts';

/**
 * Call that a provider has accepted: the queued operation, or the outputs of an immediate result.
 */
export type AcceptedOutcome =
  | { kind: 'operation'; operation: ProviderOperation }
  | { kind: 'outputs'; outputs: CallOutputs; providerRequestId: string | null };

/**
 * Outcome of an earlier submit; `not_sent`: no provider has accepted the call, so it may be sent.
 */
export type AdoptOutcome = AcceptedOutcome | { kind: 'not_sent' };

/** Time without an update of the record after which the sending attempt counts as crashed. */
const silenceMaxMs = 15_000;
/** Time between two reads of the record, in milliseconds. */
const recordPollMs = 500;

/**
 * Reads the outcome of an earlier submit of a call; waits while that submit is in progress.
 * @throws ProviderFailure `unknown` if the call may have been sent and its outcome is unknown
 */
export async function adopt(deps: ProviderCallDeps, task: CallTask): Promise<AdoptOutcome> {
  const found = await decided(() => deps.records.find(callOf(task)));
  if (found === null || found.verdict === 'refused' || found.verdict === 'waiting') {
    return { kind: 'not_sent' };
  }
  return recorded(deps, task, found);
}

/** Returns the outcome that the record of a submit contains. @throws ProviderFailure `unknown` */
export async function recorded(
  deps: ProviderCallDeps,
  task: CallTask,
  found: BeginVerdict | null,
): Promise<AcceptedOutcome> {
  if (found?.verdict === 'accepted') return { kind: 'operation', operation: found.operation };
  if (found?.verdict === 'answered') {
    const { outputs, providerRequestId } = found;
    return { kind: 'outputs', outputs, providerRequestId };
  }
  const isNamed = found?.verdict === 'begun' || found?.verdict === 'unknown';
  if (!isNamed || found.notifiedId === null) {
    throw new ProviderFailure('unknown', 'an earlier attempt may have reached the provider');
  }
  const operation = queueOf(deps, task).adopt(task.route.providerEndpoint, found.notifiedId);
  await deps.records.accepted({ ...callOf(task), operation });
  return { kind: 'operation', operation };
}

/**
 * Reads the record of a call repeatedly, until no other attempt is sending the call, or the sending
 * attempt has not updated the record for `silenceMaxMs`.
 */
export async function decided(
  read: () => Promise<BeginVerdict | null>,
): Promise<BeginVerdict | null> {
  let touchedAtMs = 0;
  let seenAtMs = 0;
  for (;;) {
    const found = await read();
    if (found?.verdict !== 'begun' || found.notifiedId !== null) return found;
    // The time is measured by this process's clock, because the sending attempt cannot update the
    // record while the database is unavailable.
    if (found.touchedAtMs !== touchedAtMs) seenAtMs = performance.now();
    ({ touchedAtMs } = found);
    if (performance.now() - seenAtMs > silenceMaxMs) return found;
    await sleep(recordPollMs, undefined, { signal: Context.current().cancellationSignal });
  }
}
