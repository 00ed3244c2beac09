/**
 * One provider call of a job, from submit to stored output. A notification only wakes; `collectCall`
 * tells. While the outcome is unknown nothing is sent again and nothing is given up (design §3.5, §3.6).
 */
import { ApplicationFailure, condition } from '@temporalio/workflow';
import type { Sent } from '../activities/job-at-once.ts';
import type { CollectOutcome, CollectTask, SubmitOutcome } from '../activities/provider-calls.ts';
import type { ActivityWord } from '../domain/activity-word.ts';
import { callTaskOf, type CallTask } from '../studio/call-task.ts';
import type { CallOutputs, JobPlan, PlannedCall } from '../studio/job-plan.ts';
import type { CallDesk } from './call-desk.ts';
import { clock, type JobProgress } from './job-progress.ts';
import { atOnce, callActivities, failureOf, settlement } from './studio-activities.ts';

/** What a call needs to run. */
export interface CallContext {
  plan: JobPlan;
  desk: CallDesk;
  progress: JobProgress;
  /** Workflow time at which the job's deadline passes. */
  deadlineAtMs: number;
  /** Storage key of the earlier result that the call works on, if it does. */
  inputKey?: string;
  /** What came of asking the first route, where the job's first step has done that. */
  sent?: Sent | null;
}

/** The handle of a call, and whether it was learnt from a notification alone. */
type Handle = Pick<CollectTask, 'operation' | 'adopted'>;

interface RunningCall extends CallContext {
  call: PlannedCall;
  routeIndex: number;
  /** How many of the operators' wishes to look this call has followed. */
  looksHeeded: number;
}

const checkIntervalMaxMs = 30_000;
/** How often a call asks whether its provider is still paused; a resume tells it at once. */
const pauseCheckMs = 60_000;

/** Failures of a look that tell how the call ended. */
const verdicts: ReadonlySet<string> = new Set([
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'PROVIDER_ERROR',
  'STORAGE_ERROR',
  'CANCELED',
]);

/** A failure that ends the call; the type is a code of the error table. */
function fail(code: string, message: string): never {
  throw ApplicationFailure.nonRetryable(message, code);
}

/**
 * Runs a call over its routes; while a provider is paused that might take it, it waits to be sent.
 * @throws ApplicationFailure with a code of the error table
 */
export async function runCall(context: CallContext, call: PlannedCall): Promise<CallOutputs> {
  let { sent } = context;
  for (let looksHeeded = 0; ;) {
    // Each round follows the wait before it.
    const outputs = await tryRoutes({ ...context, sent: sent ?? null }, call, looksHeeded);
    if (outputs) return outputs;
    await awaitResume(context, call, looksHeeded);
    looksHeeded = context.desk.looksAsked;
    sent = null;
  }
}

/** Tries the next route only when the last certainly did not take the call; null: one is paused. */
async function tryRoutes(
  context: CallContext,
  call: PlannedCall,
  looksHeeded: number,
): Promise<CallOutputs | null> {
  let refusal = 'no route is configured';
  let paused = false;
  for (const routeIndex of call.routes.keys()) {
    if (context.desk.cancelRequested) fail('CANCELED', 'canceled before the provider was asked');
    const sent = routeIndex === 0 ? (context.sent ?? null) : null;
    const running = { ...context, call, routeIndex, looksHeeded, sent };
    // Routes are tried one after the other: that is the point.
    const submitted = await submit(running);
    if (submitted.kind === 'outputs') return submitted.outputs;
    if (submitted.kind === 'handle') return awaitOutputs(running, submitted.handle);
    if (submitted.kind === 'paused') paused = true;
    else refusal = submitted.message;
  }
  if (paused) return null;
  // Nobody took it, and nobody wants it any more: that is a cancel, not a failure.
  if (context.desk.cancelRequested) fail('CANCELED', 'canceled before a provider took it');
  return fail('PROVIDER_ERROR', refusal);
}

