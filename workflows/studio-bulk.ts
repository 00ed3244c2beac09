/**
 * Workflow of a bulk job: starts the jobs of its items as child workflows and counts their ends. All
 * state is in the rows of the bulk job; the end of a child, a signal or a timer only makes the step
 * `advance` read them. The workflow can therefore be reset, terminated or started again at any time.
 */
import {
  CancellationScope,
  condition,
  continueAsNew,
  getExternalWorkflowHandle,
  log,
  patched,
  ParentClosePolicy,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  startChild,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import type { Activities } from '../activities/index.ts';
import {
  bulkChanged,
  itemWaits,
  type BulkInput,
  type BulkOutcome,
  type BulkStart,
  type BulkState,
  type AdvanceInput,
  type AnsweredChats,
} from '../domain/bulk-contract.ts';
import {
  jobWorkflowId,
  searchAttributes,
  workflowTaskTimeout,
  type JobOutcome,
} from '../domain/job-contract.ts';
import type { JobPlan } from '../domain/job-plan.ts';
import { formatCredits } from '../domain/credits.ts';
import { formatTimeUtc } from './progress.ts';
import { deliverWebhook } from './webhook-delivery.ts';

/** Number of events after which the workflow continues as new, and the same in bytes. */
const historyLengthMax = 3000;
const historyBytesMax = 4 * 1024 * 1024;
/**
 * Longest wait for the end of a job that an earlier run started, of which the run gets no event, and
 * for items that can only be planned later. The first wait is a second.
 */
const readAgainMaxMs = 30_000;
/** Longest wait without a reason, in case a signal was lost. */
const idleWaitMs = 600_000;

/** State of a run. */
interface BulkRun {
  input: BulkInput;
  /** Ids of the jobs whose end this run awaits. */
  live: Set<string>;
  /** Ids of the jobs that await an approval. */
  awaiting: Set<string>;
  rejected: string[];
  canceled: Set<string>;
  /** Number of ends and signals, which are reasons to read the rows. */
  changes: number;
  cancelRequested: boolean;
  /** Number of steps in a row after which nothing had changed. */
  idleSteps: number;
  /** True while an activity answers the items that are chats. */
  isAnswering: boolean;
  /** Time before which no chat is tried again, because a provider was busy. */
  chatsAtMs: number;
  /** Number of activities in a row that ended because chats could not be answered at that time. */
  busyPortions: number;
  eventIds: string[];
  /** True if the run began before `advance` became an ordinary activity. */
  advancesLocally: boolean;
}

/** Runs a bulk job until no job runs and none follows. */
export async function studioBulk(input: BulkInput): Promise<BulkOutcome> {
  const run: BulkRun = {
    input,
    live: new Set(),
    awaiting: new Set(),
    rejected: [],
    canceled: new Set(),
    changes: 0,
    cancelRequested: false,
    idleSteps: 0,
    isAnswering: false,
    chatsAtMs: 0,
    busyPortions: 0,
    eventIds: [],
    advancesLocally: !patched('advance-as-an-activity'),
  };
  setHandler(itemWaits, ({ jobId, awaits }) => {
    if (awaits) run.awaiting.add(jobId);
    else run.awaiting.delete(jobId);
    run.changes += 1;
  });
  setHandler(bulkChanged, () => {
    run.changes += 1;
  });
  void CancellationScope.current().cancelRequested.catch(() => {
    run.cancelRequested = true;
    run.changes += 1;
  });
  return CancellationScope.nonCancellable(() => runBulk(run));
}

async function runBulk(run: BulkRun): Promise<BulkOutcome> {
  const { input } = run;
  for (;;) {
    const { changes } = run;
    const rejected = run.rejected.splice(0);
    const state = await advance(run, rejected);
    showState(state);
    await Promise.all(state.starts.map((start) => startJob(run, start)));
    await cancelJobs(run, state);
    await deliverEvents(run, state);
    const isUnchanged = run.changes === changes;
    if (state.done && isUnchanged && !run.isAnswering) return endBulk(state);
    const { historyLength, historySize } = workflowInfo();
    const isLong = historyLength > historyLengthMax || historySize > historyBytesMax;
    // A further run would know neither the rejections nor the cancellation.
    if (isLong && run.rejected.length === 0 && !run.cancelRequested && !run.isAnswering) {
      await continueAsNew<typeof studioBulk>(input);
    }
    if (state.chatsMayStart && !isLong && Date.now() >= run.chatsAtMs) answerChats(run);
    if (!isUnchanged) run.idleSteps = 0;
    // After a rejection, the balance has to change before a further start makes sense.
    if ((state.hasMore && rejected.length === 0) || !isUnchanged) continue;
    const waitMs = calculateWaitMs(run, state);
    run.idleSteps += 1;
    await condition(() => run.changes > changes, waitMs, { summary: describeWait(state) });
  }
}

/**
 * Runs the step `advance` as an ordinary activity, because it reads the inputs of the next items. In a
 * run that began before this rule, the first attempt is a local activity.
 */
async function advance(run: BulkRun, rejected: string[]): Promise<BulkState> {
  const { input, cancelRequested, advancesLocally } = run;
  const live = listBusy(run);
  const step: AdvanceInput = {
    bulkId: input.bulkId,
    live,
    rejected,
    cancel: cancelRequested,
  };
  const summary = `${live.length} running`;
  if (advancesLocally) {
    try {
      return await proxyLocalActivities<Pick<Activities, 'advance'>>({
        scheduleToCloseTimeout: '3s',
        retry: { maximumAttempts: 1 },
        summary,
      }).advance(step);
    } catch {
      // The ordinary activity follows.
    }
  }
  return proxyActivities<Pick<Activities, 'advance'>>({
    startToCloseTimeout: '2 minutes',
    scheduleToCloseTimeout: '7 days',
    heartbeatTimeout: '15s',
    retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '20s' },
    priority: { fairnessKey: input.organizationId, priorityKey: 4 },
    summary,
  }).advance(step);
}

