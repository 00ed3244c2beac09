/**
 * Workflow of every Studio job: reserve → call(s) → charge or release. The charge is outside the
 * `try`, the release inside the `catch`. Both run also after a cancel, and both are idempotent by
 * job id. A cancel does not interrupt a step that is being executed: the workflow reads it between
 * steps.
 */
import { CancellationScope } from '@temporalio/workflow';
import type { JobOutcome } from '../jobs/contract.ts';
import { planVersion, type CallOutputs, type JobPlan } from '../jobs/job-plan.ts';
import { failed } from './failures.ts';
import { runCalls } from './job-calls.ts';
import { reportProgress } from './progress.ts';
import { creditsOf } from './row-texts.ts';
import type { RunningJob } from './running-job.ts';
import { charge, endSettled, refuse, release } from './settlement.ts';
import { listenToSignals } from './signals.ts';
import { run } from './steps.ts';
import { createStartReport } from './webhook-start.ts';

/** Runs a Studio job until it is settled. Fails with the error code that the caller receives. */
export async function studioJob(plan: JobPlan): Promise<JobOutcome> {
  const signals = listenToSignals();
  refuseOtherPlan(plan);
  const job: RunningJob = {
    plan,
    signals,
    progress: reportProgress(plan),
    deadlineAtMs: Date.now() + plan.deadlineMs,
    paused: new Set(),
    providerRequestIds: [],
    ...(plan.webhook?.started && { reportStart: createStartReport(plan) }),
  };
  return CancellationScope.nonCancellable(() => runJob(job));
}

/**
 * A plan of a later version fails the workflow task, which a newer worker then runs. An invalid
 * plan fails the workflow.
 */
function refuseOtherPlan(plan: Partial<JobPlan> | undefined): void {
  if (plan?.planVersion === planVersion) return;
  if (plan?.planVersion === undefined) throw failed('UNKNOWN_PLAN', 'the input is no job plan');
  throw new Error(`this worker knows plans of version ${planVersion}, not ${plan.planVersion}`);
}

async function runJob(job: RunningJob): Promise<JobOutcome> {
  const { plan, progress } = job;
  const credits = creditsOf(plan.priceMicro);
  let outputs: CallOutputs[];
  try {
    progress.job(`reserving ${credits}`);
    const reserved = await run(job, { verb: 'reserve', summary: credits }, (activities) =>
      activities.reserve(plan),
    );
    if (reserved.verdict !== 'reserved') return refuse(job, reserved.verdict);
    // A workflow that was reset after its settlement reserves again: nothing may be sent for it.
    if (reserved.settledBefore) return await endSettled(job, reserved.settledBefore);
    for (const provider of reserved.paused) job.paused.add(provider);
    outputs = await assemble(job, await runCalls(job));
  } catch (error) {
    return release(job, error);
  }
  return charge(job, outputs);
}

/**
 * Joins the artifacts of the calls if the plan requests it; the joined artifact is an additional
 * output.
 */
async function assemble(job: RunningJob, outputs: CallOutputs[]): Promise<CallOutputs[]> {
  const { jobId, organizationId, calls, assembly: kind } = job.plan;
  if (!kind) return outputs;
  job.progress.job('assembling');
  const parts = outputs.flatMap((call) => call.artifacts);
  const task = { jobId, organizationId, kind, callIndex: calls.length, parts };
  const summary = `${parts.length} parts`;
  const assembled = await run(job, { verb: 'assemble', summary }, (activities) =>
    activities.assemble(task),
  );
  return [...outputs, assembled];
}
