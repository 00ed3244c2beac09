/**
 * Progress of a running job for operators: Current Details and the query `progress`. Neither adds a
 * history event.
 */
import { setCurrentDetails, setHandler } from '@temporalio/workflow';
import { progressQuery, type JobProgress } from '../jobs/contract.ts';
import type { JobPlan } from '../jobs/job-plan.ts';
import type { StepFailure } from './failures.ts';
import { clock, creditsOf } from './row-texts.ts';
import type { Step } from './step.ts';

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
      const number = callIndex + 1;
      const known = progress.calls.find(({ call }) => call === number);
      if (known) {
        known.phase = phase;
        known.providerRequestId = providerRequestId ?? known.providerRequestId;
      } else {
        const added = { call: number, phase, providerRequestId: providerRequestId ?? null };
        progress.calls.push(added);
      }
      progress.phase = `${plan.calls.length} call(s), ${creditsOf(plan.priceMicro)} reserved`;
      showDetails();
    },
    /** Adds a failed attempt of a step. */
    failed({ verb, of }: Step, { message }: StepFailure): void {
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
  const lines = calls.map(({ call, phase: callPhase, providerRequestId }) => {
    const request = providerRequestId === null ? '' : `, request \`${providerRequestId}\``;
    return `- call ${call}: ${callPhase}${request}`;
  });
  const heading = failures.length > 0 ? ['', 'Failed attempts:', ''] : [];
  const failureLines = failures.map((line) => `- ${line}`);
  return [`**${phase}**`, '', ...lines, ...heading, ...failureLines].join('\n');
}
