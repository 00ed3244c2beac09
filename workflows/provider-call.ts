/**
 * One provider call of a job, from submit to stored outputs. A notification is not a result:
 * `store` reads the result from the provider. While the outcome is unknown, the call is not sent
 * again and nothing is released (design §3.5, §3.6).
 */
import { CancellationScope, condition } from '@temporalio/workflow';
import type { AdoptOutcome } from '../activities/adopt.ts';
import type { SubmitOutcome } from '../activities/submit.ts';
import type { ProviderOperation } from '../providers/provider.ts';
import { callTaskOf, type CallTask } from '../jobs/job-plan.ts';
import type { CallOutputs, CallRoute, PlannedCall } from '../jobs/job-plan.ts';
import { clock, requestOf, showAccepted, whichOf } from './running-job.ts';
import { next, waitOf, type Waiting } from './next-check.ts';
import { failed, failureOf, run, type RunningJob, type Step, type Verb } from './steps.ts';

/** A job whose calls are running. */
export interface CallingJob extends RunningJob {
  /** Deadline of the job, in workflow time. */
  deadlineAtMs: number;
  /** Provider request ids of the accepted calls. */
  providerRequestIds: string[];
  /** Providers that were paused at the last read; calls are not submitted to them. */
  paused: Set<string>;
}

/** One call by one of its routes. */
interface RunningCall extends CallingJob {
  call: PlannedCall;
  route: CallRoute;
  task: CallTask;
}

/** Failure types of a status check that end the call. */
const verdicts: ReadonlySet<string> = new Set([
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'PROVIDER_ERROR',
  'STORAGE_ERROR',
  'CANCELED',
]);

/**
 * Runs a call over its routes. While a provider of its routes is paused, the call waits. `inputKey`
 * is the storage key of the earlier result that is the input of the call.
 * @throws ApplicationFailure with a code of the error table
 */
export async function runCall(
  job: CallingJob,
  call: PlannedCall,
  inputKey?: string,
): Promise<CallOutputs> {
  try {
    for (;;) {
      const tried = await tryRoutes(job, call, inputKey);
      if (tried.kind === 'outputs') {
        job.progress.call(call.index, 'delivered');
        return tried.outputs;
      }
      await awaitResume(job, call, tried.paused);
    }
  } catch (error) {
    const { type, message } = failureOf(error);
    job.progress.call(call.index, `no output: ${type ?? message}`);
    throw error;
  }
}

type Tried = { kind: 'outputs'; outputs: CallOutputs } | { kind: 'paused'; paused: RunningCall[] };

/**
 * Tries the routes in order. The next route is tried only if the provider of the previous one did
 * not accept the call.
 */
async function tryRoutes(
  job: CallingJob,
  call: PlannedCall,
  inputKey: string | undefined,
): Promise<Tried> {
  let refusal = 'no route is configured';
  const paused: RunningCall[] = [];
  for (const [routeIndex, route] of call.routes.entries()) {
    if (job.signals.cancelRequested)
      throw failed('CANCELED', 'canceled before a provider accepted it');
    const task = callTaskOf(job.plan, { call, routeIndex, inputKey });
    if (!task) continue;
    const running = { ...job, call, route, task };
    if (!job.paused.has(route.provider)) {
      const submitted = await submit(running);
      if (submitted.kind === 'outputs') return submitted;
      if (submitted.kind === 'operation') {
        return { kind: 'outputs', outputs: await awaitOutputs(running, submitted.operation) };
      }
      if (submitted.kind === 'refused') refusal = submitted.message;
      else job.paused.add(route.provider);
    }
    if (job.paused.has(route.provider)) paused.push(running);
  }
  if (paused.length > 0) return { kind: 'paused', paused };
  // A call that no provider has accepted ends as canceled if the caller has canceled it.
  if (job.signals.cancelRequested)
    throw failed('CANCELED', 'canceled before a provider accepted it');
  throw failed('PROVIDER_ERROR', refusal);
}

