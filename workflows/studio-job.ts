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
import type { AtOnce, Sent } from '../activities/job-at-once.ts';
import type { SettleVerdict } from '../activities/ledger/ledger.ts';
import type { ErrorCode } from '../domain/errors.ts';
import { chargeMicroOf } from '../studio/job-charge.ts';
import type { CallOutputs, JobPlan, PlannedCall } from '../studio/job-plan.ts';
import { openCallDesk, type CallDesk } from './call-desk.ts';
import {
  deliveryIdOf,
  searchAttributes,
  webhookDeliveryType,
  type JobOutcome,
  type WebhookDelivery,
} from './contract.ts';
import { createJobProgress, type JobProgress } from './job-progress.ts';
import { runCall, type CallContext } from './provider-call.ts';
import { admission, assembly, atOnce, failureOf, settlement } from './studio-activities.ts';

/** Runs a Studio job to its settlement. Fails with the code that the caller sees. */
export async function studioJob(plan: JobPlan): Promise<JobOutcome> {
  const desk = openCallDesk();
  return CancellationScope.nonCancellable(() => runJob(plan, desk));
}

async function runJob(plan: JobPlan, desk: CallDesk): Promise<JobOutcome> {
  const progress = createJobProgress(plan);
  let outputs: CallOutputs[] = [];
  let settled: SettleVerdict | null;
  try {
    progress.show(null, 'reserving');
    const begun = await begin(plan);
    const { admitted, sent } = begun;
    ({ settled } = begun);
    if (admitted.verdict !== 'reserved') {
      return outcome(plan, {
        status: 'refused',
        billing: 'none',
        reason: admitted.verdict,
        refusal: admitted,
      });
    }
    // A reset workflow reserves again what was settled long ago: nothing may be sent for it any more.
    if (admitted.state !== 'reserved') return await settledBefore(plan, admitted.state);
    if (!settled) outputs = await assemble(plan, await runCalls(plan, { desk, progress, sent }));
  } catch (error) {
    progress.show(null, 'releasing');
    return release(plan, error);
  }
  progress.show(null, 'charging');
  return finish(plan, settled ?? (await charge(plan, outputs)));
}

interface Running {
  desk: CallDesk;
  progress: JobProgress;
  /** What came of the job's only call, where its first step has sent it. */
  sent: Sent | null;
}

/** Reserves; a job of one quick call goes as far as it comes in the same step. */
async function begin(plan: JobPlan): Promise<AtOnce> {
  if (isQuick(plan)) {
    try {
      return await atOnce.reserveSubmitCharge(plan);
    } catch (error) {
      // What it did is on record, and found there: the same, part by part.
      log.warn('the job did not run at once', { error: String(error) });
    }
  }
  return { admitted: await admission.reserveJob(plan), sent: null, settled: null };
}

/** One call, to a provider that queues work itself and tells of its end. */
function isQuick(plan: JobPlan): boolean {
  const [call, another] = plan.calls;
  if (plan.dispatch !== 'auto' || another || plan.assembly) return false;
  return call?.routes[0]?.notifies === true;
}

/** Runs all calls; one that fails leaves the others' results standing, unless none delivered. */
async function runCalls(plan: JobPlan, running: Running): Promise<CallOutputs[]> {
  const deadlineAtMs = Date.now() + plan.deadlineMs;
  const started: Promise<CallOutputs>[] = [];
  for (const call of plan.calls) {
    const context = { plan, deadlineAtMs, ...running };
    const source = call.inputFrom ? started[call.inputFrom.callIndex] : undefined;
    started.push(source ? runAfter(source, context, call) : runCall(context, call));
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
  context: CallContext,
  call: PlannedCall,
): Promise<CallOutputs> {
  const [artifact] = (await source).artifacts;
  if (!artifact) throw ApplicationFailure.nonRetryable('nothing to work on', 'PROVIDER_ERROR');
  return runCall({ ...context, inputKey: artifact.storageKey }, call);
}

/** Whether another call works on the result of this one: then it is not what the caller gets. */
function isStep(plan: JobPlan, callIndex: number): boolean {
  return plan.calls.some((call) => call.inputFrom?.callIndex === callIndex);
}

/** Makes one artifact of the calls' artifacts where the plan says so; it follows them as an output. */
async function assemble(plan: JobPlan, outputs: CallOutputs[]): Promise<CallOutputs[]> {
  if (!plan.assembly) return outputs;
  const assembled = await assembly.assembleOutputs({
    ...nameOf(plan),
    kind: plan.assembly,
    callIndex: plan.calls.length,
    parts: outputs.flatMap((call) => call.artifacts),
  });
  return [...outputs, assembled];
}

/** The outcome of a job that an earlier run, or the sweeper, has settled. */
async function settledBefore(plan: JobPlan, state: string): Promise<JobOutcome> {
  if (state !== 'charged') {
    return outcome(plan, { status: 'failed', billing: 'released', reason: 'JOB_LOST' });
  }
  // Settling again changes nothing and tells what was charged.
  return finish(plan, await charge(plan, []));
}

async function charge(plan: JobPlan, outputs: CallOutputs[]): Promise<SettleVerdict> {
  return settlement.settleJob({
    ...nameOf(plan),
    status: 'completed',
    chargeMicro: chargeMicroOf(plan, outputs),
    outputs,
    error: null,
  });
}

/** The end of a job that was charged, or should have been. */
async function finish(plan: JobPlan, settled: SettleVerdict): Promise<JobOutcome> {
  await tellCaller(plan);
  // A sweeper that took the job for lost has released it: then nothing is charged, and that is said.
  if (settled.verdict === 'not_reserved' || settled.state !== 'charged') {
    return outcome(plan, { status: 'failed', billing: 'released', reason: 'JOB_LOST' });
  }
  return outcome(plan, {
    status: 'completed',
    billing: 'charged',
    reason: null,
    chargedMicro: settled.charged,
  });
}

/** Releases and fails; a job whose reservation never came to be has nothing to release. */
async function release(plan: JobPlan, error: unknown): Promise<JobOutcome> {
  const { code, message } = errorOf(error);
  const status = code === 'CANCELED' ? 'canceled' : 'failed';
  const settled = await settlement.settleJob({
    ...nameOf(plan),
    status,
    chargeMicro: 0,
    outputs: null,
    error: { code, message },
  });
  if (settled.verdict !== 'not_reserved') await tellCaller(plan);
  const billing = settled.verdict === 'not_reserved' ? 'none' : settled.state;
  outcome(plan, { status, billing, reason: code });
  if (status === 'canceled') throw new CancelledFailure(message);
  throw ApplicationFailure.nonRetryable(message, code);
}

/**
 * Sets the delivery of the webhook going, once the job is settled. Awaited, because a server does not
 * start the child of a workflow that has ended; a delivery that cannot be started is the sweeper's.
 */
async function tellCaller(plan: JobPlan): Promise<void> {
  // Plans of before there were webhooks have no such field.
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
  ]);
  return { jobId: plan.jobId, chargedMicro: 0, refusal: null, ...end };
}