/** Waits until an operator resumes a provider, or for the next time to ask. */
async function awaitResume(
  { desk, progress, deadlineAtMs }: CallContext,
  call: PlannedCall,
  looksHeeded: number,
): Promise<void> {
  progress.show(call.index, 'waiting_for_provider');
  await condition(
    () => desk.cancelRequested || desk.looksAsked > looksHeeded,
    Math.max(1, Math.min(pauseCheckMs, deadlineAtMs - Date.now())),
    { summary: 'provider paused' },
  );
  if (Date.now() >= deadlineAtMs) fail('DEADLINE_EXCEEDED', 'the provider was paused for too long');
}

type Submitted =
  | { kind: 'outputs'; outputs: CallOutputs }
  | { kind: 'handle'; handle: Handle }
  | { kind: 'refused'; message: string; again: Again }
  | { kind: 'paused' };

/** When the same route may be asked again: never, or after so many milliseconds. */
type Again = 'never' | number;

/** The wait after a refusal without a word on when to come back. */
const refusalWaitMs = 500;

/** Sends the call from this task if the plan says so; what does not work at once goes to the queue. */
async function submit(running: RunningCall): Promise<Submitted> {
  const { plan, call, routeIndex, progress } = running;
  progress.show(call.index, 'submitting', call.routes[routeIndex]?.provider);
  const task = taskOf(running);
  // A provider that answers with the result itself works while we wait: not in a workflow task.
  if (plan.dispatch === 'auto' && task.route.notifies) {
    const sent = running.sent ?? (await attempted(atOnce.submitCallAtOnce(task)));
    const tried = await understand(running, sent);
    if (tried.kind !== 'refused' || tried.again === 'never') return tried;
    if (await canceledWithin(running, tried.again)) return tried;
  }
  const { submitCall } = callActivities(plan, call, routeIndex);
  return understand(running, await attempted(submitCall(task)));
}

/** A submit's end, a failure included. */
async function attempted(submitting: Promise<SubmitOutcome>): Promise<Sent> {
  try {
    return await submitting;
  } catch (error) {
    return { kind: 'failed', word: failureOf(error) };
  }
}

/** Waits; true as soon as the job is to be canceled. */
async function canceledWithin({ desk }: RunningCall, waitMs: number): Promise<boolean> {
  if (waitMs === 0 || desk.cancelRequested) return desk.cancelRequested;
  return condition(() => desk.cancelRequested, waitMs, { summary: 'asked again after this' });
}

/** What a submit's end means for its call. */
async function understand(running: RunningCall, sent: Sent): Promise<Submitted> {
  if (sent.kind === 'failed') return understandFailure(running, sent.word);
  if (sent.kind !== 'operation') return sent;
  const { operation, endHeard } = sent;
  if (endHeard) running.desk.bringNews(running.call.index, operation.id);
  return { kind: 'handle', handle: { operation, adopted: false } };
}

async function understandFailure(running: RunningCall, word: ActivityWord): Promise<Submitted> {
  const { call, routeIndex, progress } = running;
  const { type, message } = word;
  // No room is not the provider's word: the queue has the next.
  if (type === 'PROVIDER_BUSY') return { kind: 'refused', message, again: 0 };
  progress.failed(call.index, `submit: ${message}`);
  if (type === 'PROVIDER_NOT_ACCEPTED') {
    const again = word.final ? 'never' : (word.retryAfterMs ?? refusalWaitMs);
    return { kind: 'refused', message, again };
  }
  // A timeout of the activity says as little as a broken connection.
  if (type !== 'OUTCOME_UNKNOWN' && type !== null) return fail(type, message);
  if (!call.routes[routeIndex]?.notifies) fail('OUTCOME_UNKNOWN', message);
  const id = await awaitAdoption(running);
  return { kind: 'handle', handle: { operation: { id }, adopted: true } };
}

