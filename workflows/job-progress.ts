/**
 * What an operator reads of a job, while it runs and after it ended: the phase of the job and of each call,
 * in words, as Current Details and as the answer to the query `progress`. Costs no history event.
 */
import { setCurrentDetails, setHandler } from '@temporalio/workflow';
import { creditsFromMicro } from '../domain/credits.ts';
import { progressQuery, type JobProgress } from '../jobs/contract.ts';
import type { JobPlan } from '../jobs/job-plan.ts';
import type { StepFailure } from './step-failure.ts';

/** Writes the report of one workflow. */
export interface ProgressReport {
  /** Where the job as a whole stands. */
  job: (phase: string) => void;
  /** Where one of its calls stands; the provider's id stays once it is known. */
  call: (callIndex: number, phase: string, operationId?: string) => void;
  /** An attempt that brought nothing, and why. */
  failed: (step: { verb: string; callIndex?: number }, failure: StepFailure) => void;
}

/** The last attempts are told, not all of them: a job may be asked for hundreds of times. */
const failuresMax = 10;

/** See `ProgressReport`. Answers the query from now on. */
export function reportProgress(plan: JobPlan): ProgressReport {
  const progress: JobProgress = { phase: '', calls: [], failures: [] };
  setHandler(progressQuery, () => progress);
  const tell = (): void => setCurrentDetails(markdownOf(progress));
  return {
    job(phase) {
      progress.phase = phase;
      tell();
    },
    call(callIndex, phase, operationId) {
      const before = progress.calls.find(({ call }) => call === callIndex + 1);
      const now = { call: callIndex + 1, phase, operationId: operationId ?? null };
      if (before)
        Object.assign(before, { phase, ...(operationId !== undefined && { operationId }) });
      else progress.calls.push(now);
      progress.phase = `${plan.calls.length} call(s), ${creditsOf(plan.priceMicro)} reserved`;
      tell();
    },
    failed({ verb, callIndex }, { type, message }) {
      // No room in this process is nobody's failure: the queue has the next attempt.
      if (type === 'PROVIDER_BUSY') return;
      const where = callIndex === undefined ? '' : ` of call ${callIndex + 1}`;
      progress.failures.push(`${clock(Date.now())} ${verb}${where}: ${message}`);
      if (progress.failures.length > failuresMax) progress.failures.shift();
      tell();
    },
  };
}

function markdownOf({ phase, calls, failures }: JobProgress): string {
  const lines = calls.map(({ call, phase: stands, operationId }) => {
    const named = operationId === null ? '' : `, request \`${operationId}\``;
    return `- call ${call}: ${stands}${named}`;
  });
  const tried = failures.length > 0 ? ['', 'Attempts that brought nothing:', ''] : [];
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
