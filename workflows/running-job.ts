/**
 * A running job seen from outside: what it has been told by signals, and what an operator reads of it, while it
 * runs and after it ended (Current Details, and the answer to the query `progress`). Costs no history event.
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

/** Listens. Called first in a workflow: signals that came earlier are handed over at once. */
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
  // Cancellation is a wish, not an exception: after dispatch the provider's verdict decides.
  CancellationScope.current().cancelRequested.catch(() => {
    cancelRequested = true;
  });

  return {
    /** Set once somebody asked to cancel the job. */
    get cancelRequested() {
      return cancelRequested;
    },
    /** How often somebody has asked to check at once. */
    get checksAsked() {
      return checksAsked;
    },
    /** Whether a notification of the call waits to be checked. */
    isNotified: (callIndex: number): boolean => notified.has(callIndex),
    /** The notification is being checked: the next one counts again. */
    takeNotification: (callIndex: number): void => void notified.delete(callIndex),
    /** From now on only notifications of this operation count for the call. */
    expect(callIndex: number, operationId: string): void {
      expected.set(callIndex, operationId);
      if (notified.get(callIndex) !== operationId) notified.delete(callIndex);
    },
  };
}
/** Signals of a job workflow. */
export type JobSignals = ReturnType<typeof listenToSignals>;

/** The last attempts are told, not all of them: a job may be asked for hundreds of times. */
const failuresMax = 10;

/** Writes the report of one workflow. Answers the query from now on. */
export function reportProgress(plan: JobPlan) {
  const progress: JobProgress = { phase: '', calls: [], failures: [] };
  setHandler(progressQuery, () => progress);
  const tell = (): void => setCurrentDetails(markdownOf(progress));
  return {
    /** Where the job as a whole stands. */
    job(phase: string): void {
      progress.phase = phase;
      tell();
    },
    /** Where one of its calls stands; the provider's id stays once it is known. */
    call(callIndex: number, phase: string, operationId?: string): void {
      const before = progress.calls.find(({ call }) => call === callIndex + 1);
      const now = { call: callIndex + 1, phase, operationId: operationId ?? null };
      if (before)
        Object.assign(before, { phase, ...(operationId !== undefined && { operationId }) });
      else progress.calls.push(now);
      progress.phase = `${plan.calls.length} call(s), ${creditsOf(plan.priceMicro)} reserved`;
      tell();
    },
    /** Adds an attempt that failed. */
    failed(
      { verb, of }: { verb: string; of?: { call: { index: number } } },
      { message }: Pick<StepFailure, 'message'>,
    ): void {
      const where = of === undefined ? '' : ` of call ${of.call.index + 1}`;
      progress.failures.push(`${clock(Date.now())} ${verb}${where}: ${message}`);
      if (progress.failures.length > failuresMax) progress.failures.shift();
      tell();
    },
  };
}
/** Report of the progress of a job. */
export type ProgressReport = ReturnType<typeof reportProgress>;

function markdownOf({ phase, calls, failures }: JobProgress): string {
  const lines = calls.map(({ call, phase: stands, operationId }) => {
    const named = operationId === null ? '' : `, request \`${operationId}\``;
    return `- call ${call}: ${stands}${named}`;
  });
  const tried = failures.length > 0 ? ['', 'Failed attempts:', ''] : [];
  return [`**${phase}**`, '', ...lines, ...tried, ...failures.map((line) => `- ${line}`)].join(
    '\n',
  );
}

/** Shows which provider took a call, unless it is the first choice, and the provider's ids; returns the outcome. */
export function showTaken<Outcome extends SubmitOutcome>(
  { call, route, operationIds }: { call: PlannedCall; route: CallRoute; operationIds: string[] },
  submitted: Outcome,
): Outcome {
  if (submitted.kind === 'paused') return submitted;
  const shown: SearchAttributePair[] = [];
  if (call.routes[0] !== route) {
    shown.push({ key: searchAttributes.provider, value: route.provider });
  }
  if (submitted.kind === 'operation') {
    operationIds.push(submitted.operation.id);
    shown.push({ key: searchAttributes.providerRequestId, value: operationIds });
  }
  if (shown.length > 0) upsertSearchAttributes(shown);
  return submitted;
}

/** An amount as an operator reads it; micro-credits in. */
export function creditsOf(amountMicro: number): string {
  return `${creditsFromMicro(amountMicro)} credits`;
}

/** UTC, to the second. */
export function clock(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(11, 19)} UTC`;
}
