/** Shows the steps of a pipeline that wait for a decision, with the outputs to look at. */
import { z } from 'zod';
import { creditsFromMicro } from '../../domain/credits.ts';
import { asRecord, isoTime, isRecord, type Json, type JsonObject } from '../../domain/json.ts';
import type { StoredArtifact } from '../../domain/job-plan.ts';
import type { JobRecord, JobStep, StepApproval } from '../../domain/job-record.ts';

const measure = z.number().nullable();

/** Schema of the waiting steps in the job resource. */
export const awaitingSchema = z
  .array(
    z
      .object({
        step: z.string().meta({ description: 'Id of the step.' }),
        since: z.iso.datetime(),
        until: z.iso.datetime().meta({ description: 'Afterwards, the step is skipped.' }),
        credits: z.number().meta({
          description: 'Most that the step and all steps that follow it are charged.',
        }),
        takes: z
          .array(
            z.object({
              step: z.string(),
              chosen: z.boolean().meta({ description: 'True if the decision chooses an output.' }),
              outputs: z.array(
                z.object({
                  output: z.int().meta({ description: 'Index by which a decision chooses it.' }),
                  url: z.url(),
                  contentType: z.string(),
                  width: measure,
                  height: measure,
                  durationSeconds: measure,
                }),
              ),
            }),
          )
          .meta({ description: 'Files of the steps whose results the step takes.' }),
      })
      .meta({ id: 'AwaitingStep' }),
  )
  .meta({ description: 'Steps of a pipeline that wait for a decision; empty for other jobs.' });
type Awaiting = z.infer<typeof awaitingSchema>;

/** Step that waits for a decision. */
interface WaitingStep {
  step: JobStep;
  approval: StepApproval;
}

/** Returns the approval for which a step waits or has waited; null if it has not waited. */
export const findApproval = (
  { approvals }: Pick<JobRecord, 'approvals'>,
  stepId: string,
): StepApproval | null =>
  (approvals && Object.hasOwn(approvals, stepId) ? approvals[stepId] : null) ?? null;

/** Returns the steps of a job that wait for a decision, in the order of the request. */
export function listAwaiting({
  status,
  steps,
  approvals,
}: Pick<JobRecord, 'status' | 'steps' | 'approvals'>): WaitingStep[] {
  if (status !== 'open') return [];
  return (steps ?? []).flatMap((step) => {
    const approval = findApproval({ approvals }, step.id);
    return approval && !approval.end ? [{ step, approval }] : [];
  });
}

/** Returns a step and all steps that follow it. */
export function listFollowing(steps: readonly JobStep[], id: string): JobStep[] {
  const ids = new Set([id]);
  return steps.filter((step) => {
    if (step.after.some((other) => ids.has(other))) ids.add(step.id);
    return ids.has(step.id);
  });
}

/** Returns the delivered files of a step, with the indexes by which a decision chooses them. */
export function listFiles(
  { outputs }: JobStep,
  approval: StepApproval,
): { output: number; artifact: StoredArtifact }[] {
  return outputs.flatMap(({ callIndex, artifactIndex }, output) => {
    const call = approval.outputs.find((other) => other.callIndex === callIndex);
    const artifact = call?.artifacts[artifactIndex];
    return artifact ? [{ output, artifact }] : [];
  });
}

/** Returns the stored body of a step. */
export function readStepBody({ request }: Pick<JobRecord, 'request'>, id: string): JsonObject {
  const steps = Array.isArray(request['steps']) ? request['steps'].map(asRecord) : [];
  // oxlint-disable-next-line no-unsafe-type-assertion -- stored requests are JSON
  return asRecord(steps.find((step) => step['id'] === id)?.['body']) as JsonObject;
}

/** Returns the ids of the steps of which a body takes a chosen output. */
function listChosen(value: Json): string[] {
  if (Array.isArray(value)) return value.flatMap(listChosen);
  if (!isRecord(value)) return [];
  const { $from: from, output, ...others } = value;
  if (typeof from === 'string') return output === 'chosen' ? [from] : [];
  return Object.values(others).flatMap(listChosen);
}

/** Shows the waiting steps of a job. `urlOf` signs the URL of a file. */
export function showAwaiting(
  job: JobRecord,
  urlOf: (artifact: StoredArtifact) => Promise<string>,
): Promise<Awaiting> {
  const steps = job.steps ?? [];
  const showFile = async ({ output, artifact }: ReturnType<typeof listFiles>[number]) => {
    const { contentType, width, height, durationSeconds } = artifact;
    return { output, url: await urlOf(artifact), contentType, width, height, durationSeconds };
  };
  return Promise.all(
    listAwaiting(job).map(async ({ step, approval }) => {
      const sources = steps.filter(({ id }) => step.after.includes(id));
      const chosen = listChosen(readStepBody(job, step.id));
      const takes = sources.map(async (source) => ({
        step: source.id,
        chosen: chosen.includes(source.id),
        outputs: await Promise.all(listFiles(source, approval).map(showFile)),
      }));
      const creditsMicro = listFollowing(steps, step.id).reduce(
        (sum, { priceMicro, allowanceMicro = 0 }) => sum + priceMicro + allowanceMicro,
        0,
      );
      return {
        step: step.id,
        since: isoTime(approval.sinceMs),
        until: isoTime(approval.untilMs),
        credits: creditsFromMicro(creditsMicro),
        takes: await Promise.all(takes),
      };
    }),
  );
}