/** Waits until an operator resumes one of the paused providers. The activity fails until then. */
async function awaitResume(
  { signals, progress, deadlineAtMs, paused }: CallingJob,
  call: PlannedCall,
  waiting: RunningCall[],
): Promise<void> {
  const [first] = waiting;
  if (!first) return;
  const providers = waiting.map(({ route }) => route.provider);
  const step = { ...stepOf(first, 'awaitResume'), summary: `paused: ${providers.join(', ')}` };
  const tasks = waiting.map(({ task }) => task);
  progress.call(call.index, 'waiting: the provider is paused');
  for (let isResumed = false; !isResumed;) {
    const { checksAsked } = signals;
    const isWoken = (): boolean => signals.cancelRequested || signals.checksAsked > checksAsked;
    const leftMs = Math.max(1, deadlineAtMs - Date.now());
    const scope = new CancellationScope();
    isResumed = await scope.run(() =>
      Promise.race([
        run(first, step, (activities) => activities.awaitResume(tasks)).then(() => true),
        condition(isWoken, leftMs, { summary: 'the deadline' }).then(() => false),
      ]),
    );
    scope.cancel();
    if (signals.cancelRequested) throw failed('CANCELED', 'canceled before a provider accepted it');
    if (Date.now() >= deadlineAtMs) {
      throw failed('DEADLINE_EXCEEDED', 'the provider was paused for too long');
    }
  }
  for (const provider of providers) paused.delete(provider);
}

/** Submits the call. If its outcome is unknown, waits for a notification that names it. */
async function submit(
  running: RunningCall,
): Promise<SubmitOutcome | { kind: 'refused'; message: string }> {
  const { call, route, progress } = running;
  progress.call(call.index, `submitting to ${route.provider}`);
  try {
    return showAccepted(running, await send(running));
  } catch (error) {
    const failure = failureOf(error);
    const { type, message, isFinal } = failure;
    if (isFinal) progress.failed(stepOf(running, 'submit'), failure);
    if (type === 'PROVIDER_NOT_ACCEPTED') return { kind: 'refused', message };
    // A timeout leaves the outcome unknown, as a broken connection does.
    if (type !== 'OUTCOME_UNKNOWN' && type !== null) throw error;
    if (!route.notifies) throw failed('OUTCOME_UNKNOWN', message);
    await awaitNotification(running);
    const adopted = await adopt(running);
    if (adopted.kind === 'not_sent') throw failed('OUTCOME_UNKNOWN', message);
    return showAccepted(running, adopted);
  }
}

/**
 * Sends the call once. If the submit is still in progress after its first attempt, its outcome is
 * read instead of a second submit.
 */
async function send(running: RunningCall): Promise<SubmitOutcome> {
  const { route, task, deadlineAtMs } = running;
  for (;;) {
    try {
      return await run(running, stepOf(running, 'submit'), (activities) => activities.submit(task));
    } catch (error) {
      if (failureOf(error).type !== null || !route.notifies) throw error;
    }
    const adopted = await adopt(running);
    if (adopted.kind !== 'not_sent') return adopted;
    if (Date.now() >= deadlineAtMs) {
      throw failed('DEADLINE_EXCEEDED', 'the call could not be sent in time');
    }
  }
}

/** Reads the outcome of an earlier submit of the call. */
function adopt(running: RunningCall): Promise<AdoptOutcome> {
  return run(running, stepOf(running, 'adopt'), (activities) => activities.adopt(running.task));
}

/** Waits for a notification that names the operation of a submit without a response. */
async function awaitNotification(running: RunningCall): Promise<void> {
  const { plan, call, signals, progress } = running;
  progress.call(call.index, 'the outcome is unknown: waiting for the provider to name the call');
  if (signals.isNotified(call.index)) return;
  await markVerifying(running);
  const isNamed = await condition(() => signals.isNotified(call.index), plan.outcomeWaitMs, {
    summary: `${whichOf(running)}notification that names the call`,
  });
  if (!isNamed) {
    throw failed('OUTCOME_UNKNOWN', 'the provider did not report whether it accepted the call');
  }
}