/** Waits for the notification that names the operation whose submit was never answered. */
async function awaitAdoption(running: RunningCall): Promise<string> {
  const { plan, call, desk, progress } = running;
  progress.show(call.index, 'verifying_outcome');
  if (desk.adoptedId(call.index) === undefined) {
    await settlement.markVerifying(plan.jobId);
    await condition(() => desk.adoptedId(call.index) !== undefined, plan.outcomeWaitMs, {
      summary: 'notification that names the call',
    });
  }
  return (
    desk.adoptedId(call.index) ??
    fail('OUTCOME_UNKNOWN', 'the provider never said whether it took the call')
  );
}

/** Waits for the end of an operation: woken by a notification, or by a timer that grows. */
async function awaitOutputs(running: RunningCall, handle: Handle): Promise<CallOutputs> {
  const { plan, call, routeIndex, desk, progress } = running;
  const handleInWords = `${call.routes[routeIndex]?.provider} \`${handle.operation.id}\``;
  desk.expect(call.index, handle.operation.id);
  let waitMs = plan.checkIntervalMs;
  let cancelSent = false;
  let expired = false;
  let { looksHeeded } = running;
  for (;;) {
    const untilEndMs = running.deadlineAtMs + (expired ? plan.outcomeWaitMs : 0) - Date.now();
    const nextLook = clock(Date.now() + Math.min(waitMs, untilEndMs));
    const note = `${handleInWords}, next look at ${nextLook}`;
    progress.show(call.index, expired ? 'verifying_outcome' : 'generating', note);
    const woken = await condition(
      () =>
        desk.hasNews(call.index) ||
        desk.looksAsked > looksHeeded ||
        (desk.cancelRequested && !cancelSent),
      Math.max(1, Math.min(waitMs, untilEndMs)),
      { summary: 'notification, or the next look' },
    );
    looksHeeded = desk.looksAsked;
    const expectDone = woken && desk.hasNews(call.index);
    if (expectDone) desk.takeNews(call.index);
    const looked = await look(running, handle, expectDone);
    if (looked.kind === 'outputs') return looked.outputs;

    const passed = Date.now() >= running.deadlineAtMs;
    if (expired && Date.now() >= running.deadlineAtMs + plan.outcomeWaitMs) {
      fail('OUTCOME_UNKNOWN', 'the provider gave no verdict after the deadline');
    }
    if ((desk.cancelRequested || passed) && !cancelSent) {
      cancelSent = true;
      await cancel(running, handle);
      waitMs = Math.min(plan.checkIntervalMs, 1000);
    } else waitMs = Math.min(waitMs * 1.5, checkIntervalMaxMs);
    if (passed && !expired) {
      expired = true;
      await settlement.markVerifying(plan.jobId);
    }
  }
}

async function look(
  running: RunningCall,
  handle: Handle,
  expectDone: boolean,
): Promise<CollectOutcome> {
  const { plan, call, routeIndex, desk, progress } = running;
  try {
    return await callActivities(plan, call, routeIndex).collectCall({
      ...taskOf(running),
      ...handle,
      expectDone,
    });
  } catch (error) {
    const { type, message } = failureOf(error);
    progress.failed(call.index, `look: ${message}`);
    // Not having learnt anything is not a verdict; neither is a fault of ours, a database that is away.
    if (type === null || !verdicts.has(type)) return { kind: 'pending', progress: null };
    if (type === 'CANCELED' && !desk.cancelRequested) {
      const late = Date.now() >= running.deadlineAtMs;
      fail(
        late ? 'DEADLINE_EXCEEDED' : 'PROVIDER_ERROR',
        late ? 'the provider did not finish in time' : 'the provider canceled the work',
      );
    }
    throw error;
  }
}

/** Asks the provider to stop; whether it did is seen by looking. */
async function cancel(running: RunningCall, handle: Handle): Promise<void> {
  const { plan, call, routeIndex, progress } = running;
  progress.show(call.index, 'canceling');
  try {
    await callActivities(plan, call, routeIndex).cancelCall({
      ...taskOf(running),
      ...handle,
      expectDone: false,
    });
  } catch {
    // A cancel that did not arrive changes nothing: the next look tells.
  }
}

function taskOf(running: RunningCall): CallTask {
  return callTaskOf(running.plan, running) ?? fail('PROVIDER_ERROR', 'the plan has no such route');
}
