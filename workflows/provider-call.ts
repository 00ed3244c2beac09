/**
 * Runs one provider call of a job: tries its routes in order, and waits while the providers of its
 * routes are paused.
 */
import {
  type CallOutputs,
  type JobPlan,
  type PlannedCall,
  createCallInput,
} from '../domain/job-plan.ts';
import { createFailure, readFailure, toPublicError } from './failures.ts';
import { type RunningJob, throwIfCanceledOrOverdue, type RunningCall } from './running-job.ts';
import { condition, upsertSearchAttributes, CancellationScope } from '@temporalio/workflow';
import type { AcceptedOutcome, AdoptOutcome } from '../activities/adopt.ts';
import type { SubmitOutcome } from '../activities/submit.ts';
import { searchAttributes } from '../domain/job-contract.ts';
import { markVerifying, awaitOutputs } from './await-outputs.ts';
import { callPrefix } from './progress.ts';
import { callStep, runStep, runStepAsActivity } from './steps.ts';

/**
 * Runs all calls of a job, or of a step of a pipeline. If some calls fail, returns the outputs of
 * the others, with an error for each failed call.
 * @throws the failure of a call if a required call failed or no call delivered an output of the job
 */
export async function runCalls(
  job: RunningJob,
  calls: readonly PlannedCall[],
): Promise<CallOutputs[]> {
  const callRuns = new Map<number, Promise<CallOutputs>>();
  for (const call of calls) {
    const source = call.inputFrom ? callRuns.get(call.inputFrom.callIndex) : undefined;
    callRuns.set(call.index, source ? runCallWithInput(source, job, call) : runCall(job, call));
  }
  const results = await Promise.allSettled(callRuns.values());
  const ends = calls.map((call, position) => ({ call, result: results[position] }));
  const hasOutput = ends.some(
    ({ call, result }) =>
      result?.status === 'fulfilled' && !isInputOfAnotherCall(calls, call.index),
  );
  for (const { call, result } of ends) {
    const endsJob = !hasOutput || call.required;
    if (result?.status === 'rejected' && endsJob) throw result.reason;
  }
  return ends.map(({ call, result }) => {
    if (result?.status === 'fulfilled') return result.value;
    const error = toPublicError(result?.reason);
    return { callIndex: call.index, artifacts: [], data: null, delivered: 0, error };
  });
}

/** Method of joining outputs, the call index of the joined artifact, and its model. */
interface Assembly {
  kind: JobPlan['assembly'];
  callIndex: number;
  model: string | null;
  /** Id of the step of a pipeline; absent in other jobs. */
  stepId?: string;
}

/** Joins the artifacts of all calls, if the plan requires this, and adds the joined artifact. */
export async function assemble(
  job: RunningJob,
  { kind, callIndex, model, stepId }: Assembly,
  outputs: CallOutputs[],
): Promise<CallOutputs[]> {
  if (!kind) return outputs;
  const { jobId, organizationId } = job.plan;
  const parts = outputs.flatMap((call) => call.artifacts);
  const task = { jobId, organizationId, kind, callIndex, parts, model };
  job.progress.setPhase(stepId === undefined ? 'assembling' : `${stepId}: assembling`);
  const step = stepId === undefined ? '' : `${stepId}: assemble · `;
  const summary = `${step}${parts.length} parts`;
  const joinedOutputs = await runStep(job, { name: 'assemble', summary }, (activities) =>
    activities.assemble(task),
  );
  return [...outputs, joinedOutputs];
}

/**
 * Runs a call whose input is the result of an earlier call. If the earlier call failed, this call
 * fails with the same failure.
 */
async function runCallWithInput(
  source: Promise<CallOutputs>,
  job: RunningJob,
  call: PlannedCall,
): Promise<CallOutputs> {
  const [artifact] = (await source).artifacts;
  if (!artifact) throw createFailure('PROVIDER_ERROR', 'the earlier call delivered no artifact');
  return runCall(job, call, artifact.storageKey);
}

/**
 * Returns whether the result of a call is only the input of another call and not an output of the
 * job.
 */
function isInputOfAnotherCall(calls: readonly PlannedCall[], callIndex: number): boolean {
  return calls.some((call) => call.inputFrom?.callIndex === callIndex);
}

