/**
 * The one body of every Studio workflow: reserve → call(s) → charge, or release.
 *
 * A charge stands outside the `try` and a release inside the `catch`; both run whatever is canceled,
 * and both are idempotent by job id. Cancellation never interrupts: it is noticed between steps.
 */
import {
  ApplicationFailure,
  CancelledFailure,
  CancellationScope,
  log,
  ParentClosePolicy,
  startChild,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import type { ErrorCode } from '../domain/errors.ts';
import {
  deliveryIdOf,
  searchAttributes,
  webhookDeliveryType,
  type JobOutcome,
  type WebhookDelivery,
} from '../jobs/contract.ts';
import { chargeMicroOf } from '../jobs/job-plan.ts';
import { planVersion, type CallOutputs, type JobPlan, type PlannedCall } from '../jobs/job-plan.ts';
import type { SettleVerdict } from '../jobs/ledger-verdicts.ts';
import { creditsOf, reportProgress, listenToSignals } from './running-job.ts';
import { runCall, type CallingJob } from './provider-call.ts';
import { failed, failureOf, run, type RunningJob } from './steps.ts';

/** Runs a Studio job to its settlement. Fails with the code that the caller sees. */
export async function studioJob(plan: JobPlan): Promise<JobOutcome> {
  const signals = listenToSignals();
  refuseOtherPlan(plan);
  const progress = reportProgress(plan);
  return CancellationScope.nonCancellable(() => runJob({ plan, signals, progress }));
}

/** A plan of a later version waits for a worker that knows it; what is no plan ends at once. */
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
    const reserving = { verb: 'reserve', summary: credits } as const;
    const admitted = await run(job, reserving, (activities) => activities.reserve(plan));
    if (admitted.verdict !== 'reserved') {
      progress.job(`refused: ${admitted.verdict}`);
      return outcome(plan, { status: 'refused', billing: 'none', reason: admitted.verdict });
    }
    // A reset workflow reserves again what was settled long ago: nothing may be sent for it any more.
    if (admitted.state !== 'reserved') return await settledBefore(job, admitted.state);
    outputs = await assemble(job, await runCalls(job, admitted.paused));
  } catch (error) {
    return release(job, error);
  }
  return finish(job, await charge(job, outputs));
}

/** Runs all calls; one that fails leaves the others' results standing, unless none delivered. */
async function runCalls(job: RunningJob, paused: string[]): Promise<CallOutputs[]> {
  const { plan } = job;
  const calling: CallingJob = {
    ...job,
    deadlineAtMs: Date.now() + plan.deadlineMs,
    operationIds: [],
    paused: new Set(paused),
  };
  const started: Promise<CallOutputs>[] = [];
  for (const call of plan.calls) {
    const source = call.inputFrom ? started[call.inputFrom.callIndex] : undefined;
    started.push(source ? runAfter(source, calling, call) : runCall(calling, call));
  }
  const ended = await Promise.allSettled(started);
  const delivered = ended.some((end, index) => end.status === 'fulfilled' && !isStep(plan, index));
  for (const [index, end] of ended.entries()) {
    if (end.status === 'rejected' && (!delivered || plan.calls[index]?.required)) throw end.reason;
  }
  return ended.map((end, callIndex) => {
    if (end.status === 'fulfilled') return end.value;
    const { code, message } = errorOf(end.reason);
    return { callIndex, artifacts: [], data: null, delivered: 0, error: { code, message } };
  });
}

/** Runs a call on the result of an earlier one; without that it fails as the earlier one did. */
async function runAfter(
  source: Promise<CallOutputs>,
  calling: CallingJob,
  call: PlannedCall,
): Promise<CallOutputs> {
  const [artifact] = (await source).artifacts;
  if (!artifact) throw failed('PROVIDER_ERROR', 'nothing to work on');
  return runCall(calling, call, artifact.storageKey);
}

/** Whether another call works on the result of this one: then it is not what the caller gets. */
function isStep(plan: JobPlan, callIndex: number): boolean {
  return plan.calls.some((call) => call.inputFrom?.callIndex === callIndex);
}

/** Makes one artifact of the calls' artifacts where the plan says so; it follows them as an output. */
async function assemble(job: RunningJob, outputs: CallOutputs[]): Promise<CallOutputs[]> {
  const { plan } = job;
  const kind = plan.assembly;
  if (!kind) return outputs;
  job.progress.job('assembling');
  const task = {
    ...nameOf(plan),
    kind,
    callIndex: plan.calls.length,
    parts: outputs.flatMap((call) => call.artifacts),
  };
  const assembling = { verb: 'assemble', summary: `${task.parts.length} parts` } as const;
  return [...outputs, await run(job, assembling, (activities) => activities.assemble(task))];
}

/** The outcome of a job that an earlier run, or the sweeper, has settled. */
async function settledBefore(job: RunningJob, state: string): Promise<JobOutcome> {
  if (state !== 'charged') return lost(job);
  // Settling again changes nothing and tells what was charged.
  return finish(job, await charge(job, []));
}

