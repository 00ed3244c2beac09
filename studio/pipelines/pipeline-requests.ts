/**
 * POST /studio/pipelines: steps of several capabilities that take each other's results, in one job
 * with one price.
 */
import { z } from 'zod';
import { anyJsonObject } from '../../domain/body-schema.ts';
import { assert, errorTable } from '../../domain/errors.ts';
import { asRecord, isRecord, type Json, type JsonObject } from '../../domain/json.ts';
import type { CallOutputs } from '../../domain/job-plan.ts';
import { isCallOf, type JobStep } from '../../domain/job-record.ts';
import { unapprovedCodes } from '../../domain/approvals.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import {
  defineCapability,
  useOf,
  type Capability,
  type FinishedJob,
} from '../capabilities/capability.ts';
import { capabilities } from '../capabilities/capability-registry.ts';
import {
  asyncFlag,
  fitsIntoPlan,
  stepBody,
  tooLongForPlan,
} from '../capabilities/request-fields.ts';
import { referenceSchema } from './references.ts';
import { draftPipeline, type PipelineRequest } from './step-draft.ts';

/** Maximum number of steps of a pipeline. */
const stepsMax = 20;

/** Schema of the id of a step. */
export const stepId = z
  .string()
  .max(40)
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$/,
    'must have 1–40 letters, digits, _ or -, and begin with a letter or digit',
  )
  .meta({ description: 'Name of the step, by which later steps refer to its result.' });
const maxCredits = z.number().positive().max(1_000_000).optional();
const stepMaxCredits = maxCredits.meta({
  description:
    'Maximum price of the step. Required if the price depends on a result whose length no request determines.',
});
const stepApproval = z
  .union([
    z.literal(true),
    z.strictObject({ withinSeconds: z.int().min(60).max(604_800) }).meta({ id: 'StepApproval' }),
  ])
  .optional()
  .meta({
    description:
      'Stops the step, once the steps whose results it takes have ended, until a decision approves it. `withinSeconds` is the time for the decision, by default a day; afterwards the step is skipped.',
  });
/** Schema of the maximum price of a pipeline. */
export const pipelineMaxCredits = maxCredits.meta({
  description: 'Maximum price of the request; a higher price is rejected before anything starts.',
});

/** Result of a step as later requests and callers see it. */
const stepStatus = z.enum(['completed', 'failed', 'skipped']);
/** Schema of the error of a step. */
export const stepError = z
  .object({ code: z.string(), message: z.string(), retryable: z.boolean() })
  .nullable();

/** Returns the schema with which a description shows the body of a step: fields with references. */
function describeStepBody({ request, takes = {} }: Capability): z.ZodType {
  const schema = request instanceof z.ZodPipe ? request.in : request;
  if (!(schema instanceof z.ZodObject)) return anyJsonObject;
  const shape: Readonly<Record<string, z.ZodType>> = schema.shape;
  const replaced = Object.entries(takes).flatMap(([name]): [string, z.ZodType][] => {
    const field = shape[name];
    if (!field) return [];
    const inner = field instanceof z.ZodOptional ? field.unwrap() : field;
    const item = inner instanceof z.ZodArray ? inner.element : null;
    const taken =
      item instanceof z.ZodType
        ? z.array(z.union([item, referenceSchema])).max(getLengthMax(inner))
        : z.union([inner instanceof z.ZodType ? inner : anyJsonObject, referenceSchema]);
    return [[name, field instanceof z.ZodOptional ? taken.optional() : taken]];
  });
  return schema.omit({ async: true }).safeExtend(Object.fromEntries(replaced));
}

/** Returns the maximum length of a list of files. */
function getLengthMax(list: z.core.$ZodType): number {
  const { maxItems } = z.toJSONSchema(list, { io: 'input', unrepresentable: 'any' });
  assert(maxItems !== undefined, 'a list of files has no maximum length');
  return maxItems;
}

const request = z.strictObject({
  steps: z
    .array(
      z.strictObject({
        id: stepId,
        use: z
          .enum(capabilities.map(useOf))
          .meta({ description: 'Path of the endpoint of the step, below /studio/.' }),
        body: stepBody,
        maxCredits: stepMaxCredits,
        approve: stepApproval,
      }),
    )
    .min(1)
    .max(stepsMax)
    .refine(fitsIntoPlan, { error: tooLongForPlan, abort: true }),
  maxCredits: pipelineMaxCredits,
  async: asyncFlag,
});

const describedStep = z.discriminatedUnion(
  'use',
  // oxlint-disable-next-line no-unsafe-type-assertion -- there is at least one capability
  capabilities.map((capability) =>
    z
      .strictObject({
        id: stepId,
        use: z.literal(useOf(capability)),
        body: describeStepBody(capability),
        maxCredits: stepMaxCredits,
        approve: stepApproval,
      })
      // The name of its type in the clients.
      .meta({ id: `${capability.type.replace(/^./, (first) => first.toUpperCase())}Step` }),
  ) as unknown as [z.ZodObject, ...z.ZodObject[]],
);