/** Submits a call on its current route, and waits for a notification if the outcome is unknown. */
async function submit(
  running: RunningCall,
): Promise<SubmitOutcome | { kind: 'not_accepted'; message: string }> {
  const { call, route, progress } = running;
  progress.setCallPhase(call.index, `submitting to ${route.provider}`);
  try {
    const submitOutcome = await sendCall(running);
    if (submitOutcome.kind !== 'paused') reportAccepted(running, submitOutcome);
    return submitOutcome;
  } catch (error) {
    const { type, message } = readFailure(error);
    if (type === 'PROVIDER_NOT_ACCEPTED') return { kind: 'not_accepted', message };
    // After a timeout, as after a lost connection, the outcome of the call is unknown.
    if (type !== 'OUTCOME_UNKNOWN' && type !== null) throw error;
    if (!route.notifies) throw createFailure('OUTCOME_UNKNOWN', message);
    await awaitNotification(running);
    const adoptOutcome = await adopt(running);
    if (adoptOutcome.kind === 'not_sent') throw createFailure('OUTCOME_UNKNOWN', message);
    reportAccepted(running, adoptOutcome);
    return adoptOutcome;
  }
}

/**
 * Sends a call. After a timeout or a cancellation, the submit may still be in progress, so its
 * recorded outcome is read first. Only if the provider certainly did not accept the call, it is
 * sent a second time.
 */
async function sendCall(running: RunningCall): Promise<SubmitOutcome> {
  const step = callStep(running, 'submit');
  for (const runAttempts of [runStep, runStepAsActivity]) {
    try {
      return await runAttempts(running, step, (activities) => activities.submit(running.task));
    } catch (error) {
      const failure = readFailure(error);
      if (failure.isFinal) running.progress.addFailure(step, failure);
      if (failure.type !== null) throw error;
    }
    const adoptOutcome = await adopt(running);
    if (adoptOutcome.kind !== 'not_sent') return adoptOutcome;
    throwIfCanceledOrOverdue(running);
  }
  throw createFailure('DEADLINE_EXCEEDED', 'no provider accepted the call in time');
}

/** Reads the recorded outcome of the submit of a call. */
async function adopt(running: RunningCall): Promise<AdoptOutcome> {
  const step = callStep(running, 'adopt');
  try {
    return await runStep(running, step, (activities) => activities.adopt(running.task));
  } catch (error) {
    running.progress.addFailure(step, readFailure(error));
    throw error;
  }
}

/** Waits for a notification with the operation id of a submit that got no response. */
async function awaitNotification(running: RunningCall): Promise<void> {
  const { plan, call, signals, progress } = running;
  progress.setCallPhase(
    call.index,
    'the outcome is unknown: waiting for a notification from the provider',
  );
  if (signals.isNotified(call.index)) return;
  await markVerifying(running);
  const isNotified = await condition(() => signals.isNotified(call.index), plan.outcomeWaitMs, {
    summary: `${callPrefix(running)}wait for a notification that identifies the call`,
  });
  if (!isNotified) {
    throw createFailure(
      'OUTCOME_UNKNOWN',
      'the provider did not report whether it accepted the call',
    );
  }
}

/**
 * Adds the provider request id of an accepted call to the progress and the search attributes. Also
 * sets the search attribute of the provider, unless the call was accepted on its first route.
 */
function reportAccepted(running: RunningCall, accepted: AcceptedOutcome): void {
  const { call, route, progress, providerRequestIds } = running;
  const isFirstRoute = call.routes[0] === route;
  const id = accepted.kind === 'operation' ? accepted.operation.id : accepted.providerRequestId;
  if (id) {
    progress.setCallPhase(call.index, `accepted by ${route.provider}`, id);
    providerRequestIds.push(id);
  }
  const isKnownProvider = isFirstRoute && !running.plan.steps;
  if (isKnownProvider && !id) return;
  upsertSearchAttributes([
    ...(isKnownProvider ? [] : [{ key: searchAttributes.provider, value: route.provider }]),
    ...(id ? [{ key: searchAttributes.providerRequestId, value: providerRequestIds }] : []),
  ]);
}

/**
 * Runs a call and returns its outputs. If no provider accepts the call and a provider is paused,
 * waits until the provider is resumed and tries the routes again. `inputKey` is the storage key of
 * the artifact of an earlier call that this call uses as input.
 * @throws ApplicationFailure with a code from the error table
 */
async function runCall(
  job: RunningJob,
  call: PlannedCall,
  inputKey?: string,
): Promise<CallOutputs> {
  try {
    for (;;) {
      const result = await tryRoutes(job, call, inputKey);
      if (result.kind === 'outputs') {
        job.progress.setCallPhase(call.index, 'delivered');
        return result.outputs;
      }
      await awaitResume(job, call, result.pausedRoutes);
    }
  } catch (error) {
    const { type, message } = readFailure(error);
    job.progress.setCallPhase(call.index, `no output: ${type ?? message}`);
    throw error;
  }
}

/** Waits before a call is sent again whose provider could not read a stored file, in milliseconds. */
const resendDelaysMs = [5000, 20_000, 60_000] as const;

type RouteOutcome =
  | { kind: 'outputs'; outputs: CallOutputs }
  | Exclude<Awaited<ReturnType<typeof submit>>, AcceptedOutcome>;