/** Waits until the operation ends; a notification or a timer triggers each check. */
async function awaitOutputs(
  running: RunningCall,
  operation: ProviderOperation,
): Promise<CallOutputs> {
  const { plan, call, route, signals, progress, deadlineAtMs } = running;
  signals.expect(call.index, operation.id);
  const firstWait = { waitMs: call.firstCheckMs, cancelSent: false, overdue: false };
  let waiting: Waiting = { deadlineAtMs, outcomeWaitMs: plan.outcomeWaitMs, ...firstWait };
  for (;;) {
    const { checksAsked } = signals;
    const waitMs = waitOf(waiting, Date.now());
    const state = waiting.overdue ? 'the outcome is unknown' : `${route.provider} works on it`;
    progress.call(call.index, `${state}, next check at ${clock(Date.now() + waitMs)}`);
    const { cancelSent } = waiting;
    await condition(
      () =>
        signals.isNotified(call.index) ||
        signals.checksAsked > checksAsked ||
        (signals.cancelRequested && !cancelSent),
      waitMs,
      { summary: `${requestOf(running, operation.id)}: notification, or the next check` },
    );
    const outputs = await collect(running, operation);
    if (outputs) return outputs;

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

/**
 * Stores the outputs of a call that has ended: at once after a notification, otherwise after a
 * check. Returns null while the provider works on the call, and if its status or result could not
 * be read.
 */
async function collect(
  running: RunningCall,
  operation: ProviderOperation,
): Promise<CallOutputs | null> {
  const { call, signals, progress, deadlineAtMs, task } = running;
  const notified = signals.isNotified(call.index);
  if (notified) signals.takeNotification(call.index);
  const accepted = { ...task, operation };
  let step = stepOf(running, 'check');
  try {
    if (!notified) {
      const checked = await run(running, step, (activities) => activities.check(accepted));
      if (checked.kind === 'pending') return null;
    }
    step = stepOf(running, 'store');
    return await run(running, step, (activities) => activities.store({ ...accepted, notified }));
  } catch (error) {
    const failure = failureOf(error);
    const { type } = failure;
    progress.failed(step, failure);
    // An unreachable provider or database leaves the outcome unknown.
    if (type === null || !verdicts.has(type)) return null;
    if (type === 'CANCELED' && !signals.cancelRequested) {
      throw Date.now() >= deadlineAtMs
        ? failed('DEADLINE_EXCEEDED', 'the provider did not finish in time')
        : failed('PROVIDER_ERROR', 'the provider canceled the work');
    }
    throw error;
  }
}

/** Sends a cancel to the provider. A later check shows whether the provider has stopped. */
async function cancel(running: RunningCall, operation: ProviderOperation): Promise<void> {
  const { call, route, progress, task } = running;
  progress.call(call.index, `canceling at ${route.provider}`);
  const step = stepOf(running, 'cancel');
  try {
    await run(running, step, (activities) => activities.cancel({ ...task, operation }));
  } catch (error) {
    // A failed cancel changes nothing: the next check shows the status.
    progress.failed(step, failureOf(error));
  }
}

function markVerifying(running: RunningCall): Promise<void> {
  const { jobId } = running.plan;
  return run(running, stepOf(running, 'markVerifying'), (activities) =>
    activities.markVerifying(jobId),
  );
}

/** Makes a step of a call with the text of its row: `call 2 of 4 · fal nano-banana`. */
function stepOf({ plan, call, route }: RunningCall, verb: Verb): Step {
  const summary = `${whichOf({ plan, call })}${route.provider} ${plan.model ?? route.providerEndpoint}`;
  return { verb, summary, of: { call, route } };
}
