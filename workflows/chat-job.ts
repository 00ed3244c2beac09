/**
 * Workflow of a chat job: reserve → answer → charge or release. The answer and its end are rows, so the
 * settlement follows also if the worker that received the answer crashed (activities/answer-chat.ts).
 */
import { CancellationScope } from '@temporalio/workflow';
import type { ChatSettlement } from '../activities/answer-chat.ts';
import { formatCredits } from '../domain/credits.ts';
import type { JobOutcome } from '../domain/job-contract.ts';
import { chatPlanVersion, type JobPlan } from '../domain/job-plan.ts';
import { toPublicError } from './failures.ts';
import type { RunningJob } from './running-job.ts';
import { endRejected, endUndelivered, recordOutcome } from './settlement.ts';
import { runStep } from './steps.ts';
import { beginJob } from './studio-job.ts';
import { startWebhookDelivery } from './webhook-delivery.ts';

/**
 * Runs a chat job until it is settled. If the job fails, the workflow fails with the error code that the
 * caller of the API receives.
 */
export async function chatAnswer(plan: JobPlan): Promise<JobOutcome> {
  const job = beginJob(plan, [chatPlanVersion]);
  return CancellationScope.nonCancellable(() => runChat(job));
}

async function runChat(job: RunningJob): Promise<JobOutcome> {
  const { plan, progress } = job;
  const { jobId, organizationId } = plan;
  const summary = plan.model ?? plan.type;
  let failure: unknown = null;
  try {
    progress.setPhase('reserving');
    const outcome = await runStep(job, { name: 'reserveChat', summary }, (activities) =>
      activities.reserveChat(plan),
    );
    if (outcome.verdict !== 'reserved') return endRejected(job, outcome);
    const { reservedMicro, isSettled } = outcome;
    if (!isSettled) {
      progress.setPhase(`answering, ${formatCredits(reservedMicro)} reserved`);
      await runStep(job, { name: 'answerChat', summary }, (activities) =>
        activities.answerChat({ plan, reservedMicro, remainingMs: job.deadlineAtMs - Date.now() }),
      );
    }
  } catch (error) {
    failure = error;
  }
  const error = failure === null ? null : describeFailure(job, failure);
  const settled = await runStep(job, { name: 'settleChat', summary }, (activities) =>
    activities.settleChat({ jobId, organizationId, error }),
  );
  return endSettledChat(job, settled, error);
}

type JobError = ReturnType<typeof toPublicError>;

/** Returns the reason why an answer did not end. */
function describeFailure({ signals, deadlineAtMs }: RunningJob, failure: unknown): JobError {
  if (signals.cancelRequested) {
    return { code: 'CANCELED', message: 'the job was canceled before the provider was called' };
  }
  if (Date.now() < deadlineAtMs) return toPublicError(failure);
  return { code: 'DEADLINE_EXCEEDED', message: 'no worker answered the chat in time' };
}

async function endSettledChat(
  job: RunningJob,
  settled: ChatSettlement,
  error: JobError | null,
): Promise<JobOutcome> {
  const { plan, progress } = job;
  if (settled.verdict === 'not_reserved') {
    return endUndelivered(job, {
      status: error?.code === 'CANCELED' ? 'canceled' : 'failed',
      error: error ?? { code: 'JOB_LOST', message: 'the job has no reservation' },
      billing: 'none',
      amount: 'nothing was reserved',
    });
  }
  await startWebhookDelivery(plan);
  const { state: billing, chargedMicro, status } = settled;
  const amount = `${billing} ${formatCredits(chargedMicro)}`;
  if (status !== 'completed') {
    const ended = settled.error ?? { code: 'JOB_LOST', message: 'the job ended abnormally' };
    return endUndelivered(job, { status, error: ended, billing, amount });
  }
  progress.setPhase(amount);
  return recordOutcome(plan, { status, billing, reason: null, chargedMicro });
}