const pipelineData = z.object({
  total: z.int(),
  successful: z.int(),
  failed: z.int(),
  skipped: z.int(),
  steps: z.array(
    z.object({
      id: z.string(),
      use: z.enum(capabilities.map(useOf)),
      status: stepStatus,
      credits: z.number().meta({ description: 'Charged credits of the step.' }),
      error: stepError,
      data: z.record(z.string(), z.unknown()).nullable().meta({
        description: 'What the endpoint of the step returns; null if the step did not succeed.',
      }),
    }),
  ),
});

/** Pipelines, whose steps are requests to the capabilities. */
export const pipelines = defineCapability<PipelineRequest>({
  type: 'pipeline',
  path: '/studio/pipelines',
  medium: 'mixed',
  summary: 'Run several steps that take each other’s results, for one price',
  request,
  describedRequest: z.strictObject({
    steps: z.array(describedStep).min(1).max(stepsMax),
    maxCredits: pipelineMaxCredits,
    async: asyncFlag,
  }),
  example: {
    steps: [
      { id: 'art', use: 'image/generate', body: { prompt: 'a lighthouse at dawn' } },
      {
        id: 'film',
        use: 'video/generate',
        body: { prompt: 'waves roll', imageUrl: { $from: 'art' } },
      },
    ],
  },
  data: pipelineData,
  plan: (body) => draftPipeline(body),
  present: presentPipeline,
});

/** Step of a finished pipeline with its outputs. */
export interface FinishedStep {
  step: JobStep;
  outputs: CallOutputs[];
  status: z.infer<typeof stepStatus>;
  error: { code: string; message: string } | null;
}

/** Returns the state in which the outputs of a step leave it. */
export function finishStep(step: JobStep, allOutputs: readonly CallOutputs[]): FinishedStep {
  const outputs = allOutputs.filter(({ callIndex }) => isCallOf(step, callIndex));
  const isDelivered = outputs.some(
    ({ artifacts, delivered }) => delivered > 0 || artifacts.length > 0,
  );
  if (isDelivered) return { step, outputs, status: 'completed', error: null };
  const error = outputs.find((output) => output.error)?.error ?? null;
  const isSkipped = error !== null && ['SKIPPED', ...unapprovedCodes].includes(error.code);
  return { step, outputs, status: isSkipped ? 'skipped' : 'failed', error };
}

function presentPipeline(job: FinishedJob): Record<string, unknown> {
  const finished = (job.steps ?? []).map((step) => finishStep(step, job.outputs));
  const count = (status: FinishedStep['status']): number =>
    finished.filter((step) => step.status === status).length;
  return {
    total: finished.length,
    successful: count('completed'),
    failed: count('failed'),
    skipped: count('skipped'),
    steps: finished.map((step) => ({
      id: step.step.id,
      use: step.step.use,
      status: step.status,
      credits: creditsFromMicro(
        step.outputs.reduce((sum, { chargedMicro = 0 }) => sum + chargedMicro, 0),
      ),
      error: toStepError(step),
      data: step.status === 'completed' ? presentStep(job, step) : null,
    })),
  };
}

/** Returns the error of a step with the information whether the same step may succeed later. */
export function toStepError({
  error,
}: Partial<Pick<FinishedStep, 'error'>>): z.infer<typeof stepError> {
  if (!error) return null;
  const row = Object.entries(errorTable).find(([code]) => code === error.code)?.[1];
  return { ...error, retryable: row?.retryable ?? false };
}

/** Builds the `data` of a delivered step, as the endpoint of its capability does. */
function presentStep(
  job: FinishedJob,
  { step, outputs }: FinishedStep,
): Record<string, unknown> | null {
  const capability = capabilities.find(({ type }) => type === step.type);
  if (!capability) return null;
  const resolved = resolveBody(job, step, outputs);
  const parsed = capability.request.safeParse(resolved);
  const body = parsed.success ? parsed.data : resolved;
  // The results of a pipeline are stored, because later steps and pipelines take them.
  const persisted = capability.persistsResult ? { ...body, persistToStorage: true } : body;
  return capability.present({
    ...job,
    request: persisted,
    model: step.model,
    outputs,
    steps: null,
  });
}

/** Returns the body of a step with the URLs and texts of earlier steps in place of references. */
function resolveBody(job: FinishedJob, step: JobStep, outputs: readonly CallOutputs[]): JsonObject {
  const steps = job.request['steps'];
  const sent = Array.isArray(steps)
    ? steps.find((other) => asRecord(other)['id'] === step.id)
    : null;
  const body = isRecord(sent) && isRecord(sent['body']) ? sent['body'] : {};
  const { texts = {} } = outputs.find((output) => output.texts) ?? {};
  const resolve = (value: Json, field: string): Json => {
    if (Array.isArray(value)) return value.map((item, index) => resolve(item, `${field}.${index}`));
    if (!isRecord(value) || !Object.hasOwn(value, '$from')) return value;
    const text = texts[field];
    if (text !== undefined) return text;
    const source = (job.steps ?? []).find(({ id }) => id === value['$from']);
    const output = source?.outputs[Number(value['output'] ?? 0)];
    const artifact = job.outputs.find(({ callIndex }) => callIndex === output?.callIndex)
      ?.artifacts[output?.artifactIndex ?? 0];
    return artifact ? job.urlOf(artifact) : value;
  };
  const entries = Object.entries(body).map(([name, value]): [string, Json] => [
    name,
    resolve(value, name),
  ]);
  return Object.fromEntries<Json>(entries);
}
