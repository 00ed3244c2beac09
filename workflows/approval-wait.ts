/**
 * Waits for decisions about the steps of a pipeline. A decision is an Update, whose validator rejects
 * it before it enters the history unless its step waits and is not decided.
 */
import {
  condition,
  getExternalWorkflowHandle,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { decideUpdate, type ApprovalEvent, type Decision } from '../domain/approvals.ts';
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
  /** True once the end of the wait is in the row of the job. */
  isRecorded: boolean;
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
      await condition(() => wait.isRecorded);
    },
    { validator: (decision) => void findWait(waits, decision) },
  );
  return waits;
}

/** Returns the wait that a decision ends. @throws ApplicationFailure if it ends none */
function findWait(waits: Waits, { stepId, hash }: Decision): Wait {
  const wait = waits.get(stepId);
  if (wait?.decision?.hash === hash) throw createFailure('SAME_DECISION', 'it was made before');
  if (wait?.decision) throw createFailure('ALREADY_DECIDED', 'another decision was made before');
  if (!wait || wait.isOver) throw createFailure('NOT_AWAITING', `${stepId} does not wait`);
  return wait;
}

/**
 * Waits until a step is approved. `outputs` are those of the steps whose results it takes.
 * @throws ApplicationFailure APPROVAL_REJECTED, APPROVAL_TIMEOUT or CANCELED
 */
export async function awaitApproval(
  job: RunningJob & { waits: Waits },
  { step, withinMs, outputs }: { step: PipelineStep; withinMs: number; outputs: CallOutputs[] },
): Promise<Decision> {
  const { waits, signals, progress, plan } = job;
  // The deadline of the job does not run while a step waits.
  const untimed = { ...job, deadlineAtMs: Number.POSITIVE_INFINITY };
  throwIfCanceledOrOverdue(untimed);
  const sinceMs = Date.now();
  const times = { sinceMs, untilMs: sinceMs + withinMs };
  const index = (plan.steps ?? []).findIndex(({ id }) => id === step.id);
  const record = (change: ApprovalEvent['change']): Promise<string[] | null> => {
    const event = { jobId: plan.jobId, stepId: step.id, index, ...times, change };
    const summary = `${step.id}: ${change.kind === 'begin' ? 'begin to wait' : change.end.kind}`;
    // The time for the attempts counts from now, not from the deadline of the job.
    const timed = { ...job, deadlineAtMs: Date.now() + step.deadlineMs };
    return runStep(timed, { name: 'recordApproval', summary }, (activities) =>
      activities.recordApproval(event),
    );
  };
  const webhookIds = await record({ kind: 'begin', outputs });
  const wait: Wait = { isOver: false, decision: null, isRecorded: false };
  waits.set(step.id, wait);
  informBulk(job);
  if (webhookIds) await startDeliveries(plan, webhookIds);
  const summary = `awaiting approval until ${new Date(times.untilMs).toISOString()}`;
  progress.setCallPhase(step.calls[0], summary);
  await condition(
    () => wait.decision !== null || signals.cancelRequested,
    Math.max(1, times.untilMs - Date.now()),
    { summary: `${step.id}: ${summary}` },
  );
  wait.isOver = true;
  const { decision } = wait;
  const kind = decision?.kind ?? (signals.cancelRequested ? 'cancel' : 'timeout');
  const { hash = null, keyId = null, reason = null } = decision ?? {};
  await record({
    kind: 'end',
    end: { kind, hash, keyId, reason },
    body: decision?.body ?? null,
    step: decision?.changed?.step ?? null,
  });
  wait.isRecorded = true;
  informBulk(job);
  throwIfCanceledOrOverdue(untimed);
  if (!decision) throw createFailure('APPROVAL_TIMEOUT', 'the step was not approved in time');
  if (decision.kind === 'approve') return decision;
  const because = reason === null ? '' : `: ${reason}`;
  throw createFailure('APPROVAL_REJECTED', `the step was not approved${because}`);
}

/** Signals the bulk job of a job whether it awaits an approval, because it holds no place meanwhile. */
function informBulk({ plan: { jobId, inBulk }, waits }: RunningJob & { waits: Waits }): void {
  const { parent } = workflowInfo();
  if (!inBulk || !parent) return;
  const awaits = [...waits.values()].some(({ isRecorded }) => !isRecorded);
  const bulk = getExternalWorkflowHandle(parent.workflowId);
  // A bulk job that does not run reads the rows when it is started again.
  void bulk.signal(itemWaits, { jobId, awaits }).catch(() => {});
}
