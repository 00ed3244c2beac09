/**
 * Runs the steps of a pipeline: each starts when the steps have ended whose results it takes. A
 * failed step ends its dependents, and no others.
 */
import type { ApplicationFailure } from '@temporalio/workflow';
import type { ApprovalEnd } from '../domain/approvals.ts';
import type { CallOutputs, PlannedCall } from '../domain/job-plan.ts';
import { addLines, sumLine } from '../domain/job-plan.ts';
import type { PipelineStep } from '../domain/pipeline-plan.ts';
import type { CompletedStep } from '../activities/complete-step.ts';
import { awaitApproval } from './approval-wait.ts';
import { createFailure, readFailure, toPublicError } from './failures.ts';
import { assemble, runCalls } from './provider-call.ts';
import { throwIfCanceledOrOverdue, type RunningJob } from './running-job.ts';
import { runStep } from './steps.ts';

/** End of a step: its outputs, or an error in the outputs of each of its calls. */
interface StepEnd {
  step: PipelineStep;
  outputs: CallOutputs[];
  error: { code: string; message: string } | null;
}

/** Errors of the steps that did not deliver, by step id. */
export type StepErrors = Record<string, { code: string; message: string }>;

/** End of a pipeline. `failure` names the failed steps if none of those that ran delivered. */
interface PipelineEnd {
  outputs: CallOutputs[];
  stepErrors: StepErrors;
  failure: ApplicationFailure | null;
}

/** Runs all steps and returns the outputs of all calls, with the charge of each. */
export async function runPipeline(
  job: RunningJob,
  steps: readonly PipelineStep[],
): Promise<PipelineEnd> {
  const runs = new Map<string, Promise<StepEnd>>();
  for (const step of steps) {
    const sources = step.after.map((id) => runs.get(id)).filter((run) => run !== undefined);
    runs.set(step.id, runPipelineStep(job, step, sources));
  }
  const ends = await Promise.all(runs.values());
  const run = ends.filter(({ step }) => !step.taken);
  const failure = run.every(({ error }) => error) ? describeFailure(job, ends) : null;
  const errors = ends.flatMap(({ step, error }) => (error ? [[step.id, error] as const] : []));
  const outputs = ends.flatMap((end) => end.outputs);
  return { outputs, stepErrors: Object.fromEntries(errors), failure };
}

/** Returns whether each step has one call, and takes the result of the step before it. */
export const isChain = (steps: readonly PipelineStep[]): boolean =>
  steps.every(({ calls: [, count], after }, index) => {
    const previous = steps[index - 1];
    return count === 1 && (!previous || after.includes(previous.id));
  });

/** Returns the failure of a pipeline none of whose steps delivered: it names each failed step. */
function describeFailure({ signals }: RunningJob, ends: readonly StepEnd[]): ApplicationFailure {
  const failed = ends.filter(({ error }) => error && error.code !== 'SKIPPED');
  // A rejected step is the reason only if no other step failed.
  const first = failed.find(({ error }) => error?.code !== 'APPROVAL_REJECTED') ?? failed[0];
  const code = signals.cancelRequested ? 'CANCELED' : (first?.error?.code ?? 'PROVIDER_ERROR');
  const texts = failed.map(({ step, error }) => `${step.id}: ${error?.message}`);
  return createFailure(code, texts.join('; ').slice(0, 2000));
}

