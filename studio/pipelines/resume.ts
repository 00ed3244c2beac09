/**
 * Resumes a pipeline that has ended: a new job takes over what steps delivered, at the price 0, and
 * runs the others. With `from` it forks: that step and all that depend on it run again.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { createRecordSchema } from '../../domain/body-schema.ts';
import { fieldError, GatewayError, invalidFieldsError } from '../../domain/errors.ts';
import { asRecord, asText, type Json, type JsonObject } from '../../domain/json.ts';
import { isCallOf, type JobRecord, type JobStep } from '../../domain/job-record.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Capability } from '../capabilities/capability.ts';
import { finishStep, pipelineMaxCredits, pipelines, stepId } from './pipeline-requests.ts';
import {
  asyncFlag,
  fitsIntoPlan,
  stepBody,
  tooLongForPlan,
} from '../capabilities/request-fields.ts';
import { findApproval } from './approval-view.ts';
import type { TakenStep } from './references.ts';
import { draftPipeline, type PipelineRequest, type TakenSteps } from './step-draft.ts';

/** Schema of the request that resumes a pipeline. */
export const resumeRequest = z.strictObject({
  from: stepId.optional().meta({
    description: 'Step from which the pipeline runs again: this step and all that depend on it.',
  }),
  bodies: createRecordSchema(stepBody, { nameLengthMax: 40, countMax: 20 })
    .refine(fitsIntoPlan, { error: tooLongForPlan, abort: true })
    .optional()
    .meta({ description: 'New bodies of steps that run, by step id.' }),
  maxCredits: pipelineMaxCredits,
  async: asyncFlag,
});
export type ResumeRequest = z.infer<typeof resumeRequest>;

/** Message about an input that a stored request no longer contains as it was sent. */
export const secretInputMessage =
  'is required: the URL of an input had a signature, which is not stored';

interface Services {
  pool: DatabasePool;
  reads: { read: (organizationId: string, jobId: string) => Promise<JobRecord | null> };
  storage: Pick<Storage, 'size' | 'urlOf'>;
}

/** Capability and request of the new job. */
export interface Resumption {
  capability: Capability;
  request: JsonObject;
  /**
   * Checks that the files still exist. A replayed request receives its first answer without them, so
   * this is called once the Idempotency-Key is claimed. Until then, texts that steps delivered are
   * placeholders.
   * @throws GatewayError MEDIA_DELETED that names the step
   */
  checkFiles: () => Promise<void>;
}

/** Lifetime of the URLs by which the new request refers to files, in milliseconds. */
const urlTtlMs = 3_600_000;

/**
 * Builds the request that resumes a pipeline.
 * @throws GatewayError JOB_NOT_DONE, INVALID_REQUEST
 */
export async function resumePipeline(
  job: JobRecord,
  resume: ResumeRequest,
  services: Services,
): Promise<Resumption> {
  const { steps } = job;
  if (!steps)
    throw fieldError(
      'INVALID_REQUEST',
      'jobId',
      `must be a job of type pipeline (received ${job.type})`,
    );
  if (job.status === 'open') throw new GatewayError('JOB_NOT_DONE');
  const running = listRunning(job, steps, resume.from);
  checkBodies(steps, running, resume);
  const taken = new Map<string, TakenStep>();
  const texts = { areChecked: false };
  const succeeded: Source[] = [];
  for (const step of steps) {
    if (running.has(step.id)) continue;
    const source = await findSource({ job, step }, services);
    succeeded.push(source);
    taken.set(step.id, await takeStep(source, { texts, ...services }));
  }
  return {
    capability: withTaken(taken),
    request: buildRequest(job, running, resume),
    async checkFiles() {
      for (const source of succeeded) await throwIfFileMissing(source, services);
      texts.areChecked = true;
    },
  };
}

// oxlint-disable-next-line no-unsafe-type-assertion -- only requests of `buildRequest` are planned
const toRequest = (body: JsonObject) => body as unknown as PipelineRequest;

/** Returns the capability of pipelines that takes over these steps. */
export const withTaken = (taken: TakenSteps): Capability => ({
  ...pipelines,
  plan: (body) => draftPipeline(toRequest(body), taken),
});

/** Returns whether a job shows a step as delivered, by itself or by the job that it continues. */
const isDelivered = (job: JobRecord, step: JobStep): boolean =>
  job.outputs ? finishStep(step, job.outputs).status === 'completed' : step.takenFrom !== null;

/** Step that delivered, with the job that stores its outputs. */
interface Source {
  job: JobRecord;
  step: JobStep;
}

/**
 * Finds the job that stores the outputs of a delivered step. A job that failed stores none, but
 * names the job from which it took the step.
 * @throws GatewayError MEDIA_DELETED if that job was archived
 */
async function findSource(source: Source, { reads }: Pick<Services, 'reads'>): Promise<Source> {
  const { job, step } = source;
  if (job.outputs) return source;
  const earlier =
    step.takenFrom === null ? null : await reads.read(job.organizationId, step.takenFrom);
  const earlierStep = earlier?.steps?.find(({ id }) => id === step.id);
  if (!earlier || !earlierStep)
    throw missingError(step, 'the job that delivered the step was archived');
  return findSource({ job: earlier, step: earlierStep }, { reads });
}

/** Creates the error for a step whose result no longer exists. */
function missingError({ id }: JobStep, reason: string): GatewayError {
  const message = `${reason}; run the step again with from`;
  return new GatewayError('MEDIA_DELETED', `${id}: ${message}`, {
    details: [{ path: `steps.${id}`, message }],
  });
}

