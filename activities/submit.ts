/** Activity `submit`: sends a call to its provider, unless an earlier attempt may have sent it. */
import { randomUUID } from 'node:crypto';
import pRetry, { type Options } from 'p-retry';
import type { CallInput } from '../domain/job-plan.ts';
import { databaseRetries } from '../platform/database.ts';
import type { BeginResult, CallAttempt, CallIds, CallRecords } from '../providers/call-records.ts';
import { ProviderFailure, type FailureKind } from '../domain/provider-failure.ts';
import type { SubmitResult } from '../providers/provider.ts';
import { toStorageReference } from '../storage/inputs/inputs.ts';
import { waitUntilDecided, outcomeFromRecord, type AcceptedOutcome } from './adopt.ts';
import { alreadySettledFailure } from './activity-failures.ts';
import { getCallIds, getProvider, storeOutputs, type ProviderCallDeps } from './attempt.ts';

/**
 * Outcome of a submit. `paused`: the call was not sent, because an operator has paused the
 * provider.
 */
export type SubmitOutcome = AcceptedOutcome | { kind: 'paused' };

/** Interval at which an attempt records that it is still sending the call, in milliseconds. */
const recordIntervalMs = 4000;

/**
 * Retry options before the call is sent. If the database is unavailable for longer, the attempt
 * fails and Temporal retries the activity. `noteUnsent` then allows the next attempt to send the call.
 */
const retriesBeforeSend: Options = { ...databaseRetries, maxRetryTime: 5000 };
/** Retry options after the call was sent. The time limit is longer than a restart of Postgres. */
const retriesAfterSend: Options = { ...databaseRetries, maxRetryTime: 120_000 };

/**
 * Sends a call if it was not sent before; otherwise returns the outcome of the earlier submit.
 * @throws ProviderFailure; ApplicationFailure JOB_LOST if the job is already settled
 */
export async function submit(deps: ProviderCallDeps, task: CallInput): Promise<SubmitOutcome> {
  const signedTask = await signInput(deps, task);
  const { routeIndex, route } = task;
  const senderId = randomUUID();
  const callAttempt = {
    ...getCallIds(task),
    routeIndex,
    provider: route.provider,
    providerEndpoint: route.providerEndpoint,
    senderId,
  };
  const beginResult = await beginCall(deps.records, callAttempt);
  if (beginResult?.verdict === 'send') return sendAndRecord(deps, signedTask, senderId);
  if (beginResult?.verdict === 'paused') return { kind: 'paused' };
  if (beginResult?.verdict === 'settled') throw alreadySettledFailure();
  return outcomeFromRecord(deps, task, beginResult);
}

/**
 * Decides whether an attempt may send a call, and records that it begins. Waits while another attempt
 * sends the call.
 */
export async function beginCall(
  records: CallRecords,
  callAttempt: CallAttempt & { senderId: string },
): Promise<BeginResult | null> {
  try {
    return await waitUntilDecided(() =>
      pRetry(() => records.begin(callAttempt), retriesBeforeSend),
    );
  } catch (error) {
    records.noteUnsent(callAttempt);
    throw error;
  }
}

/** Records, while a call is being sent, that its attempt is still running. */
export async function whileRecorded<Outcome>(
  records: CallRecords,
  call: CallIds,
  run: () => Promise<Outcome>,
): Promise<Outcome> {
  const recordTimer = setInterval(() => {
    records.markRunning(call).catch(() => {});
  }, recordIntervalMs);
  try {
    return await run();
  } finally {
    clearInterval(recordTimer);
  }
}

/**
 * Prepares the pictures of the input, and replaces references to stored files with signed URLs,
 * which are used only for this attempt.
 */
async function signInput(deps: ProviderCallDeps, task: CallInput): Promise<CallInput> {
  const { source, route, organizationId } = task;
  const fromSource = source ? { [source.field]: toStorageReference(source.storageKey) } : {};
  const prepared = await deps.callPictures.prepare({ ...route.input, ...fromSource }, task);
  const input = await deps.inputs.sign(prepared, organizationId);
  return { ...task, route: { ...route, input } };
}

/** Sends a call and records its outcome. */
async function sendAndRecord(
  deps: ProviderCallDeps,
  task: CallInput,
  senderId: string,
): Promise<SubmitOutcome> {
  return whileRecorded(deps.records, getCallIds(task), async () => {
    const submitResult = await send(deps, task, senderId);
    if (submitResult.kind === 'result') return storeImmediateResult(deps, task, submitResult);
    const { operation } = submitResult;
    await record(deps, task, (call) => deps.records.markAccepted({ ...call, operation }));
    return submitResult;
  });
}

/** Stores a result that the provider returned in its response to the submit. */
async function storeImmediateResult(
  deps: ProviderCallDeps,
  task: CallInput,
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
    // The outcome is recorded as unknown, so that the call is never sent again: its result cannot
    // be read a second time, and the provider may charge for it.
    const ids = { providerRequestId, providerErrorType: null };
    await record(deps, task, (call) => deps.records.markUnknown(call, ids));
    throw error;
  }
}

/** Failures after which the provider may have accepted the call, so it is never sent again. */
const ambiguousFailures: ReadonlySet<FailureKind> = new Set(['unknown', 'failed']);

/**
 * Sends a call once. If this fails, records the failure, because a call that remains `begun` is
 * never sent again.
 */
async function send(
  deps: ProviderCallDeps,
  task: CallInput,
  senderId: string,
): Promise<SubmitResult> {
  const provider = getProvider(deps, task);
  try {
    return await provider.submit({
      providerEndpoint: task.route.providerEndpoint,
      input: task.route.input,
      notificationUrl: deps.urls.urlFor({ ...getCallIds(task), provider: provider.name }),
      idempotencyKey: `${task.jobId}:${task.callIndex}`,
      // The cancellation signal of the activity is not used here: a worker that shuts down must not
      // interrupt the request, because the outcome of the call would be unknown.
      signal: AbortSignal.timeout(task.route.submitTimeoutMs),
    });
  } catch (error) {
    const mayBeAccepted = !(error instanceof ProviderFailure) || ambiguousFailures.has(error.kind);
    const { providerRequestId = null, providerErrorType = null } =
      error instanceof ProviderFailure ? error : {};
    const ids = { providerRequestId, providerErrorType };
    const { message } = error instanceof Error ? error : new Error(String(error));
    const isRecorded = await record(deps, task, async (call) => {
      if (mayBeAccepted) return deps.records.markUnknown(call, ids);
      error.unacceptedSubmits = await deps.records.markNotAccepted(call, { message, ...ids });
    });
    if (!isRecorded && !mayBeAccepted) deps.records.noteUnsent({ ...getCallIds(task), senderId });
    throw error;
  }
}

/**
 * Records the outcome of a call that was sent, and returns whether it is recorded. Retries while the database is unavailable, even
 * after Temporal has timed out the attempt. If the outcome cannot be recorded, the workflow's
 * history or a provider notification still contains the operation id.
 */
async function record(
  { logger }: ProviderCallDeps,
  task: CallInput,
  write: (call: CallIds) => Promise<void>,
): Promise<boolean> {
  try {
    await pRetry(() => write(getCallIds(task)), retriesAfterSend);
    return true;
  } catch (error) {
    logger.warn({ error, ...getCallIds(task) }, 'call.not_recorded');
    return false;
  }
}
