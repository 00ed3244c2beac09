/**
 * Waits for decisions about the steps of a pipeline. A decision is an Update, whose validator rejects
 * it before it enters the history unless its step waits and is not decided. The row of the job has the
 * last word, because it may know a decision from before a reset of the workflow.
 */
import {
  CancellationScope,
  condition,
  getExternalWorkflowHandle,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import {
  decideUpdate,
  type ApprovalEnd,
  type ApprovalEvent,
  type Decision,
  type RecordedApproval,
} from '../domain/approvals.ts';
import { itemWaits } from '../domain/bulk-contract.ts';
import type { CallOutputs } from '../domain/job-plan.ts';
import type { PipelineStep } from '../domain/pipeline-plan.ts';
import { createFailure } from './failures.ts';
import { throwIfCanceledOrOverdue, type RunningJob } from './running-job.ts';
import { runStep } from './steps.ts';
import { startDeliveries } from './webhook-delivery.ts';

/** Wait of a step. */
interface Wait {
  isOver: boolean;
  decision: Decision | null;
  /** End of the wait, once it is in the row of the job. */
  recorded: ApprovalEnd | null;
}

/** Waits of a job, by step id. */
export type Waits = Map<string, Wait>;

/** Registers the handler of decisions. */
export function listenToDecisions(): Waits {
  const waits: Waits = new Map();
  setHandler(
    decideUpdate,
    async (decision) => {
      // Another decision of the same workflow task may have been accepted since the validation.
      const wait = findWait(waits, decision);
      wait.decision = decision;
      // A cancellation of the workflow cancels the scope of its handlers.
      await CancellationScope.nonCancellable(() => condition(() => wait.recorded !== null));
      if (wait.recorded?.hash === decision.hash) return;
      const isDecided = wait.recorded?.hash !== null;
      throw createFailure(
        isDecided ? 'ALREADY_DECIDED' : 'NOT_AWAITING',
        `the row of the job has another end: ${wait.recorded?.kind}`,
      );
    },
    { validator: (decision) => void findWait(waits, decision) },
  );
  return waits;
}

/** Finds the wait of the step that a decision names. @throws ApplicationFailure unless the step waits and is not decided */
function findWait(waits: Waits, { stepId, hash }: Decision): Wait {
  const wait = waits.get(stepId);
  if (wait?.decision?.hash === hash) throw createFailure('SAME_DECISION', 'it was made before');
  if (wait?.decision) throw createFailure('ALREADY_DECIDED', 'another decision was made before');
  if (!wait || wait.isOver || wait.recorded)
    throw createFailure('NOT_AWAITING', `${stepId} does not wait`);
  return wait;
}

/**
 * Waits until a step is approved. `outputs` are those of the steps whose results it takes. A workflow
 * that was reset does not wait again for a decision that is recorded.
 * @throws ApplicationFailure APPROVAL_REJECTED, APPROVAL_TIMEOUT or CANCELED
 */
export async function awaitApproval(
  job: RunningJob & { waits: Waits },
  { step, withinMs, outputs }: { step: PipelineStep; withinMs: number; outputs: CallOutputs[] },
): Promise<ApprovalEnd> {
  const { plan } = job;
  // The deadline of the job does not run while a step waits.
  const untimed = { ...job, deadlineAtMs: Number.POSITIVE_INFINITY };
  throwIfCanceledOrOverdue(untimed);
  const sinceMs = Date.now();
  const times = { sinceMs, untilMs: sinceMs + withinMs };
  const index = (plan.steps ?? []).findIndex(({ id }) => id === step.id);
  const record = (change: ApprovalEvent['change']): Promise<RecordedApproval> => {
    const event = { jobId: plan.jobId, stepId: step.id, index, ...times, change };
    const summary = `${step.id}: ${change.kind === 'begin' ? 'begin to wait' : change.end.kind}`;
    // The time for the attempts counts from now, not from the deadline of the job.
    const timed = { ...job, deadlineAtMs: Date.now() + step.deadlineMs };
    return runStep(timed, { name: 'recordApproval', summary }, (activities) =>
      activities.recordApproval(event),
    );
  };
  // A decision may arrive as soon as the row says that the step waits, before the activity has ended.
  const wait: Wait = { isOver: false, decision: null, recorded: null };
  job.waits.set(step.id, wait);
  // A signal that arrives from here on makes the workflow read the row once more.
  let { checkRequests } = job.signals;
  let {
    end,
    webhookId,
    webhookIds = webhookId ? [webhookId] : [],
    jobUrl,
  } = await record({ kind: 'begin', outputs });
  wait.recorded = end;
  if (!end) {
    informBulk(job);
    await startDeliveries(plan, webhookIds);
    while (!end) {
      const { untilMs } = times;
      const own = await awaitEnd(job, { step, wait, jobUrl, untilMs, checkRequests });
      ({ checkRequests } = job.signals);
      const body = wait.decision?.body ?? null;
      // A workflow that was reset while it waited finds the decision in the row once it is signaled.
      const recorded = await record(
        own ? { kind: 'end', end: own, body } : { kind: 'begin', outputs },
      );
      end = recorded.end ?? own;
      wait.recorded = end;
    }
    informBulk(job);
  }
  throwIfCanceledOrOverdue(untimed);
  throwIfUnapproved(end);
  return end;
}

interface AwaitedEnd {
  step: PipelineStep;
  wait: Wait;
  jobUrl: string;
  untilMs: number;
  /** Number of `checkNow` signals before the row of the job was read. */
  checkRequests: number;
}

/** Waits for a decision, for the end of the time or for a cancellation. Returns null after a signal `checkNow`. */
async function awaitEnd(
  { progress, signals }: RunningJob,
  { step, wait, jobUrl, untilMs, checkRequests }: AwaitedEnd,
): Promise<ApprovalEnd | null> {
  const summary = `awaiting approval until ${new Date(untilMs).toISOString()}`;
  progress.setCallPhase(step.calls[0], `${summary}: ${jobUrl}`);
  const isSignaled = await condition(
    () =>
      wait.decision !== null || signals.cancelRequested || signals.checkRequests > checkRequests,
    Math.max(1, untilMs - Date.now()),
    { summary: `${step.id}: ${summary}` },
  );
  const { decision } = wait;
  if (isSignaled && !decision && !signals.cancelRequested) return null;
  wait.isOver = true;
  const kind = decision?.kind ?? (signals.cancelRequested ? 'cancel' : 'timeout');
  const { hash = null, keyId = null, reason = null, outputs = {}, changed = null } = decision ?? {};
  return { kind, hash, keyId, reason, outputs, changed };
}

/** @throws ApplicationFailure APPROVAL_REJECTED, APPROVAL_TIMEOUT or CANCELED */
function throwIfUnapproved({ kind, reason }: ApprovalEnd): void {
  if (kind === 'approve') return;
  if (kind === 'timeout')
    throw createFailure('APPROVAL_TIMEOUT', 'the step was not approved in time');
  if (kind === 'cancel') throw createFailure('CANCELED', 'the job ended before the step');
  const because = reason === null ? '' : `: ${reason}`;
  throw createFailure('APPROVAL_REJECTED', `the step was not approved${because}`);
}

/** Signals the bulk job of a job whether it awaits an approval, because it holds no place meanwhile. */
function informBulk({ plan: { jobId, inBulk }, waits }: RunningJob & { waits: Waits }): void {
  const { parent } = workflowInfo();
  if (!inBulk || !parent) return;
  const awaits = [...waits.values()].some(({ recorded }) => !recorded);
  const bulk = getExternalWorkflowHandle(parent.workflowId);
  // A bulk job that does not run reads the rows when it is started again.
  void bulk.signal(itemWaits, { jobId, awaits }).catch(() => {});
}
