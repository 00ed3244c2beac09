/**
 * Submits of provider calls: sent once, by what is recorded; read again by attempts that find them recorded; and not
 * sent while an operator has paused the provider.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import pRetry, { type Options } from 'p-retry';
import type { CallOutputs, CallTask } from '../../jobs/job-plan.ts';
import { isDatabaseAway } from '../../platform/database.ts';
import { storageReference } from '../inputs/inputs.ts';
import {
  ProviderFailure,
  type FailureKind,
  type Operation,
  type ProviderResult,
  type Submitted,
} from '../providers/provider.ts';
import { jobSettledBefore } from './attempt.ts';
import type { BeginVerdict, CallName } from './call-records.ts';
import { callOf, providerOf, queueOf, stored, type ProviderCallsDeps } from './called-provider.ts';

/** A call that was taken, or must wait. */
export type SubmitOutcome =
  | { kind: 'operation'; operation: Operation }
  | { kind: 'outputs'; outputs: CallOutputs }
  /** Not sent: an operator has paused the provider. */
  | { kind: 'paused' };

/** What the record of an earlier submit says. */
export type AdoptOutcome =
  | Exclude<SubmitOutcome, { kind: 'paused' }>
  /** No provider has it, certainly: it may be sent. */
  | { kind: 'not_sent' };

/** How often an attempt that sends a call records that it runs, and how long a silent one is waited for. */
const touchIntervalMs = 4000;
const silenceMaxMs = 15_000;
const recordPollMs = 500;

/** Retries while the database is away; a longer outage is left to the retries of the workflow. */
const whileDatabaseIsAway = {
  retries: Infinity,
  minTimeout: 100,
  maxTimeout: 2000,
  shouldRetry: ({ error }) => isDatabaseAway(error),
} satisfies Options;
/** A connection may be lost, or all of them. */
const beforeSend: Options = { ...whileDatabaseIsAway, maxRetryTime: 5000 };
/** Longer than any restart of Postgres. */
const afterSent: Options = { ...whileDatabaseIsAway, maxRetryTime: 120_000 };

/** Sends a call that was not sent before; otherwise reads what the earlier submit came to. */
export async function submit(deps: ProviderCallsDeps, task: CallTask): Promise<SubmitOutcome> {
  const readable = await withReadableInput(deps, task);
  const { routeIndex, route } = task;
  const sending = {
    ...callOf(task),
    routeIndex,
    provider: route.provider,
    endpoint: route.operation,
    senderId: randomUUID(),
  };
  // Repeated here, because no other attempt can know that this one has sent nothing.
  const begun = await latest(() => pRetry(() => deps.records.begin(sending), beforeSend));
  if (begun?.verdict === 'send') return submitNew(deps, readable);
  if (begun?.verdict === 'paused') return { kind: 'paused' };
  if (begun?.verdict === 'settled') throw jobSettledBefore();
  return recorded(deps, task, begun);
}

/** Reads what an earlier submit of a call came to; waits for one that is still in flight. Sends nothing. */
export async function adopt(deps: ProviderCallsDeps, task: CallTask): Promise<AdoptOutcome> {
  const found = await latest(() => deps.records.find(callOf(task)));
  if (found === null || found.verdict === 'refused' || found.verdict === 'waiting') {
    return { kind: 'not_sent' };
  }
  return recorded(deps, task, found);
}

/** The outcome that the record of a submit stands for. */
async function recorded(
  deps: ProviderCallsDeps,
  task: CallTask,
  found: BeginVerdict | null,
): Promise<Exclude<SubmitOutcome, { kind: 'paused' }>> {
  if (found?.verdict === 'accepted') return { kind: 'operation', operation: found.operation };
  if (found?.verdict === 'answered') return { kind: 'outputs', outputs: found.outputs };
  const isNamed = found?.verdict === 'begun' || found?.verdict === 'unknown';
  if (!isNamed || found.notifiedId === null) {
    throw new ProviderFailure('unknown', 'an earlier attempt may have reached the provider');
  }
  const operation = queueOf(deps, task).adopt(task.route.operation, found.notifiedId);
  await deps.records.accepted({ ...callOf(task), operation });
  return { kind: 'operation', operation };
}

