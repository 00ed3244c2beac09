/**
 * A running job seen from outside: what it has been told by signals, and what an operator reads of it, while it
 * runs and after it ended (Current Details, and the answer to the query `progress`). Costs no history event.
 */
import { CancellationScope, log, setHandler, setCurrentDetails } from '@temporalio/workflow';
import {
  checkNow,
  providerNotification,
  progressQuery,
  type JobProgress,
} from '../jobs/contract.ts';
import { creditsFromMicro } from '../domain/credits.ts';
import type { JobPlan } from '../jobs/job-plan.ts';
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
/** See `listenToSignals`. */
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
    /** An attempt that brought nothing, and why. */
    failed(
      { verb, callIndex }: { verb: string; callIndex?: number },
      { type, message }: StepFailure,
    ): void {
      // No room in this process is nobody's failure: the queue has the next attempt.
      if (type === 'PROVIDER_BUSY') return;
      const where = callIndex === undefined ? '' : ` of call ${callIndex + 1}`;
      progress.failures.push(`${clock(Date.now())} ${verb}${where}: ${message}`);
      if (progress.failures.length > failuresMax) progress.failures.shift();
      tell();
    },
  };
}
/** See `reportProgress`. */
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

/** An amount as an operator reads it; micro-credits in. */
export function creditsOf(amountMicro: number): string {
  return `${creditsFromMicro(amountMicro)} credits`;
}

/** UTC, to the second. */
export function clock(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(11, 19)} UTC`;
}