/** Returns the ids of the steps that run: those that did not succeed, and those of a fork. */
function listRunning(job: JobRecord, steps: readonly JobStep[], from: string | undefined) {
  const ids = steps.map(({ id }) => id).join(', ');
  if (from !== undefined && !steps.some(({ id }) => id === from)) {
    const message = `must be the id of a step: ${ids} (received ${JSON.stringify(from)})`;
    throw fieldError('INVALID_REQUEST', 'from', message);
  }
  const running = new Set<string>();
  for (const step of steps) {
    const dependsOnRunning = step.after.some((id) => running.has(id));
    if (!isDelivered(job, step) || step.id === from || dependsOnRunning) running.add(step.id);
  }
  if (running.size > 0) return running;
  const message = `is required, because all steps succeeded: the id of the step from which the pipeline runs again (${ids})`;
  throw fieldError('INVALID_REQUEST', 'from', message);
}

function checkBodies(
  steps: readonly JobStep[],
  running: ReadonlySet<string>,
  { bodies = {} }: ResumeRequest,
): void {
  const details = Object.keys(bodies)
    .filter((id) => !running.has(id))
    .map((id) => ({
      path: `bodies.${id}`,
      message: steps.some((step) => step.id === id)
        ? 'the step succeeded and is taken over; name it in from to run it again'
        : `must be the body of a step that runs: ${[...running].join(', ')}`,
    }));
  if (details.length > 0) throw invalidFieldsError('INVALID_REQUEST', details);
}

/** Builds the request: the stored one with the new bodies. */
function buildRequest(
  job: JobRecord,
  running: ReadonlySet<string>,
  { bodies: sentBodies = {}, maxCredits, async }: ResumeRequest,
): JsonObject {
  const bodies = new Map(Object.entries(sentBodies));
  const secretSteps = new Set(
    job.steps?.filter(({ hasSecretInputs }) => hasSecretInputs).map(({ id }) => id),
  );
  const sent = Array.isArray(job.request['steps']) ? job.request['steps'] : [];
  const steps = sent.map((sentStep) => {
    const step = asRecord(sentStep);
    const id = asText(step['id']);
    const stored = asRecord(step['body']);
    const limit = step['maxCredits'];
    // oxlint-disable-next-line no-unsafe-type-assertion -- stored requests are JSON
    const approve = step['approve'] as Json | undefined;
    // oxlint-disable-next-line no-unsafe-type-assertion -- stored requests are JSON
    const body = (bodies.get(id) ?? stored) as JsonObject;
    if (running.has(id) && !bodies.has(id) && secretSteps.has(id)) {
      throw fieldError('INVALID_REQUEST', `bodies.${id}`, secretInputMessage);
    }
    return {
      id,
      use: asText(step['use']),
      body,
      ...(typeof limit === 'number' && { maxCredits: limit }),
      ...(approve !== undefined && keepApproval(job, id, running) && { approve }),
    };
  });
  return {
    steps,
    resumes: job.id,
    ...(maxCredits !== undefined && { maxCredits }),
    ...(async !== undefined && { async }),
  };
}

/** Returns whether a step waits again: unless it was approved, and all that it takes is the same. */
function keepApproval(job: JobRecord, id: string, running: ReadonlySet<string>): boolean {
  const after = job.steps?.find((step) => step.id === id)?.after ?? [];
  const isApproved = findApproval(job, id)?.end?.kind === 'approve';
  return !isApproved || after.some((other) => running.has(other));
}

const listOutputs = (job: JobRecord, step: JobStep) =>
  (job.outputs ?? []).filter(({ callIndex }) => isCallOf(step, callIndex));

/** @throws GatewayError MEDIA_DELETED if a file of a step no longer exists */
async function throwIfFileMissing(
  { job, step }: Source,
  { pool, storage }: Services,
): Promise<void> {
  const artifacts = listOutputs(job, step).flatMap((output) => output.artifacts);
  const keys = artifacts.map(({ storageKey }) => storageKey);
  const present = await pool.anyFirst(sql.type(z.object({ key: z.string() }))`
    SELECT storage_key AS key FROM artifact WHERE storage_key = ANY(${sql.array(keys, 'text')})
      AND organization_id = ${job.organizationId} AND deleted_at IS NULL`);
  const sizes = await Promise.all(keys.map((key) => storage.size(key)));
  const missing = keys.filter((key, index) => !present.includes(key) || sizes[index] === null);
  if (missing.length === 0) return;
  throw missingError(step, `a file of the step was deleted or has expired: ${missing.join(', ')}`);
}

/** Reads what a step delivered. */
export async function takeStep(
  { job, step }: Source,
  { storage, texts }: Pick<Services, 'storage'> & { texts: { areChecked: boolean } },
): Promise<TakenStep> {
  const outputs = listOutputs(job, step);
  const artifacts = outputs.flatMap((output) => output.artifacts);
  const urls = new Map<string, string>();
  for (const { storageKey } of artifacts) {
    urls.set(storageKey, await storage.urlOf(storageKey, urlTtlMs));
  }
  const findArtifact = ({ callIndex, artifactIndex }: JobStep['outputs'][number]) =>
    outputs.find((output) => output.callIndex === callIndex)?.artifacts[artifactIndex];
  const [document] = artifacts;
  const content = asRecord(document && job.documents?.get(document.storageKey));
  return {
    jobId: job.id,
    model: step.model,
    after: step.after,
    outputs,
    // Outputs keep their indexes, also if one before them was not delivered.
    files: step.outputs,
    urlOf: (output) => urls.get(findArtifact(output)?.storageKey ?? '') ?? null,
    readText(name) {
      const text = content[name] ?? asRecord(outputs[0]?.data)[name];
      if (typeof text === 'string') return text;
      return texts.areChecked ? null : step.id;
    },
  };
}