/**
 * Starts the job of an item. It goes on if this workflow ends or is terminated. An end without a
 * reservation is not in the rows of the job, so it is passed to the next step.
 */
async function startJob(run: BulkRun, { plan, ...description }: BulkStart): Promise<void> {
  const { jobId, organizationId, type } = plan;
  try {
    const child = await startChild<(plan: JobPlan) => Promise<JobOutcome>>(type, {
      ...description,
      workflowId: jobWorkflowId(jobId),
      args: [plan],
      // The job of an item has one workflow, also after the restore of an older database.
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      workflowTaskTimeout,
      parentClosePolicy: ParentClosePolicy.ABANDON,
      // Single jobs have the default priority 3.
      priority: { fairnessKey: organizationId, priorityKey: 4 },
    });
    run.live.add(jobId);
    const end = (outcome?: JobOutcome): void => {
      if (outcome?.status === 'rejected') run.rejected.push(jobId);
      run.live.delete(jobId);
      run.awaiting.delete(jobId);
      run.changes += 1;
    };
    // A failed job fails its workflow; its row has the reason.
    void child.result().then(end, () => end());
  } catch (error) {
    // An earlier run has started the job.
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}

/** Delivers the webhooks of the events that this step and earlier activities have recorded. */
async function deliverEvents(run: BulkRun, { eventId }: BulkState): Promise<void> {
  const eventIds = [...run.eventIds.splice(0), ...(eventId === null ? [] : [eventId])];
  for (const subjectId of eventIds) await deliverWebhook({ ...run.input, subjectId });
}

/** Starts the activity that answers the waiting chats, unless it runs. Its end is a reason to read the rows. */
function answerChats(run: BulkRun): void {
  if (run.isAnswering) return;
  const { input } = run;
  const { bulkId, organizationId } = input;
  run.isAnswering = true;
  const answering = proxyActivities<Pick<Activities, 'answerItems'>>({
    // The activity claims chats for some minutes, and awaits the longest answer.
    startToCloseTimeout: '2 hours',
    scheduleToCloseTimeout: '7 days',
    heartbeatTimeout: '15s',
    retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '20s' },
    priority: { fairnessKey: input.organizationId, priorityKey: 4 },
    summary: 'chats',
  }).answerItems({ bulkId, organizationId });
  const end = ({ eventIds, retryInMs }: AnsweredChats): void => {
    run.eventIds.push(...eventIds);
    run.busyPortions = retryInMs === null ? 0 : run.busyPortions + 1;
    const delayMs = Math.min(1000 * 2 ** Math.min(run.busyPortions - 1, 5), readAgainMaxMs);
    run.chatsAtMs = retryInMs === null ? 0 : Date.now() + Math.max(retryInMs, delayMs);
    run.isAnswering = false;
    run.changes += 1;
  };
  void answering.then(end, () => end({ eventIds: [], retryInMs: readAgainMaxMs }));
}

