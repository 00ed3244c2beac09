/**
 * Activity `submit`: sends a call to its provider at most once, and not while the provider is
 * paused.
 */
import { randomUUID } from 'node:crypto';
import pRetry, { type Options } from 'p-retry';
import type { CallTask } from '../jobs/job-plan.ts';
import { isDatabaseAway } from '../platform/database-errors.ts';
import type { CallName } from '../providers/call-records.ts';
import { ProviderFailure, type FailureKind } from '../domain/provider-failure.ts';
import type { Submitted } from '../providers/provider.ts';
import { storageReference } from '../storage/inputs/storage-references.ts';
import { decided, recorded, type AcceptedOutcome } from './adopt.ts';
import { jobSettledBefore } from './activity-failures.ts';
import { callOf, providerOf, stored, type ProviderCallDeps } from './called-provider.ts';

/** Outcome of a submit; `paused`: nothing was sent, because an operator has paused the provider. */
export type SubmitOutcome = AcceptedOutcome | { kind: 'paused' };

/** Interval at which the attempt records that it is still sending the call, in milliseconds. */
const touchIntervalMs = 4000;

/**
 * Retries while the database is unavailable. After a longer outage, the workflow retries the
 * activity.
 */
const whileDatabaseIsAway = {
  retries: Infinity,
  minTimeout: 100,
  maxTimeout: 2000,
  shouldRetry: ({ error }) => isDatabaseAway(error),
} satisfies Options;
/** Retries before a call is sent, because connections to the database may be lost. */
const beforeSend: Options = { ...whileDatabaseIsAway, maxRetryTime: 5000 };
/** Retries after a call was sent; they last longer than a restart of Postgres. */
const afterSend: Options = { ...whileDatabaseIsAway, maxRetryTime: 120_000 };

/**
 * Sends a call that was not sent before; otherwise returns the outcome of the earlier submit.
 * @throws ProviderFailure; ApplicationFailure JOB_LOST if the job was settled before
 */
export async function submit(deps: ProviderCallDeps, task: CallTask): Promise<SubmitOutcome> {
  const readable = await withReadableInput(deps, task);
  const { routeIndex, route } = task;
  const sending = {
    ...callOf(task),
    routeIndex,
    provider: route.provider,
    providerEndpoint: route.providerEndpoint,
    senderId: randomUUID(),
  };
  // `begin` is retried within the attempt, because no other attempt can know that this one has sent
  // nothing.
  const begun = await decided(() => pRetry(() => deps.records.begin(sending), beforeSend));
  if (begun?.verdict === 'send') return sendAndKeep(deps, readable);
  if (begun?.verdict === 'paused') return { kind: 'paused' };
  if (begun?.verdict === 'settled') throw jobSettledBefore();
  return recorded(deps, task, begun);
}

/** Replaces references to stored files with signed URLs, which are valid for this attempt only. */
async function withReadableInput(deps: ProviderCallDeps, task: CallTask): Promise<CallTask> {
  const { source, route, organizationId } = task;
  const named = source ? { [source.field]: storageReference(source.storageKey) } : {};
  const input = await deps.inputs.sign({ ...route.input, ...named }, organizationId);
  return { ...task, route: { ...route, input } };
}

/** Sends the call and records its outcome. */
async function sendAndKeep(deps: ProviderCallDeps, task: CallTask): Promise<SubmitOutcome> {
  const touching = setInterval(() => {
    deps.records.touched(callOf(task)).catch(() => {});
  }, touchIntervalMs);
  try {
    const submitted = await send(deps, task);
    if (submitted.kind === 'result') return await keepResult(deps, task, submitted);
    const { operation } = submitted;
    await record(deps, task, (call) => deps.records.accepted({ ...call, operation }));
    return submitted;
  } finally {
    clearInterval(touching);
  }
}

/** Stores a result that the provider returned in its response to the submit. */
async function keepResult(
  deps: ProviderCallDeps,
  task: CallTask,
  { result, providerRequestId }: Extract<Submitted, { kind: 'result' }>,
): Promise<SubmitOutcome> {
  deps.records
    .responded(callOf(task), providerRequestId)
    .catch((error: unknown) => deps.logger.info({ error, ...callOf(task) }, 'call.not_recorded'));
  try {
    const outputs = await stored(deps, task, result);
    await record(deps, task, (call) => deps.records.answered({ ...call, outputs }));
    return { kind: 'outputs', outputs, providerRequestId };
  } catch (error) {
    // The outcome is recorded as unknown, because the result cannot be read again and the provider
    // may charge for it.
    await record(deps, task, (call) => deps.records.unknown(call, providerRequestId));
    throw error;
  }
}

/** Failures after which a call is never sent again by any attempt. */
const mayBeAccepted: ReadonlySet<FailureKind> = new Set(['unknown', 'failed']);

/**
 * Sends the call once. A failure is recorded, because a call that stays `begun` is never sent
 * again.
 */
async function send(deps: ProviderCallDeps, task: CallTask): Promise<Submitted> {
  const provider = providerOf(deps, task);
  try {
    return await provider.submit({
      providerEndpoint: task.route.providerEndpoint,
      input: task.route.input,
      notificationUrl: deps.urls.urlFor({ ...callOf(task), provider: provider.name }),
      idempotencyKey: `${task.jobId}:${task.callIndex}`,
      // The activity's own signal is not used: the shutdown of a worker must not make the outcome
      // unknown.
      signal: AbortSignal.timeout(task.route.submitTimeoutMs),
    });
  } catch (error) {
    const isPossible = !(error instanceof ProviderFailure) || mayBeAccepted.has(error.kind);
    const providerRequestId = error instanceof ProviderFailure ? error.providerRequestId : null;
    const { message } = error instanceof Error ? error : new Error(String(error));
    await record(deps, task, (call) =>
      isPossible
        ? deps.records.unknown(call, providerRequestId)
        : deps.records.refused(call, { message, providerRequestId }),
    );
    throw error;
  }
}

/**
 * Records the outcome of a sent call. The record is retried while the database is unavailable, also
 * after Temporal has given up the attempt. If the record cannot be written, the workflow's history
 * or a provider notification still names the call.
 */
async function record(
  { logger }: ProviderCallDeps,
  task: CallTask,
  write: (call: CallName) => Promise<void>,
): Promise<void> {
  await pRetry(() => write(callOf(task)), afterSend).catch((error: unknown) => {
    logger.warn({ error, ...callOf(task) }, 'call.not_recorded');
  });
}
