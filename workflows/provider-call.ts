/**
 * One provider call of a job, from submit to stored output. A notification only wakes; `store` asks the
 * provider. While the outcome is unknown nothing is sent again and nothing is given up (design §3.5, §3.6).
 */
import type { SearchAttributePair } from '@temporalio/common';
import { condition, upsertSearchAttributes } from '@temporalio/workflow';
import type { StoreOutcome } from '../activities/calls/provider-calls.ts';
import type { Operation } from '../activities/providers/provider.ts';
import { callTaskOf, type CallTask } from '../jobs/job-plan.ts';
import { searchAttributes } from '../jobs/contract.ts';
import type { CallOutputs, CallRoute, PlannedCall } from '../jobs/job-plan.ts';
import { clock } from './running-job.ts';
import { next, waitOf, type Waiting } from './next-check.ts';
import { failed, failureOf, run, type RunningJob, type Step, type Verb } from './steps.ts';

/** A job whose calls run. */
export interface CallingJob extends RunningJob {
  /** Workflow time at which the job's deadline passes. */
  deadlineAtMs: number;
  /** The provider's ids of the calls that were taken so far. */
  operationIds: string[];
}

/** One call by one of its routes. */
interface RunningCall extends CallingJob {
  call: PlannedCall;
  route: CallRoute;
  task: CallTask;
}

/** How often a call asks whether its provider is still paused; a resume tells it at once. */
const pauseCheckMs = 60_000;

/** Failures of a status check that tell how the call ended. */
const verdicts: ReadonlySet<string> = new Set([
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'PROVIDER_ERROR',
  'STORAGE_ERROR',
  'CANCELED',
]);

/**
 * Runs a call over its routes; while a provider is paused that might take it, it waits to be sent.
 * `inputKey` is the storage key of the earlier result that the call works on, if it does.
 * @throws ApplicationFailure with a code of the error table
 */
export async function runCall(
  job: CallingJob,
  call: PlannedCall,
  inputKey?: string,
): Promise<CallOutputs> {
  try {
    for (;;) {
      const { checksAsked } = job.signals;
      // Each round follows the wait before it.
      const outputs = await tryRoutes(job, call, inputKey);
      if (outputs) {
        job.progress.call(call.index, 'delivered');
        return outputs;
      }
      await awaitResume(job, call, checksAsked);
    }
  } catch (error) {
    const { type, message } = failureOf(error);
    job.progress.call(call.index, `no output: ${type ?? message}`);
    throw error;
  }
}

/** Tries the next route only when the last certainly did not take the call; null: one is paused. */
async function tryRoutes(
  job: CallingJob,
  call: PlannedCall,
  inputKey: string | undefined,
): Promise<CallOutputs | null> {
  let refusal = 'no route is configured';
  let isPaused = false;
  for (const [routeIndex, route] of call.routes.entries()) {
    if (job.signals.cancelRequested) throw failed('CANCELED', 'canceled before a provider took it');
    const task = callTaskOf(job.plan, { call, routeIndex, inputKey });
    if (!task) continue;
    const running = { ...job, call, route, task };
    const submitted = await submit(running);
    if (submitted.kind === 'outputs') return submitted.outputs;
    if (submitted.kind === 'operation') return awaitOutputs(running, submitted.operation);
    if (submitted.kind === 'paused') isPaused = true;
    else refusal = submitted.message;
  }
  if (isPaused) return null;
  // Nobody took it, and nobody wants it any more: that is a cancel, not a failure.
  if (job.signals.cancelRequested) throw failed('CANCELED', 'canceled before a provider took it');
  throw failed('PROVIDER_ERROR', refusal);
}

/** Waits until an operator resumes a provider, or for the next time to ask. */
async function awaitResume(
  { signals, progress, deadlineAtMs }: CallingJob,
  call: PlannedCall,
  checksAsked: number,
): Promise<void> {
  progress.call(call.index, 'waiting: the provider is paused');
  await condition(
    () => signals.cancelRequested || signals.checksAsked > checksAsked,
    Math.max(1, Math.min(pauseCheckMs, deadlineAtMs - Date.now())),
    { summary: 'provider paused' },
  );
  if (Date.now() >= deadlineAtMs) {
    throw failed('DEADLINE_EXCEEDED', 'the provider was paused for too long');
  }
}

type Submitted =
  | { kind: 'outputs'; outputs: CallOutputs }
  | { kind: 'operation'; operation: Operation }
  | { kind: 'paused' }
  | { kind: 'refused'; message: string };

/** Sends the call; whoever does not learn whether it was taken waits for the provider to name it. */
async function submit(running: RunningCall): Promise<Submitted> {
  const { call, route, progress, task } = running;
  // A provider that answers with the result works for as long as the submit lasts.
  const step = stepOf(running, 'submit', { isQueued: !route.notifies });
  progress.call(call.index, `submitting to ${route.provider}`);
  const attempt = () => run(running, step, (activities) => activities.submit(task));
  try {
    return taken(running, await attempt());
  } catch (error) {
    const failure = failureOf(error);
    const { type, message, isFinal } = failure;
    if (isFinal) progress.failed(step, failure);
    if (type === 'PROVIDER_NOT_ACCEPTED') return { kind: 'refused', message };
    // A timeout says as little as a broken connection.
    if (type !== 'OUTCOME_UNKNOWN' && type !== null) throw error;
    if (!route.notifies) throw failed('OUTCOME_UNKNOWN', message);
    await awaitNotification(running);
    return taken(running, await attempt());
  }
}

