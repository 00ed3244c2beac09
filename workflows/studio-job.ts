/**
 * Workflow of every Studio job: reserve → call(s) → charge or release. The release is in the
 * `catch` block and the charge is after it, so that a failed charge never releases the credits of a
 * delivered job. Both steps also run after a cancellation, and a repeated charge or release has no
 * effect. Cancellation never interrupts a running step: the workflow checks for it between steps.
 */
import { planVersions, type CallOutputs, type JobPlan } from '../domain/job-plan.ts';
import { listenToDecisions } from './approval-wait.ts';
import { createFailure } from './failures.ts';
import { formatCredits } from '../domain/credits.ts';
import { reportProgress } from './progress.ts';
import { listenToSignals } from './signals.ts';
import { CancellationScope, patched } from '@temporalio/workflow';
import type { JobOutcome } from '../domain/job-contract.ts';
import { isChain, runPipeline, type StepErrors } from './pipeline.ts';
import { assemble, runCalls } from './provider-call.ts';
import { charge, endSettled, endRejected, release } from './settlement.ts';
import type { RunningJob } from './running-job.ts';
import { runStep } from './steps.ts';
import { createStartReport } from './webhook-delivery.ts';

/**
 * Runs a Studio job until it is settled. If the job fails, the workflow fails with the error code
 * that the caller of the API receives.
 */
export async function studioJob(plan: JobPlan): Promise<JobOutcome> {
  const begun = beginJob(plan, planVersions);
  const waits = plan.steps?.some(({ approval }) => approval) ? listenToDecisions() : undefined;
  const job: RunningJob = {
    ...begun,
    startsCallsLocally:
      plan.calls.length === 1 ||
      (plan.steps !== undefined && isChain(plan.steps) && patched('chains-start-locally')),
    ...(waits && { waits }),
    ...(plan.webhook?.started && { reportStart: createStartReport(plan) }),
  };
  return CancellationScope.nonCancellable(() => runJob(job));
}

/** Begins to listen to the signals of a job, and to report its progress. */
export function beginJob(plan: JobPlan, versions: readonly number[]): RunningJob {
  const signals = listenToSignals();
  throwIfUnsupportedPlan(plan, versions);
  return {
    plan,
    signals,
    progress: reportProgress(plan),
    deadlineAtMs: Date.now() + plan.deadlineMs,
    startsCallsLocally: false,
    pausedProviders: new Set(),
    providerRequestIds: [],
  };
}

/**
 * Throws an error if this worker cannot run the plan. If the plan has another version, only the
 * workflow task fails, so that a worker that knows the version can continue. If the input is not a
 * plan, the workflow fails.
 */
function throwIfUnsupportedPlan(
  plan: Partial<JobPlan> | undefined,
  versions: readonly number[],
): void {
  if (plan?.planVersion === undefined)
    throw createFailure('UNKNOWN_PLAN', 'the input is not a job plan');
  if (versions.includes(plan.planVersion)) return;
  throw new Error(
    `the plan has version ${plan.planVersion}; this worker only runs versions ${versions.join(', ')}`,
  );
}

async function runJob(job: RunningJob): Promise<JobOutcome> {
  const { plan, progress } = job;
  const price = formatCredits(plan.priceMicro);
  let outputs: CallOutputs[];
  let stepErrors: StepErrors | undefined;
  try {
    progress.setPhase(`reserving ${price}`);
    const reserveOutcome = await runStep(job, { name: 'reserve', summary: price }, (activities) =>
      activities.reserve(plan),
    );
    if (reserveOutcome.verdict !== 'reserved') return endRejected(job, reserveOutcome);
    // A workflow that was reset after its settlement runs `reserve` again. The job is already
    // settled, so no call may be sent.
    if (reserveOutcome.settledBefore) return await endSettled(job, reserveOutcome.settledBefore);
    for (const provider of reserveOutcome.paused) job.pausedProviders.add(provider);
    if (plan.steps) {
      const end = await runPipeline(job, plan.steps);
      ({ outputs, stepErrors } = end);
      if (end.failure) throw end.failure;
    } else outputs = await runSingle(job);
  } catch (error) {
    return release(job, error, stepErrors);
  }
  return charge(job, outputs);
}

/** Runs the calls of a job that is no pipeline. */
async function runSingle(job: RunningJob): Promise<CallOutputs[]> {
  const { calls, assembly: kind, model } = job.plan;
  const outputs = await runCalls(job, calls);
  return assemble(job, { kind, callIndex: calls.length, model }, outputs);
}
