/**
 * Reports the progress of a running job in Temporal's Current Details and in the query `progress`.
 * Neither of them adds a history event.
 */
import { formatCredits } from '../domain/credits.ts';
import type { CallRoute, JobPlan, PlannedCall } from '../domain/job-plan.ts';
import type { PipelineStep } from '../domain/pipeline-plan.ts';
import { setCurrentDetails, setHandler } from '@temporalio/workflow';
import { progressQuery, type JobProgress } from '../domain/job-contract.ts';
import type { StepFailure } from './failures.ts';
import type { Step } from './steps.ts';

/**
 * Returns a prefix that identifies a call, such as `call 2 of 4 · `, or in a pipeline `film: ` or
 * `film: call 2 of 4 · `. The prefix is empty if the job has only one call.
 */
export function callPrefix({ plan, call }: { plan: JobPlan; call: PlannedCall }): string {
  const step = findStep(plan, call.index);
  if (step) {
    const [first, count] = step.calls;
    const number = count > 1 ? `call ${call.index - first + 1} of ${count} · ` : '';
    return `${step.id}: ${number}`;
  }
  return plan.calls.length > 1 ? `call ${call.index + 1} of ${plan.calls.length} · ` : '';
}

/** Returns the step of a pipeline to which a call belongs; undefined in other jobs. */
function findStep({ steps }: JobPlan, callIndex: number): PipelineStep | undefined {
  return steps?.find(
    ({ calls: [first, count] }) => callIndex >= first && callIndex < first + count,
  );
}

/** Formats the provider and the provider request id of a call, such as `fal 2f370a9e…`. */
export function formatRequest(
  running: { plan: JobPlan; call: PlannedCall; route: CallRoute },
  providerRequestId: string,
): string {
  const shortId = providerRequestId.replace(/^(.{8}).+$/, '$1…');
  return `${callPrefix(running)}${running.route.provider} ${shortId}`;
}

/** Formats a Unix time in milliseconds as `14:05:09 UTC`. */
export function formatTimeUtc(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(11, 19)} UTC`;
}

/** Maximum number of failed attempts shown. A job may call a provider hundreds of times. */
const failuresMax = 10;

/** Creates the progress report of a workflow and registers the handler of the query `progress`. */
export function reportProgress(plan: JobPlan) {
  const progress: JobProgress = { phase: '', calls: [], failures: [] };
  setHandler(progressQuery, () => progress);
  const updateDetails = (): void => setCurrentDetails(formatMarkdown(progress, plan));
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
        const step = findStep(plan, callIndex)?.id;
        const newCall = {
          call: number,
          phase,
          providerRequestId: providerRequestId ?? null,
          ...(step !== undefined && { step }),
        };
        progress.calls.push(newCall);
      }
      const parts = plan.steps ? `${plan.steps.length} step(s)` : `${plan.calls.length} call(s)`;
      progress.phase = `${parts}, ${formatCredits(plan.priceMicro)} reserved`;
      updateDetails();
    },
    /** Adds a failed attempt of a step to the progress. */
    addFailure({ name, target, summary }: Step, { message }: StepFailure): void {
      const callLabel = target
        ? ` of ${findStep(plan, target.call.index)?.id ?? `call ${target.call.index + 1}`} at ${target.route.provider}`
        : '';
      const label = plan.steps && !target ? summary : name;
      progress.failures.push(`${formatTimeUtc(Date.now())} ${label}${callLabel}: ${message}`);
      if (progress.failures.length > failuresMax) progress.failures.shift();
      updateDetails();
    },
  };
}
export type ProgressReport = ReturnType<typeof reportProgress>;

function formatCall({ phase, providerRequestId }: JobProgress['calls'][number]): string {
  const request = providerRequestId === null ? '' : `, request \`${providerRequestId}\``;
  return `${phase}${request}`;
}

function formatMarkdown({ phase, calls, failures }: JobProgress, { steps }: JobPlan): string {
  const lines = steps
    ? steps.flatMap((step) => {
        const source = step.after.length > 0 ? ` (after ${step.after.join(', ')})` : '';
        const own = calls.filter((call) => call.step === step.id);
        return [
          `- **${step.id}** ${step.use}${source}${own.length === 0 ? ': not started' : ''}`,
          ...own.map((call) => `  - call ${call.call - step.calls[0]}: ${formatCall(call)}`),
        ];
      })
    : calls.map((call) => `- call ${call.call}: ${formatCall(call)}`);
  const heading = failures.length > 0 ? ['', 'Failed attempts:', ''] : [];
  const failureLines = failures.map((line) => `- ${line}`);
  return [`**${phase}**`, '', ...lines, ...heading, ...failureLines].join('\n');
}