/** Shows who took the call, where it is not the first choice, and under which id. */
function taken(running: RunningCall, submitted: Submitted): Submitted {
  if (submitted.kind === 'paused') return submitted;
  const { call, route, operationIds } = running;
  const shown: SearchAttributePair[] = [];
  if (call.routes[0] !== route) {
    shown.push({ key: searchAttributes.provider, value: route.provider });
  }
  if (submitted.kind === 'operation') {
    operationIds.push(submitted.operation.id);
    shown.push({ key: searchAttributes.providerRequestId, value: operationIds });
  }
  if (shown.length > 0) upsertSearchAttributes(shown);
  return submitted;
}

/** Waits for the notification that names the operation whose submit was never answered. */
async function awaitNotification(running: RunningCall): Promise<void> {
  const { plan, call, signals, progress } = running;
  progress.call(call.index, 'the outcome is unknown: waiting for the provider to name the call');
  if (signals.isNotified(call.index)) return;
  await markVerifying(running);
  const isNamed = await condition(() => signals.isNotified(call.index), plan.outcomeWaitMs, {
    summary: `${whichOf(running)}notification that names the call`,
  });
  if (!isNamed) {
    throw failed('OUTCOME_UNKNOWN', 'the provider never said whether it took the call');
  }
}

/** Waits for the end of an operation: woken by a notification, or by a timer that grows. */
async function awaitOutputs(running: RunningCall, operation: Operation): Promise<CallOutputs> {
  const { plan, call, route, signals, progress, deadlineAtMs } = running;
  signals.expect(call.index, operation.id);
  const firstWait = { waitMs: call.firstCheckMs, cancelSent: false, overdue: false };
  let waiting: Waiting = { deadlineAtMs, outcomeWaitMs: plan.outcomeWaitMs, ...firstWait };
  for (;;) {
    const { checksAsked } = signals;
    const waitMs = waitOf(waiting, Date.now());
    const doing = waiting.overdue ? 'the outcome is unknown' : `${route.provider} works on it`;
    const checksAt = clock(Date.now() + waitMs);
    progress.call(call.index, `${doing}, next check at ${checksAt}`, operation.id);
    const { cancelSent } = waiting;
    await condition(
      () =>
        signals.isNotified(call.index) ||
        signals.checksAsked > checksAsked ||
        (signals.cancelRequested && !cancelSent),
      waitMs,
      { summary: `${whichOf(running)}notification, or the next check` },
    );
    const checked = await check(running, operation);
    if (checked.kind === 'outputs') return checked.outputs;

    const follows = next(waiting, {
      nowMs: Date.now(),
      cancelRequested: signals.cancelRequested,
    });
    ({ waiting } = follows);
    for (const action of follows.actions) {
      if (action === 'give_up') {
        throw failed('OUTCOME_UNKNOWN', 'the provider gave no verdict after the deadline');
      }
      await (action === 'cancel' ? cancel(running, operation) : markVerifying(running));
    }
  }
}

/** Asks the provider, and stores what it has made; what told nothing is no verdict. */
async function check(running: RunningCall, operation: Operation): Promise<StoreOutcome> {
  const { call, signals, progress, deadlineAtMs, task } = running;
  const notified = signals.isNotified(call.index);
  if (notified) signals.takeNotification(call.index);
  const step = stepOf(running, 'store', {
    // A film takes longer to store than a first attempt may.
    isQueued: call.output.medium === 'video',
    isUrgent: notified,
  });
  try {
    return await run(running, step, (activities) =>
      activities.store({ ...task, operation, notified }),
    );
  } catch (error) {
    const failure = failureOf(error);
    const { type } = failure;
    progress.failed(step, failure);
    // Not having learnt anything is not a verdict; neither is a fault of ours, a database that is away.
    if (type === null || !verdicts.has(type)) return { kind: 'pending', progress: null };
    if (type === 'CANCELED' && !signals.cancelRequested) {
      throw Date.now() >= deadlineAtMs
        ? failed('DEADLINE_EXCEEDED', 'the provider did not finish in time')
        : failed('PROVIDER_ERROR', 'the provider canceled the work');
    }
    throw error;
  }
}

/** Asks the provider to stop; whether it did is seen by checking. */
async function cancel(running: RunningCall, operation: Operation): Promise<void> {
  const { call, route, progress, task } = running;
  progress.call(call.index, `canceling at ${route.provider}`);
  const step = stepOf(running, 'cancel');
  try {
    await run(running, step, (activities) => activities.cancel({ ...task, operation }));
  } catch (error) {
    // A cancel that did not arrive changes nothing: the next check tells.
    progress.failed(step, failureOf(error));
  }
}

function markVerifying(running: RunningCall): Promise<void> {
  const { plan } = running;
  const step = { ...stepOf(running, 'markVerifying'), taskQueue: undefined };
  return run(running, step, (activities) => activities.markVerifying(plan.jobId));
}

/**
 * A step of a call, as its row says it: `call 2 of 4 · fal nano-banana`. Steps of calls that run side by side
 * are queued: a replay hands results of local activities over in other groups than they came in, so two at
 * the same time could be followed by the same commands in another order.
 */
function stepOf(
  { plan, call, route }: RunningCall,
  verb: Verb,
  { isQueued = false, isUrgent = false }: Pick<Step, 'isQueued' | 'isUrgent'> = {},
): Step {
  return {
    verb,
    summary: `${whichOf({ plan, call })}${route.provider} ${plan.model ?? route.operation}`,
    callIndex: call.index,
    taskQueue: route.taskQueue,
    isQueued: isQueued || plan.calls.length > 1,
    isUrgent,
  };
}

/** Which of several calls a row is about. */
function whichOf({ plan, call }: Pick<RunningCall, 'plan' | 'call'>): string {
  return plan.calls.length > 1 ? `call ${call.index + 1} of ${plan.calls.length} · ` : '';
}