async function runPipelineStep(
  job: RunningJob,
  initialStep: PipelineStep,
  sources: readonly Promise<StepEnd>[],
): Promise<StepEnd> {
  let step = initialStep;
  if (step.taken) return { step, outputs: step.taken.outputs, error: null };
  const ended = await Promise.all(sources);
  const [first, count] = step.calls;
  let planned = job.plan.calls.filter(({ index }) => index >= first && index < first + count);
  try {
    const failedSource = ended.find(({ error }) => error);
    if (failedSource) {
      const message = `the step ${failedSource.step.id}, whose result this step takes, did not succeed`;
      throw createFailure('SKIPPED', message);
    }
    const decision = await approve(job, step, ended);
    if (decision) ({ step, planned } = applyDecision(decision, { step, planned }));
    const stepJob = { ...job, deadlineAtMs: Date.now() + step.deadlineMs };
    throwIfCanceledOrOverdue(stepJob);
    const { calls, texts } =
      step.references.length > 0
        ? await completeStep(stepJob, step, { planned, ended })
        : { calls: planned, texts: {} };
    const outputs = await runCalls(stepJob, calls);
    const { assembly: kind, assembledIndex, model } = step;
    const assembly = { kind, callIndex: assembledIndex ?? first, model, stepId: step.id };
    const assembled = await assemble(stepJob, assembly, outputs);
    return { step, outputs: addCharges(calls, assembled, texts), error: null };
  } catch (error) {
    const { code, message } = toPublicError(error);
    const outputs = planned.map(({ index }) => createFailedOutputs(index, { code, message }));
    for (const { index } of planned) job.progress.setCallPhase(index, `no output: ${code}`);
    return { step, outputs, error: { code, message } };
  }
}

/** Waits until a step is approved that needs it; returns null if it needs no approval. */
async function approve(
  { waits, ...job }: RunningJob,
  step: PipelineStep,
  ended: readonly StepEnd[],
): Promise<ApprovalEnd | null> {
  if (!step.approval || !waits) return null;
  const outputs = ended.flatMap((end) => end.outputs);
  return awaitApproval({ ...job, waits }, { step, ...step.approval, outputs });
}

/** Returns a step and its calls as they were approved: with the chosen outputs, or planned anew. */
function applyDecision(
  { changed, outputs }: ApprovalEnd,
  { step, planned }: { step: PipelineStep; planned: PlannedCall[] },
): { step: PipelineStep; planned: PlannedCall[] } {
  if (changed) return { step: changed.step, planned: changed.calls };
  const references = step.references.map((reference) => {
    const { from, choices, output } = reference;
    const chosen = Object.hasOwn(outputs, from) ? choices?.[outputs[from] ?? 0] : undefined;
    return { ...reference, output: chosen ?? output };
  });
  return { step: { ...step, references }, planned };
}

const createFailedOutputs = (
  callIndex: number,
  error: { code: string; message: string },
): CallOutputs => ({
  callIndex,
  artifacts: [],
  data: null,
  delivered: 0,
  error,
  chargedMicro: 0,
});

/** Completes the calls of a step with the results of earlier steps, and with their true prices. */
async function completeStep(
  job: RunningJob,
  step: PipelineStep,
  { planned, ended }: { planned: PlannedCall[]; ended: readonly StepEnd[] },
): Promise<CompletedStep> {
  const { organizationId } = job.plan;
  const sources = step.references.map(({ token, output }) => ({
    token,
    outputs: ended
      .flatMap(({ outputs }) => outputs)
      .find(({ callIndex }) => callIndex === output.callIndex),
  }));
  const activityStep = { name: 'completeStep' as const, summary: `${step.id}: complete` };
  try {
    return await runStep(job, activityStep, (activities) =>
      activities.completeStep({ organizationId, step, calls: planned, sources }),
    );
  } catch (error) {
    job.progress.addFailure(activityStep, readFailure(error));
    throw error;
  }
}

/** Adds the charge of each call to its outputs, and the texts of the step to the first of them. */
function addCharges(
  calls: readonly PlannedCall[],
  outputs: readonly CallOutputs[],
  texts: Record<string, string>,
): CallOutputs[] {
  return addLines(calls, outputs).map((output, index) => ({
    ...output,
    chargedMicro: output.line ? sumLine(output.line) : 0,
    ...(index === 0 && Object.keys(texts).length > 0 && { texts }),
  }));
}