/** Returns the ids of the jobs whose end this run awaits, without those that await an approval. */
const listBusy = ({ live, awaiting }: BulkRun): string[] =>
  [...live].filter((jobId) => !awaiting.has(jobId));

/** Requests cancellation of the running jobs, once each. */
async function cancelJobs({ canceled }: BulkRun, { toCancel }: BulkState): Promise<void> {
  const jobIds = toCancel.filter((jobId) => !canceled.has(jobId));
  await Promise.all(
    jobIds.map(async (jobId) => {
      canceled.add(jobId);
      try {
        await getExternalWorkflowHandle(jobWorkflowId(jobId)).cancel();
      } catch (error) {
        // The job has ended.
        log.info('the job was not canceled', { jobId, error: String(error) });
      }
    }),
  );
}

/** Calculates the longest time until the rows are read again, in milliseconds. */
function calculateWaitMs(run: BulkRun, state: BulkState): number {
  const rowsMs = calculateRowsMs(run, state);
  if (!state.chatsMayStart || run.isAnswering) return rowsMs;
  return Math.min(rowsMs, Math.max(1, run.chatsAtMs - Date.now()));
}

function calculateRowsMs(run: BulkRun, state: BulkState): number {
  const { input, idleSteps } = run;
  const { status, stopReason, resumeInMs, postponed } = state;
  const answering = run.isAnswering ? (state.chatsRunning ?? 0) : 0;
  const busy = state.running - (state.awaiting ?? 0) - answering;
  if (busy > listBusy(run).length || state.hasMore || postponed > 0) {
    return Math.min(1000 * 2 ** Math.min(idleSteps, 5), readAgainMaxMs);
  }
  if (status !== 'paused' || stopReason === 'PAUSED' || busy > 0) return idleWaitMs;
  if (stopReason === 'INSUFFICIENT_CREDITS' || stopReason === 'JOBS_MAX_REACHED') {
    return input.creditCheckMs;
  }
  return Math.max(1000, Math.min(resumeInMs ?? idleWaitMs, idleWaitMs));
}

function describeWait({ status, stopReason, resumeInMs, postponed }: BulkState): string {
  if (postponed > 0) return `${postponed} items cannot be planned now: wait`;
  if (status !== 'paused') return 'wait for the end of a job';
  const time = resumeInMs === null ? '' : ` until ${formatTimeUtc(Date.now() + resumeInMs)}`;
  return `${stopReason}: wait${time}`;
}

/** Shows the counts in Temporal's Current Details. */
function showState(state: BulkState): void {
  const { status, stopReason, total, waiting, running, awaiting, completed, failed, canceled } =
    state;
  const reason = stopReason === null ? '' : `: ${stopReason}`;
  setCurrentDetails(
    [
      `**${status}${reason}**`,
      '',
      `${total} items: ${completed} completed, ${running} running${awaiting ? ` (${awaiting} await an approval)` : ''}, ${waiting} waiting, ${failed} failed, ${canceled} canceled`,
      '',
      `charged ${formatCredits(state.chargedMicro)}, reserved ${formatCredits(state.reservedMicro)}`,
    ].join('\n'),
  );
}

function endBulk(state: BulkState): BulkOutcome {
  const { status, stopReason, total, completed, failed, canceled, chargedMicro } = state;
  upsertSearchAttributes([
    { key: searchAttributes.jobStatus, value: status },
    ...(stopReason === null ? [] : [{ key: searchAttributes.errorCode, value: stopReason }]),
  ]);
  return { status, stopReason, total, completed, failed, canceled, chargedMicro };
}