/** Reads the record until it says more than that another attempt is sending the call, or that one is silent. */
async function latest(read: () => Promise<BeginVerdict | null>): Promise<BeginVerdict | null> {
  let touchedAtMs = 0;
  let seenAtMs = 0;
  for (;;) {
    const found = await read();
    if (found?.verdict !== 'begun' || found.notifiedId !== null) return found;
    // The silence is measured here: while the database was away the sender could record nothing.
    if (found.touchedAtMs !== touchedAtMs) seenAtMs = performance.now();
    ({ touchedAtMs } = found);
    if (performance.now() - seenAtMs > silenceMaxMs) return found;
    await sleep(recordPollMs, undefined, { signal: Context.current().cancellationSignal });
  }
}

/**
 * Returns when one of these routes of a call may be tried.
 * @throws ApplicationFailure PROVIDER_PAUSED while the providers of all are paused: Temporal retries it
 */
export async function awaitResume(deps: ProviderCallsDeps, routes: CallTask[]): Promise<void> {
  for (const task of routes) {
    const { routeIndex, route } = task;
    const { provider, operation: endpoint } = route;
    const waiting = { ...callOf(task), routeIndex, provider, endpoint, wait: true } as const;
    const { verdict } = await deps.records.begin(waiting);
    if (verdict !== 'paused') return;
  }
  throw ApplicationFailure.create({
    message: `paused: ${routes.map(({ route }) => route.provider).join(', ')}`,
    type: 'PROVIDER_PAUSED',
    category: ApplicationFailureCategory.BENIGN,
  });
}

/** Signs the URLs of own files for this attempt: a plan carries references. */
async function withReadableInput(deps: ProviderCallsDeps, task: CallTask): Promise<CallTask> {
  const { source, route, organizationId } = task;
  const named = source ? { [source.field]: storageReference(source.storageKey) } : {};
  const input = await deps.inputs.sign({ ...route.input, ...named }, organizationId);
  return { ...task, route: { ...route, input } };
}

async function submitNew(deps: ProviderCallsDeps, task: CallTask): Promise<SubmitOutcome> {
  const touching = setInterval(() => {
    deps.records.touched(callOf(task)).catch(() => {});
  }, touchIntervalMs);
  try {
    const submitted = await send(deps, task);
    if (submitted.kind === 'result') return await keepResult(deps, task, submitted.result);
    const { operation } = submitted;
    await afterSend(deps, task, (call) => deps.records.accepted({ ...call, operation }));
    return submitted;
  } finally {
    clearInterval(touching);
  }
}

async function keepResult(
  deps: ProviderCallsDeps,
  task: CallTask,
  result: ProviderResult,
): Promise<SubmitOutcome> {
  try {
    const outputs = await stored(deps, task, result);
    await afterSend(deps, task, (call) => deps.records.answered({ ...call, outputs }));
    return { kind: 'outputs', outputs };
  } catch (error) {
    // The bytes are gone with this attempt, and the provider was paid for them.
    await afterSend(deps, task, deps.records.unknown);
    throw error;
  }
}

/** Failures after which a call is never sent again by any attempt. */
const mayHaveBeenTaken: ReadonlySet<FailureKind> = new Set(['unknown', 'failed']);

async function send(deps: ProviderCallsDeps, task: CallTask): Promise<Submitted> {
  const provider = providerOf(deps, task);
  try {
    return await provider.submit({
      operation: task.route.operation,
      input: task.route.input,
      notificationUrl: deps.urls.urlFor({ ...callOf(task), provider: provider.name }),
      idempotencyKey: `${task.jobId}:${task.callIndex}`,
      // Not the activity's own signal: shutting down must not leave the call's outcome unknown.
      signal: AbortSignal.timeout(task.route.submitTimeoutMs),
    });
  } catch (error) {
    // Left as begun, the call could never be sent again, and attempts that wait for its record would time out.
    const wasTaken = !(error instanceof ProviderFailure) || mayHaveBeenTaken.has(error.kind);
    await afterSend(deps, task, wasTaken ? deps.records.unknown : deps.records.refused);
    throw error;
  }
}

/**
 * Records what a call that was sent came to, for as long as a database may be away, even if this attempt was given up.
 * A record that cannot be written is not the only one: the workflow's history has it too, or the provider's
 * notification names the call.
 */
async function afterSend(
  { logger }: ProviderCallsDeps,
  task: CallTask,
  write: (call: CallName) => Promise<void>,
): Promise<void> {
  await pRetry(() => write(callOf(task)), afterSent).catch((error: unknown) => {
    logger.warn({ error, ...callOf(task) }, 'call.not_recorded');
  });
}
