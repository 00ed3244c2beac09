/**
 * Workflow of every Studio job: reserve → call(s) → charge or release. The charge is outside the
 * `try`, the release inside the `catch`. Both run also after a cancel, and both are idempotent by
 * job id. A cancel does not interrupt a step: the workflow reads it between steps.
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

/** Runs a Studio job until it is settled. Fails with the error code that the caller receives. */
export async function studioJob(plan: JobPlan): Promise<JobOutcome> {
  const signals = listenToSignals();
  refuseOtherPlan(plan);
  const progress = reportProgress(plan);
  return CancellationScope.nonCancellable(() => runJob({ plan, signals, progress }));
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
    const reserving = { verb: 'reserve', summary: credits } as const;
    const admitted = await run(job, reserving, (activities) => activities.reserve(plan));
    if (admitted.verdict !== 'reserved') {
      progress.job(`refused: ${admitted.verdict}`);
      return outcome(plan, { status: 'refused', billing: 'none', reason: admitted.verdict });
    }
    // A workflow that was reset after its settlement reserves again: nothing may be sent for it.
    if (admitted.state !== 'reserved') return await settledBefore(job, admitted.state);
    outputs = await assemble(job, await runCalls(job, admitted.paused));
  } catch (error) {
    return release(job, error);
  }
  return finish(job, await charge(job, outputs));
}

/** Runs all calls. The results of other calls are kept if one fails, unless no call delivered. */
async function runCalls(job: RunningJob, paused: string[]): Promise<CallOutputs[]> {
  const { plan } = job;
  const calling: CallingJob = {
    ...job,
    deadlineAtMs: Date.now() + plan.deadlineMs,
    providerRequestIds: [],
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

/**
 * Runs a call on the result of an earlier call. If that call failed, this one fails in the same
 * way.
 */
async function runAfter(
  source: Promise<CallOutputs>,
  calling: CallingJob,
  call: PlannedCall,
): Promise<CallOutputs> {
  const [artifact] = (await source).artifacts;
  if (!artifact) throw failed('PROVIDER_ERROR', 'nothing to work on');
  return runCall(calling, call, artifact.storageKey);
}

/**
 * Returns whether another call uses the result of this call, which is then not an output of the
 * job.
 */
function isStep(plan: JobPlan, callIndex: number): boolean {
  return plan.calls.some((call) => call.inputFrom?.callIndex === callIndex);
}

/**
 * Joins the artifacts of the calls if the plan requests it; the joined artifact is an additional
 * output.
 */
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

/** Returns the outcome of a job that an earlier run or the sweeper has settled. */
async function settledBefore(job: RunningJob, state: string): Promise<JobOutcome> {
  if (state !== 'charged') return lost(job);
  // A repeated settlement changes nothing and returns the charged amount.
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

/** Ends a job after its charge. */
async function finish(job: RunningJob, settled: SettleVerdict): Promise<JobOutcome> {
  await startWebhookDelivery(job.plan);
  // If the sweeper has released the job as lost, nothing is charged, and the outcome is a failure.
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

/** Releases the credits and fails the job. A job without a reservation has nothing to release. */
async function release(job: RunningJob, error: unknown): Promise<JobOutcome> {
  const { plan, progress } = job;
  const { code, message } = errorOf(error);
  const status = code === 'CANCELED' ? 'canceled' : 'failed';
  progress.job(`releasing ${creditsOf(plan.priceMicro)}: ${code}`);
  const settled = await run(
    job,
    { verb: 'release', summary: `${creditsOf(plan.priceMicro)}: ${code}` },
    (activities) => activities.release({ ...nameOf(plan), status, error: { code, message } }),
  );
  if (settled.verdict !== 'not_reserved') await startWebhookDelivery(plan);
  const billing = settled.verdict === 'not_reserved' ? 'none' : settled.state;
  outcome(plan, { status, billing, reason: code });
  const result = `${billingInWords(plan, settled)}: ${code}, ${message}`;
  progress.job(result);
  if (status === 'canceled') throw new CancelledFailure(result);
  throw ApplicationFailure.create({ message: result, type: code, nonRetryable: true });
}

function billingInWords(plan: JobPlan, settled: SettleVerdict): string {
  if (settled.verdict === 'not_reserved') return 'nothing was reserved';
  return settled.state === 'charged'
    ? `charged ${creditsOf(settled.charged)} before`
    : `released ${creditsOf(plan.priceMicro)}`;
}

/**
 * Starts the delivery of the webhook after the settlement. The start is awaited, because a server
 * drops a child workflow whose parent ends first. If the delivery cannot be started, the sweeper
 * starts it.
 */
async function startWebhookDelivery(plan: JobPlan): Promise<void> {
  if (!plan.webhook) return;
  const { jobId, organizationId } = nameOf(plan);
  const delivery: WebhookDelivery = { subjectId: jobId, organizationId, ...plan.webhook };
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

/** Failure types that are codes of the error table; any other failure is an internal error. */
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

/** Returns the workflow's result and sets it as search attributes. */
function outcome(plan: JobPlan, end: End): JobOutcome {
  upsertSearchAttributes([
    { key: searchAttributes.jobStatus, value: end.status },
    { key: searchAttributes.billingState, value: end.billing },
    ...(end.reason === null ? [] : [{ key: searchAttributes.errorCode, value: end.reason }]),
  ]);
  return { jobId: plan.jobId, chargedMicro: 0, ...end };
}