function charge(job: RunningJob, outputs: CallOutputs[]): Promise<SettleVerdict> {
  const { plan } = job;
  const chargeMicro = chargeMicroOf(plan, outputs);
  const summary = creditsOf(chargeMicro);
  job.progress.job(`charging ${summary}`);
  return run(job, { verb: 'charge', summary }, (activities) =>
    activities.charge({ ...nameOf(plan), chargeMicro, outputs }),
  );
}

/** The end of a job that was charged, or should have been. */
async function finish(job: RunningJob, settled: SettleVerdict): Promise<JobOutcome> {
  await tellCaller(job.plan);
  // A sweeper that took the job for lost has released it: then nothing is charged, and that is said.
  if (settled.verdict === 'not_reserved' || settled.state !== 'charged') return lost(job);
  const chargedMicro = settled.charged;
  job.progress.job(`charged ${creditsOf(chargedMicro)}`);
  return outcome(job.plan, {
    status: 'completed',
    billing: 'charged',
    reason: null,
    chargedMicro,
  });
}

function lost(job: RunningJob): JobOutcome {
  job.progress.job(`released ${creditsOf(job.plan.priceMicro)}: JOB_LOST`);
  return outcome(job.plan, { status: 'failed', billing: 'released', reason: 'JOB_LOST' });
}

/** Releases and fails; a job whose reservation never came to be has nothing to release. */
async function release(job: RunningJob, error: unknown): Promise<JobOutcome> {
  const { plan, progress } = job;
  const { code, message } = errorOf(error);
  const status = code === 'CANCELED' ? 'canceled' : 'failed';
  progress.job(`releasing ${creditsOf(plan.priceMicro)}: ${code}`);
  const settled = await run(job, { verb: 'release', summary: code }, (activities) =>
    activities.release({ ...nameOf(plan), status, error: { code, message } }),
  );
  if (settled.verdict !== 'not_reserved') await tellCaller(plan);
  const billing = settled.verdict === 'not_reserved' ? 'none' : settled.state;
  outcome(plan, { status, billing, reason: code });
  const words = `${billingInWords(plan, settled)}: ${code}, ${message}`;
  progress.job(words);
  if (status === 'canceled') throw new CancelledFailure(words);
  throw ApplicationFailure.create({ message: words, type: code, nonRetryable: true });
}

function billingInWords(plan: JobPlan, settled: SettleVerdict): string {
  if (settled.verdict === 'not_reserved') return 'nothing was reserved';
  return settled.state === 'charged'
    ? `charged ${creditsOf(settled.charged)} before`
    : `released ${creditsOf(plan.priceMicro)}`;
}

/**
 * Sets the delivery of the webhook going, once the job is settled. Awaited, because a server does not
 * start the child of a workflow that has ended; a delivery that cannot be started is the sweeper's.
 */
async function tellCaller(plan: JobPlan): Promise<void> {
  if (!plan.webhook) return;
  const { jobId, organizationId } = nameOf(plan);
  const delivery: WebhookDelivery = { jobId, organizationId, ...plan.webhook };
  try {
    await startChild(webhookDeliveryType, {
      workflowId: deliveryIdOf(jobId),
      args: [delivery],
      parentClosePolicy: ParentClosePolicy.ABANDON,
      staticSummary: `webhook of ${jobId}`,
      priority: { fairnessKey: organizationId },
    });
  } catch (error) {
    log.warn('the delivery of the webhook was not started', { error: String(error) });
  }
}

/** Failure types that are codes of the error table; any other failure is a fault of ours. */
const publicCodes: readonly ErrorCode[] = [
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'PROVIDER_ERROR',
  'STORAGE_ERROR',
  'DEADLINE_EXCEEDED',
  'OUTCOME_UNKNOWN',
  'CANCELED',
  'JOB_LOST',
];

function errorOf(error: unknown): { code: ErrorCode; message: string } {
  const { type, message } = failureOf(error);
  const code = publicCodes.find((known) => known === type);
  return code
    ? { code, message }
    : { code: 'Internal server error', message: 'The job failed on our side.' };
}

function nameOf(plan: JobPlan): { jobId: string; organizationId: string } {
  return { jobId: plan.jobId, organizationId: plan.organizationId };
}

type End = Pick<JobOutcome, 'status' | 'billing' | 'reason'> & Partial<JobOutcome>;

/** The workflow's result, also shown as search attributes. */
function outcome(plan: JobPlan, end: End): JobOutcome {
  upsertSearchAttributes([
    { key: searchAttributes.jobStatus, value: end.status },
    { key: searchAttributes.billingState, value: end.billing },
    ...(end.reason === null ? [] : [{ key: searchAttributes.errorCode, value: end.reason }]),
  ]);
  return { jobId: plan.jobId, chargedMicro: 0, ...end };
}
