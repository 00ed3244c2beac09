/**
 * Activity `submit`: sends a call to its provider, unless it may already have been sent or the
 * provider is paused.
 */
import { randomUUID } from 'node:crypto';
import pRetry, { type Options } from 'p-retry';
import type { CallTask } from '../jobs/job-plan.ts';
import { isDatabaseUnavailable } from '../platform/database-errors.ts';
import type { CallIds } from '../providers/call-records.ts';
import { ProviderFailure, type FailureKind } from '../domain/provider-failure.ts';
import type { SubmitResult } from '../providers/provider.ts';
import { toStorageReference } from '../storage/inputs/storage-references.ts';
import { waitUntilDecided, outcomeFromRecord, type AcceptedOutcome } from './adopt.ts';
import { alreadySettledFailure } from './activity-failures.ts';
import { getCallIds, getProvider, storeOutputs, type ProviderCallDeps } from './called-provider.ts';

/**
 * Outcome of a submit. `paused` means that the call was not sent, because an operator has paused
 * the provider.
 */
export type SubmitOutcome = AcceptedOutcome | { kind: 'paused' };

/** Interval at which the attempt records that it is still sending the call. */
const touchIntervalMs = 4000;

/** Retries database writes while the database is unavailable. */
const databaseRetries = {
  retries: Infinity,
  minTimeout: 100,
  maxTimeout: 2000,
  shouldRetry: ({ error }) => isDatabaseUnavailable(error),
} satisfies Options;
/** Retries before the call is sent. If an outage lasts longer, Temporal retries the activity. */
const beforeSend: Options = { ...databaseRetries, maxRetryTime: 5000 };
/** Retries after the call was sent, for longer than a restart of Postgres takes. */
const afterSend: Options = { ...databaseRetries, maxRetryTime: 120_000 };

/**
 * Sends the call unless it was already sent; otherwise returns the earlier outcome.
 * @throws ProviderFailure; ApplicationFailure JOB_LOST if the job is already settled
 */
export async function submit(deps: ProviderCallDeps, task: CallTask): Promise<SubmitOutcome> {
  const readable = await withReadableInput(deps, task);
  const { routeIndex, route } = task;
  const sending = {
    ...getCallIds(task),
    routeIndex,
    provider: route.provider,
    providerEndpoint: route.providerEndpoint,
    senderId: randomUUID(),
  };
  // `begin` is retried within the attempt: if the attempt failed here, no other attempt could tell
  // that nothing was sent.
  const begun = await waitUntilDecided(() => pRetry(() => deps.records.begin(sending), beforeSend));
  if (begun?.verdict === 'send') return sendAndRecord(deps, readable);
  if (begun?.verdict === 'paused') return { kind: 'paused' };
  if (begun?.verdict === 'settled') throw alreadySettledFailure();
  return outcomeFromRecord(deps, task, begun);
}

/** Replaces references to stored files with signed URLs, which are used only for this attempt. */
async function withReadableInput(deps: ProviderCallDeps, task: CallTask): Promise<CallTask> {
  const { source, route, organizationId } = task;
  const fromSource = source ? { [source.field]: toStorageReference(source.storageKey) } : {};
  const input = await deps.inputs.sign({ ...route.input, ...fromSource }, organizationId);
  return { ...task, route: { ...route, input } };
}

/** Sends the call and records its outcome. */
async function sendAndRecord(deps: ProviderCallDeps, task: CallTask): Promise<SubmitOutcome> {
  const touching = setInterval(() => {
    deps.records.markRunning(getCallIds(task)).catch(() => {});
  }, touchIntervalMs);
  try {
    const submitted = await send(deps, task);
    if (submitted.kind === 'result') return await storeImmediateResult(deps, task, submitted);
    const { operation } = submitted;
    await record(deps, task, (call) => deps.records.markAccepted({ ...call, operation }));
    return submitted;
  } finally {
    clearInterval(touching);
  }
}

/** Stores a result that the provider returned in its response to the submit. */
async function storeImmediateResult(
  deps: ProviderCallDeps,
  task: CallTask,
  { result, providerRequestId }: Extract<SubmitResult, { kind: 'result' }>,
): Promise<SubmitOutcome> {
  deps.records
    .markResponded(getCallIds(task), providerRequestId)
    .catch((error: unknown) =>
      deps.logger.info({ error, ...getCallIds(task) }, 'call.not_recorded'),
    );
  try {
    const outputs = await storeOutputs(deps, task, result);
    await record(deps, task, (call) => deps.records.markAnswered({ ...call, outputs }));
    return { kind: 'outputs', outputs, providerRequestId };
  } catch (error) {
    // The call is never sent again: the result cannot be read a second time, and the provider may
    // charge for it.
    await record(deps, task, (call) => deps.records.markUnknown(call, providerRequestId));
    throw error;
  }
}

/**
 * Failures after which the provider may have accepted the call, so that no attempt sends it again.
 */
const ambiguousFailures: ReadonlySet<FailureKind> = new Set(['unknown', 'failed']);

/**
 * Sends the call once. Records a failure, because a call that remains `begun` is never sent again.
 */
async function send(deps: ProviderCallDeps, task: CallTask): Promise<SubmitResult> {
  const provider = getProvider(deps, task);
  try {
    return await provider.submit({
      providerEndpoint: task.route.providerEndpoint,
      input: task.route.input,
      notificationUrl: deps.urls.urlFor({ ...getCallIds(task), provider: provider.name }),
      idempotencyKey: `${task.jobId}:${task.callIndex}`,
      // Not the cancellation signal of the activity: a worker that shuts down must not interrupt
      // the request, because its outcome would be unknown.
      signal: AbortSignal.timeout(task.route.submitTimeoutMs),
    });
  } catch (error) {
    const mayBeAccepted = !(error instanceof ProviderFailure) || ambiguousFailures.has(error.kind);
    const providerRequestId = error instanceof ProviderFailure ? error.providerRequestId : null;
    const { message } = error instanceof Error ? error : new Error(String(error));
    await record(deps, task, (call) =>
      mayBeAccepted
        ? deps.records.markUnknown(call, providerRequestId)
        : deps.records.markNotAccepted(call, { message, providerRequestId }),
    );
    throw error;
  }
}

/**
 * Records the outcome of a call that was sent. Retries while the database is unavailable, even
 * after Temporal has given up on the attempt. If the record cannot be written, the workflow's
 * history or a provider notification still identifies the call.
 */
async function record(
  { logger }: ProviderCallDeps,
  task: CallTask,
  write: (call: CallIds) => Promise<void>,
): Promise<void> {
  await pRetry(() => write(getCallIds(task)), afterSend).catch((error: unknown) => {
    logger.warn({ error, ...getCallIds(task) }, 'call.not_recorded');
  });
}
