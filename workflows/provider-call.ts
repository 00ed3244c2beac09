/**
 * Runs one provider call of a job: tries its routes in order, and waits while the providers of its
 * routes are paused.
 */
import { CancellationScope, condition } from '@temporalio/workflow';
import { createCallTask, type CallOutputs, type PlannedCall } from '../domain/job-plan.ts';
import { createFailure, readFailure } from './failures.ts';
import { awaitOutputs } from './await-outputs.ts';
import { throwIfCanceledOrOverdue, type RunningCall, type RunningJob } from './running-job.ts';
import { callStep } from './step.ts';
import { runStep } from './steps.ts';
import { submit } from './submit.ts';

/**
 * Runs a call and returns its outputs. If no provider accepts the call and a provider is paused,
 * waits until the provider is resumed and tries the routes again. `inputKey` is the storage key of
 * the artifact of an earlier call that this call uses as input.
 * @throws ApplicationFailure with a code from the error table
 */
export async function runCall(
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
    const task = createCallTask(job.plan, { call, routeIndex, inputKey });
    if (!task) continue;
    const running = { ...job, call, route, task };
    if (!job.pausedProviders.has(route.provider)) {
      const submitOutcome = await submit(running);
      if (submitOutcome.kind === 'outputs' || submitOutcome.kind === 'operation') {
        if (job.reportStart) await job.reportStart();
        if (submitOutcome.kind === 'outputs') return submitOutcome;
        return {
          kind: 'outputs',
          outputs: await awaitOutputs(running, submitOutcome.operation),
        };
      }
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
  const step = { ...callStep(first, 'awaitResume'), summary: `paused: ${providers.join(', ')}` };
  const tasks = pausedRoutes.map(({ task }) => task);
  progress.setCallPhase(call.index, 'waiting: the provider is paused');
  let isResumed = false;
  while (!isResumed) {
    const { checkRequests } = signals;
    const mustStopWaiting = (): boolean =>
      signals.cancelRequested || signals.checkRequests > checkRequests;
    const remainingMs = Math.max(1, deadlineAtMs - Date.now());
    const scope = new CancellationScope();
    isResumed = await scope.run(() =>
      Promise.race([
        runStep(first, step, (activities) => activities.awaitResume(tasks)).then(() => true),
        condition(mustStopWaiting, remainingMs, { summary: 'wait until the deadline' }).then(
          () => false,
        ),
      ]),
    );
    scope.cancel();
    throwIfCanceledOrOverdue(job);
  }
  for (const provider of providers) pausedProviders.delete(provider);
}
