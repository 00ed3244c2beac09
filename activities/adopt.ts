/** Activity `adopt`: reads what an earlier submit of a call came to. It sends nothing. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import type { CallOutputs, CallTask } from '../jobs/job-plan.ts';
import type { BeginVerdict } from '../providers/call-records.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderOperation } from '../providers/provider.ts';
import { callOf, queueOf, type ProviderCallDeps } from './called-provider.ts';

/** A call that a provider has accepted, or has answered at once. */
export type AcceptedOutcome =
  | { kind: 'operation'; operation: ProviderOperation }
  | { kind: 'outputs'; outputs: CallOutputs; providerRequestId: string | null };

/** Outcome of an earlier submit; `not_sent`: certainly no provider has the call, so it may be sent. */
export type AdoptOutcome = AcceptedOutcome | { kind: 'not_sent' };

/** Longest time without a sign of life from the attempt that sends a call, and time between two looks, in milliseconds. */
const silenceMaxMs = 15_000;
const recordPollMs = 500;

/**
 * Reads what an earlier submit of a call came to; waits for one that is still in flight.
 * @throws ProviderFailure `unknown` when the call may have been sent and nothing more is known
 */
export async function adopt(deps: ProviderCallDeps, task: CallTask): Promise<AdoptOutcome> {
  const found = await decided(() => deps.records.find(callOf(task)));
  if (found === null || found.verdict === 'refused' || found.verdict === 'waiting') {
    return { kind: 'not_sent' };
  }
  return recorded(deps, task, found);
}

/** Returns the outcome that the record of a submit stands for. @throws ProviderFailure `unknown` */
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

/** Reads the record of a call until no other attempt is sending it, or the other attempt is silent for too long. */
export async function decided(
  read: () => Promise<BeginVerdict | null>,
): Promise<BeginVerdict | null> {
  let touchedAtMs = 0;
  let seenAtMs = 0;
  for (;;) {
    const found = await read();
    if (found?.verdict !== 'begun' || found.notifiedId !== null) return found;
    // The silence is measured by this process's clock: while the database is away, the sender can record nothing.
    if (found.touchedAtMs !== touchedAtMs) seenAtMs = performance.now();
    ({ touchedAtMs } = found);
    if (performance.now() - seenAtMs > silenceMaxMs) return found;
    await sleep(recordPollMs, undefined, { signal: Context.current().cancellationSignal });
  }
}
