/**
 * Reports the progress of a running job in Temporal's Current Details and in the query `progress`.
 * Neither of them adds a history event.
 */
import { setCurrentDetails, setHandler } from '@temporalio/workflow';
import { progressQuery, type JobProgress } from '../domain/job-contract.ts';
import type { JobPlan } from '../domain/job-plan.ts';
import type { StepFailure } from './failures.ts';
import { formatTimeUtc, formatCredits } from './display-texts.ts';
import type { Step } from './step.ts';

/** Maximum number of failed attempts shown. A job may call a provider hundreds of times. */
const failuresMax = 10;

/** Creates the progress report of a workflow and registers the handler of the query `progress`. */
export function reportProgress(plan: JobPlan) {
  const progress: JobProgress = { phase: '', calls: [], failures: [] };
  setHandler(progressQuery, () => progress);
  const updateDetails = (): void => setCurrentDetails(formatMarkdown(progress));
  return {
    /** Sets the phase of the job. */
    setPhase(phase: string): void {
      progress.phase = phase;
      updateDetails();
    },
    /** Sets the phase of a call. If `providerRequestId` is omitted, the earlier id remains. */
    setCallPhase(callIndex: number, phase: string, providerRequestId?: string): void {
      const number = callIndex + 1;
      const knownCall = progress.calls.find(({ call }) => call === number);
      if (knownCall) {
        knownCall.phase = phase;
        knownCall.providerRequestId = providerRequestId ?? knownCall.providerRequestId;
      } else {
        const newCall = { call: number, phase, providerRequestId: providerRequestId ?? null };
        progress.calls.push(newCall);
      }
      progress.phase = `${plan.calls.length} call(s), ${formatCredits(plan.priceMicro)} reserved`;
      updateDetails();
    },
    /** Adds a failed attempt of a step to the progress. */
    addFailure({ name, target }: Step, { message }: StepFailure): void {
      const callLabel = target
        ? ` of call ${target.call.index + 1} at ${target.route.provider}`
        : '';
      progress.failures.push(`${formatTimeUtc(Date.now())} ${name}${callLabel}: ${message}`);
      if (progress.failures.length > failuresMax) progress.failures.shift();
      updateDetails();
    },
  };
}
export type ProgressReport = ReturnType<typeof reportProgress>;

function formatMarkdown({ phase, calls, failures }: JobProgress): string {
  const lines = calls.map(({ call, phase: callPhase, providerRequestId }) => {
    const request = providerRequestId === null ? '' : `, request \`${providerRequestId}\``;
    return `- call ${call}: ${callPhase}${request}`;
  });
  const heading = failures.length > 0 ? ['', 'Failed attempts:', ''] : [];
  const failureLines = failures.map((line) => `- ${line}`);
  return [`**${phase}**`, '', ...lines, ...heading, ...failureLines].join('\n');
}
