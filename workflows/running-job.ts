/**
 * View of a running job: the signals that it has received, and its progress for operators (Current
 * Details and the query `progress`). Neither adds a history event.
 */
import type { SearchAttributePair } from '@temporalio/common';
import {
  CancellationScope,
  log,
  setHandler,
  setCurrentDetails,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import type { SubmitOutcome } from '../activities/submit.ts';
import {
  checkNow,
  providerNotification,
  progressQuery,
  searchAttributes,
  type JobProgress,
} from '../jobs/contract.ts';
import { creditsFromMicro } from '../domain/credits.ts';
import type { CallRoute, JobPlan, PlannedCall } from '../jobs/job-plan.ts';
import type { StepFailure } from './steps.ts';

/**
 * Registers the signal handlers. The workflow calls this function first, because the SDK then
 * delivers the signals that have already arrived.
 */
export function listenToSignals() {
  const notified = new Map<number, string>();
  const expected = new Map<number, string>();
  let cancelRequested = false;
  let checksAsked = 0;

  setHandler(providerNotification, ({ callIndex, operationId }) => {
    const isOther = expected.has(callIndex) && expected.get(callIndex) !== operationId;
    if (isOther) log.warn('a notification names another operation', { callIndex, operationId });
    else notified.set(callIndex, operationId);
  });
  setHandler(checkNow, () => {
    checksAsked += 1;
  });
  // The signal only records the request, because after the submit the provider's outcome decides.
  CancellationScope.current().cancelRequested.catch(() => {
    cancelRequested = true;
  });

  return {
    /** True once a cancel was requested. */
    get cancelRequested() {
      return cancelRequested;
    },
    /** Number of requests to check at once. */
    get checksAsked() {
      return checksAsked;
    },
    /** Returns whether a notification of the call has not been checked yet. */
    isNotified: (callIndex: number): boolean => notified.has(callIndex),
    /** Marks the notification as checked: the next one counts again. */
    takeNotification: (callIndex: number): void => void notified.delete(callIndex),
    /** Counts only notifications of this operation for the call from now on. */
    expect(callIndex: number, operationId: string): void {
      expected.set(callIndex, operationId);
      if (notified.get(callIndex) !== operationId) notified.delete(callIndex);
    },
  };
}
/** Signals of a job's workflow. */
export type JobSignals = ReturnType<typeof listenToSignals>;

/**
 * Number of failed attempts that are shown: a provider may be called hundreds of times for a job.
 */
const failuresMax = 10;

/** Creates the progress report of a workflow, and answers the query from now on. */
export function reportProgress(plan: JobPlan) {
  const progress: JobProgress = { phase: '', calls: [], failures: [] };
  setHandler(progressQuery, () => progress);
  const showDetails = (): void => setCurrentDetails(markdownOf(progress));
  return {
    /** Sets the phase of the job. */
    job(phase: string): void {
      progress.phase = phase;
      showDetails();
    },
    /** Sets the phase of a call; a known provider request id is kept. */
    call(callIndex: number, phase: string, providerRequestId?: string): void {
      const before = progress.calls.find(({ call }) => call === callIndex + 1);
      const now = { call: callIndex + 1, phase, providerRequestId: providerRequestId ?? null };
      if (before)
        Object.assign(before, {
          phase,
          ...(providerRequestId !== undefined && { providerRequestId }),
        });
      else progress.calls.push(now);
      progress.phase = `${plan.calls.length} call(s), ${creditsOf(plan.priceMicro)} reserved`;
      showDetails();
    },
    /** Adds a failed attempt. */
    failed(
      { verb, of }: { verb: string; of?: { call: PlannedCall; route: CallRoute } },
      { message }: Pick<StepFailure, 'message'>,
    ): void {
      const where = of ? ` of call ${of.call.index + 1} at ${of.route.provider}` : '';
      progress.failures.push(`${clock(Date.now())} ${verb}${where}: ${message}`);
      if (progress.failures.length > failuresMax) progress.failures.shift();
      showDetails();
    },
  };
}
/** Progress report of a job. */
export type ProgressReport = ReturnType<typeof reportProgress>;

function markdownOf({ phase, calls, failures }: JobProgress): string {
  const lines = calls.map(({ call, phase: stands, providerRequestId }) => {
    const named = providerRequestId === null ? '' : `, request \`${providerRequestId}\``;
    return `- call ${call}: ${stands}${named}`;
  });
  const tried = failures.length > 0 ? ['', 'Failed attempts:', ''] : [];
  return [`**${phase}**`, '', ...lines, ...tried, ...failures.map((line) => `- ${line}`)].join(
    '\n',
  );
}

/** An accepted call with its job's progress and the provider request ids of the job. */
interface AcceptedCall {
  call: PlannedCall;
  route: CallRoute;
  progress: ProgressReport;
  providerRequestIds: string[];
}

/**
 * Shows the provider of an accepted call, if it is not the first choice, and the provider's request
 * ids. Returns the outcome.
 */
export function showAccepted<Outcome extends SubmitOutcome>(
  { call, route, progress, providerRequestIds }: AcceptedCall,
  submitted: Outcome,
): Outcome {
  if (submitted.kind === 'paused') return submitted;
  const shown: SearchAttributePair[] = [];
  if (call.routes[0] !== route) {
    shown.push({ key: searchAttributes.provider, value: route.provider });
  }
  const id = submitted.kind === 'operation' ? submitted.operation.id : submitted.providerRequestId;
  if (id) {
    progress.call(call.index, `accepted by ${route.provider}`, id);
    providerRequestIds.push(id);
    shown.push({ key: searchAttributes.providerRequestId, value: providerRequestIds });
  }
  if (shown.length > 0) upsertSearchAttributes(shown);
  return submitted;
}

/** Returns the text that names a call's request at its provider in a row: `fal 2f370a9e…`. */
export function requestOf(
  running: { plan: JobPlan; call: PlannedCall; route: CallRoute },
  providerRequestId: string,
): string {
  const shown = providerRequestId.replace(/^(.{8}).+$/, '$1…');
  return `${whichOf(running)}${running.route.provider} ${shown}`;
}

/** Returns the prefix that names the call in a row; empty if the job has one call. */
export function whichOf({ plan, call }: { plan: JobPlan; call: PlannedCall }): string {
  return plan.calls.length > 1 ? `call ${call.index + 1} of ${plan.calls.length} · ` : '';
}

/** Formats micro-credits for operators. */
export function creditsOf(amountMicro: number): string {
  return `${creditsFromMicro(amountMicro)} credits`;
}

/** Formats a time in UTC, to the second. */
export function clock(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(11, 19)} UTC`;
}