/**
 * Submits a call on its current route, and waits for its outputs. If its provider could not download
 * a file that the gateway serves, the call is sent again, because the gateway was unreachable.
 */
async function runOnRoute(running: RunningCall): Promise<RouteOutcome> {
  for (const resendDelayMs of [...resendDelaysMs, null]) {
    try {
      return await sendAndAwait(running);
    } catch (error) {
      const { type, message } = readFailure(error);
      if (type !== 'INPUT_UNREAD') throw error;
      if (!readsStoredFile(running)) throw createFailure('PROVIDER_REJECTED_INPUT', message);
      if (resendDelayMs !== null) await waitBeforeResend(running, resendDelayMs);
    }
  }
  throw createFailure('PROVIDER_ERROR', 'the provider could not download an input file');
}

async function sendAndAwait(running: RunningCall): Promise<RouteOutcome> {
  const submitOutcome = await submit(running);
  const { kind } = submitOutcome;
  if (kind === 'not_accepted' || kind === 'paused') return submitOutcome;
  if (running.reportStart) await running.reportStart();
  if (kind === 'outputs') return submitOutcome;
  return { kind: 'outputs', outputs: await awaitOutputs(running, submitOutcome.operation) };
}

/** Returns whether an input of a call is a file that the gateway stores (storage/inputs). */
function readsStoredFile({ task, route }: RunningCall): boolean {
  return Boolean(task.source) || JSON.stringify(route.input).includes('"storage:');
}

async function waitBeforeResend(running: RunningCall, delayMs: number): Promise<void> {
  const { call, signals, progress } = running;
  progress.setCallPhase(call.index, 'the provider could not download an input file: sending again');
  await condition(() => signals.cancelRequested, delayMs, {
    summary: `${callPrefix(running)}wait until the input file can be downloaded`,
  });
  throwIfCanceledOrOverdue(running);
}

type RouteResult =
  | { kind: 'outputs'; outputs: CallOutputs }
  | { kind: 'paused'; pausedRoutes: RunningCall[] };

/**
 * Tries the routes of a call in order. Tries the next route only if the provider of the previous
 * route certainly did not accept the call.
 */
async function tryRoutes(
  job: RunningJob,
  call: PlannedCall,
  inputKey: string | undefined,
): Promise<RouteResult> {
  let failureMessage = 'no route is configured';
  const pausedRoutes: RunningCall[] = [];
  for (const [routeIndex, route] of call.routes.entries()) {
    throwIfCanceledOrOverdue(job);
    const task = createCallInput(job.plan, { call, routeIndex, inputKey });
    if (!task) continue;
    const running = { ...job, call, route, task };
    if (!job.pausedProviders.has(route.provider)) {
      const submitOutcome = await runOnRoute(running);
      if (submitOutcome.kind === 'outputs') return submitOutcome;
      if (submitOutcome.kind === 'not_accepted') failureMessage = submitOutcome.message;
      else job.pausedProviders.add(route.provider);
    }
    if (job.pausedProviders.has(route.provider)) pausedRoutes.push(running);
  }
  if (pausedRoutes.length > 0) return { kind: 'paused', pausedRoutes };
  throwIfCanceledOrOverdue(job);
  throw createFailure('PROVIDER_ERROR', failureMessage);
}

/**
 * Waits until an operator resumes one of the paused providers. Until then, every attempt of the
 * activity `awaitResume` fails, and Temporal retries it.
 */
async function awaitResume(
  job: RunningJob,
  call: PlannedCall,
  pausedRoutes: RunningCall[],
): Promise<void> {
  const { signals, progress, deadlineAtMs, pausedProviders } = job;
  const [first] = pausedRoutes;
  if (!first) return;
  const providers = pausedRoutes.map(({ route }) => route.provider);
  const summary = `${callPrefix(first)}paused: ${providers.join(', ')}`;
  const step = { ...callStep(first, 'awaitResume'), summary };
  const tasks = pausedRoutes.map(({ task }) => task);
  progress.setCallPhase(call.index, 'waiting: the provider is paused');
  let isResumed = false;
  while (!isResumed) {
    const { checkRequests } = signals;
    const deadline = `${callPrefix(first)}wait until the deadline`;
    const mustStopWaiting = (): boolean =>
      signals.cancelRequested || signals.checkRequests > checkRequests;
    const remainingMs = Math.max(1, deadlineAtMs - Date.now());
    const scope = new CancellationScope();
    isResumed = await scope.run(() =>
      Promise.race([
        runStep(first, step, (activities) => activities.awaitResume(tasks)).then(() => true),
        condition(mustStopWaiting, remainingMs, { summary: deadline }).then(() => false),
      ]),
    );
    scope.cancel();
    throwIfCanceledOrOverdue(job);
  }
  for (const provider of providers) pausedProviders.delete(provider);
}
