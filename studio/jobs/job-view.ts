/** Renders jobs as the job resource and the Studio envelope (spec §4.6). */
import { extractPromptLine, extractTitle, type JobRecord } from '../../domain/job-record.ts';
import { z } from 'zod';
import { endUserShown, splitEndUser } from '../../domain/end-users.ts';
import { type CreditsBlock, creditsFromMicro } from '../../domain/credits.ts';
import { errorTable, assert } from '../../domain/errors.ts';
import { keysOf, isoTime } from '../../domain/json.ts';
import type { Capability } from '../capabilities/capability.ts';
import type { CallOutputs, StoredArtifact } from '../../domain/job-plan.ts';
import { findCapability } from '../pipelines/job-kinds.ts';
import { awaitingSchema, listAwaiting, showAwaiting } from '../pipelines/approval-view.ts';
import { listDelivered, showSteps, stepsSchema } from '../pipelines/step-view.ts';

/**
 * Returns the public status of a job: `in_progress` as soon as its first call may have been sent.
 */
function toPublicStatus(job: JobRecord): JobResource['status'] {
  if (job.status !== 'open') return job.status;
  if (listAwaiting(job).length > 0) return 'in_progress';
  return job.startedAtMs === null ? 'queued' : 'in_progress';
}

/** Returns the phase of a job from the states of its calls. */
function derivePhase(job: JobRecord): JobResource['phase'] {
  if (job.status !== 'open') return 'done';
  if (listAwaiting(job).length > 0) return 'awaiting_approval';
  if (job.verifying) return 'verifying_outcome';
  const states = job.callStates ?? [];
  if (states.length === 0) return 'queued';
  if (states.includes('begun')) return 'submitting';
  // A call in state `waiting` has not been sent, because its provider is paused.
  if (states.includes('waiting')) return 'waiting_for_provider';
  return states.every((state) => state === 'storing' || state === 'answered')
    ? 'storing'
    : 'generating';
}

/** Estimates the progress of a job from the typical duration of its model. */
function estimateProgress(job: JobRecord): JobResource['progress'] {
  if (job.status !== 'open' || job.startedAtMs === null) return null;
  // The usual duration says nothing about a person's decision.
  if (listAwaiting(job).length > 0) return null;
  const { typicalSeconds, queuePosition } = job;
  if (typicalSeconds === null) return { queuePosition, share: null, etaSeconds: null };
  const elapsedSeconds = Math.max(0, Date.now() - job.startedAtMs) / 1000;
  return {
    queuePosition,
    share: Math.round(Math.min(1, elapsedSeconds / typicalSeconds) * 100) / 100,
    etaSeconds: Math.ceil(Math.max(0, typicalSeconds - elapsedSeconds)),
  };
}

const time = z.iso.datetime();
const status = z.enum(['queued', 'in_progress', 'completed', 'failed', 'canceled']);

/** Schema of the `credits` block (spec §2.7). All amounts are in credits. */
export const creditsSchema: z.ZodType<CreditsBlock> = z
  .object({ used: z.number(), cost: z.number(), remaining: z.number().nullable() })
  .meta({
    id: 'Credits',
    description:
      'Amounts in credits: charged so far (`used`), price (`cost`) and available balance (`remaining`, null for a browser token).',
  });

/** Schema of the `data` of a 202 response. */
export const acceptedJobSchema = z
  .object({
    jobId: z.string(),
    status,
    statusUrl: z.url(),
    cancelUrl: z.url(),
    createdAt: time,
    deadlineAt: time,
  })
  .meta({ id: 'JobTicket' });

/** Schema of the job resource. */
export const jobSchema = z
  .object({
    jobId: z.string(),
    keyId: z.string(),
    type: z.string(),
    model: z.string().nullable(),
    provider: z.string().meta({ description: 'Provider of the first call.' }),
    prompt: z.string().nullable().meta({
      description:
        'First line of the prompt or text of the request, at most 140 characters; null if it has none.',
    }),
    status,
    done: z.boolean().meta({ description: 'True once the job has ended: poll until then.' }),
    phase: z.enum([
      'queued',
      'waiting_for_provider',
      'submitting',
      'generating',
      'storing',
      'verifying_outcome',
      'awaiting_approval',
      'done',
    ]),
    progress: z
      .object({
        queuePosition: z
          .int()
          .nullable()
          .meta({ description: 'Position in the queue of the provider; null if it reports none.' }),
        share: z.number().nullable().meta({
          description:
            'Elapsed part of the usual duration, from 0 to 1; null if the usual duration is unknown.',
        }),
        etaSeconds: z.int().nullable().meta({
          description:
            'Seconds that are left of the usual duration; 0 if the job takes longer than usual, null if the usual duration is unknown.',
        }),
      })
      .nullable()
      .meta({
        description:
          'Estimated progress; null before the first call is sent and after the job has ended.',
      }),
    createdAt: time,
    startedAt: time.nullable(),
    completedAt: time.nullable(),
    deadlineAt: time,
    result: z.record(z.string(), z.unknown()).nullable().meta({
      description:
        'The same object as `data` in the response to a synchronous request. Lists show null for chats.',
    }),
    steps: stepsSchema,
    awaiting: awaitingSchema,
    parentJobId: z.string().nullable().meta({
      description: 'Pipeline that this job resumes; null for other jobs.',
    }),
    mediaDeletedAt: time.nullable().meta({
      description: 'Time at which the owner deleted the media; `result` is null afterwards.',
    }),
    error: z
      .object({ code: z.enum(keysOf(errorTable)), message: z.string(), retryable: z.boolean() })
      .nullable(),
    billing: z.object({
      state: z.enum(['reserved', 'charged', 'released']),
      reserved: z.number(),
      charged: z.number(),
      refunded: z
        .number()
        .meta({ description: 'Part of `charged` that an operator has given back.' }),
    }),
    metadata: z
      .record(z.string(), z.string())
      .meta({ description: 'Key-value pairs from the request; empty if it had none.' }),
    endUser: endUserShown,
    recipe: z
      .string()
      .nullable()
      .meta({ description: 'Recipe of the request, as `name@version`; null if it had none.' }),
    requestId: z.string(),
    statusUrl: z.url(),
    cancelUrl: z.url(),
  })
  .meta({ id: 'Job' });

/** Job resource. */
export type JobResource = z.infer<typeof jobSchema>;

const jsonObject = z.record(z.string(), z.unknown()).nullable();

/** Part of the `data` of a pipeline. */
const deliveredSteps = z.object({
  steps: z.array(z.object({ id: z.string(), data: z.record(z.string(), z.unknown()).nullable() })),
});

export type JobView = ReturnType<typeof createJobView>;

/** Lifetime of the URLs of a persisted result, in milliseconds; each response signs new URLs. */
const persistedUrlTtlMs = 24 * 3_600_000;
/** Time in milliseconds from the end of a job until a result that is not persisted expires. */
const temporaryUrlTtlMs = 3_600_000;

/** Signs the URL of an artifact for a time. The text describes the artifact in its file name. */
type SignUrl = (artifact: StoredArtifact, ttlMs: number, text: string | null) => Promise<string>;

interface Presented {
  job: JobRecord;
  capability: Capability;
  outputs: CallOutputs[];
  /** Maximum lifetime of the URLs; by default, that of a persisted result. */
  urlTtlMsMax?: number;
}

/** Builds the `data` of outputs of a job. */
async function presentOutputs(
  sign: SignUrl,
  { job, capability, outputs, urlTtlMsMax }: Presented,
): Promise<Record<string, unknown>> {
  const { urlTtlMs, ...expiry } = calculateUrlExpiry(job, capability, urlTtlMsMax);
  return capability.present({
    request: job.request,
    model: job.model,
    outputs,
    steps: job.steps,
    ...expiry,
    urlOf: await signUrls(expiry.urlsHaveExpired ? [] : outputs, (artifact) =>
      sign(artifact, urlTtlMs, extractTitle(job.request)),
    ),
    readDocument: ({ storageKey }) => job.documents?.get(storageKey) ?? null,
  });
}

/** Builds the steps of a pipeline; those that have delivered while it runs have their results. */
async function buildSteps(sign: SignUrl, job: JobRecord): Promise<JobResource['steps']> {
  const capability = findCapability(job.type);
  const outputs = job.status === 'open' ? listDelivered(job) : [];
  if (!capability || outputs.length === 0) return showSteps(job, new Map());
  const presented = await presentOutputs(sign, { job, capability, outputs });
  const { steps } = deliveredSteps.parse(presented);
  return showSteps(job, new Map(steps.map(({ id, data }) => [id, data])));
}

/**
 * Builds the result of a Studio job without what it repeats of the request: its `metadata`, also in
 * the steps of a pipeline. Returns null if there is none.
 */
async function buildSharedResult(
  sign: SignUrl,
  job: JobRecord,
  urlTtlMsMax: number,
): Promise<Record<string, unknown> | null> {
  const capability = findCapability(job.type);
  if (job.status !== 'completed' || !job.outputs || job.mediaDeletedAtMs !== null || !capability)
    return null;
  const presented = { job, capability, outputs: job.outputs, urlTtlMsMax };
  const { metadata: _, ...result } = await presentOutputs(sign, presented);
  const { data: delivered } = deliveredSteps.safeParse(result);
  if (!delivered) return result;
  const steps = delivered.steps.map(({ id, data }) => {
    const { metadata: _ofStep, ...rest } = data ?? {};
    return { id, data: data && rest };
  });
  return { ...result, steps };
}

/** Creates the functions that render jobs. `urlOf` signs the URL of an artifact. */
export function createJobView(deps: { publicBaseUrl: string; urlOf: SignUrl }) {
  const buildLinks = (job: JobRecord): { statusUrl: string; cancelUrl: string } => {
    const statusUrl = `${deps.publicBaseUrl}/api/v1/studio/jobs/${job.id}`;
    return { statusUrl, cancelUrl: `${statusUrl}/cancel` };
  };

  /**
   * Builds the `data` of the response to a synchronous request. Returns null if the job is not
   * completed, or its media were deleted.
   */
  async function buildResult(job: JobRecord): Promise<Record<string, unknown> | null> {
    const capability = findCapability(job.type);
    if (job.status !== 'completed' || !job.outputs || job.mediaDeletedAtMs !== null) return null;
    // A chat job has no capability: the data of its only call is its answer, until that is deleted.
    if (!capability) return jsonObject.parse(job.outputs[0]?.data ?? null);
    return presentOutputs(deps.urlOf, { job, capability, outputs: job.outputs });
  }

  const buildAwaiting = (job: JobRecord): Promise<JobResource['awaiting']> =>
    showAwaiting(job, (artifact) =>
      deps.urlOf(artifact, persistedUrlTtlMs, extractTitle(job.request)),
    );

  return {
    result: buildResult,
    sharedResult: (job: JobRecord, urlTtlMsMax: number) =>
      buildSharedResult(deps.urlOf, job, urlTtlMsMax),
    awaiting: buildAwaiting,
    /** Builds the `data` of the 202 response. */
    accepted: (job: JobRecord): z.infer<typeof acceptedJobSchema> => ({
      jobId: job.id,
      status: toPublicStatus(job),
      ...buildLinks(job),
      createdAt: isoTime(job.createdAtMs),
      deadlineAt: isoTime(job.deadlineAtMs),
    }),
    /** Builds the `data` of the job resource. */
    resource: async (job: JobRecord): Promise<JobResource> => ({
      jobId: job.id,
      keyId: job.keyId,
      type: job.type,
      model: job.model,
      provider: job.provider,
      prompt: extractPromptLine(job.request),
      status: toPublicStatus(job),
      done: job.status !== 'open',
      phase: derivePhase(job),
      progress: estimateProgress(job),
      createdAt: isoTime(job.createdAtMs),
      startedAt: isoTime(job.startedAtMs),
      completedAt: isoTime(job.completedAtMs),
      deadlineAt: isoTime(job.deadlineAtMs),
      result: await buildResult(job),
      steps: await buildSteps(deps.urlOf, job),
      awaiting: await buildAwaiting(job),
      parentJobId: typeof job.request['resumes'] === 'string' ? job.request['resumes'] : null,
      mediaDeletedAt: isoTime(job.mediaDeletedAtMs),
      error: job.error && { ...job.error, retryable: errorTable[job.error.code].retryable },
      billing: buildBilling(job),
      ...splitEndUser(job.metadata),
      recipe: job.recipe,
      requestId: job.requestId,
      ...buildLinks(job),
    }),
    credits: buildCreditsBlock,
  };
}

/** Builds the `credits` block of a job. */
function buildCreditsBlock(job: JobRecord): CreditsBlock {
  return {
    used: creditsFromMicro((job.charged ?? 0) - job.refunded),
    cost: creditsFromMicro(calculateCostMicro(job)),
    remaining: creditsFromMicro(job.available),
  };
}

/** Signs all URLs of a job in advance, because `present` is synchronous. */
async function signUrls(
  outputs: CallOutputs[],
  sign: (artifact: StoredArtifact) => Promise<string>,
): Promise<(artifact: StoredArtifact) => string> {
  const artifacts = outputs.flatMap((output) => output.artifacts);
  const urls = await Promise.all(artifacts.map((artifact) => sign(artifact)));
  const urlsByStorageKey = new Map(
    artifacts.map(({ storageKey }, index) => [storageKey, urls[index]]),
  );
  return ({ storageKey }) => {
    const url = urlsByStorageKey.get(storageKey);
    assert(url, 'a presented artifact does not belong to the job');
    return url;
  };
}

/** Returns the state of a job's reservation and its amounts in credits. */
export function buildBilling(job: JobRecord): JobResource['billing'] {
  return {
    state: job.billingState,
    reserved: creditsFromMicro(job.reserved),
    charged: creditsFromMicro(job.charged ?? 0),
    refunded: creditsFromMicro(job.refunded),
  };
}

/**
 * Returns the time at which the URLs of a job's result expire, and their remaining lifetime in
 * milliseconds.
 */
function calculateUrlExpiry(
  job: JobRecord,
  capability: Capability,
  urlTtlMsMax = persistedUrlTtlMs,
) {
  const nowMs = Date.now();
  const isPersisted = capability.persistsResult?.(job.request) ?? true;
  const resultExpiresAtMs = isPersisted
    ? Number.POSITIVE_INFINITY
    : (job.completedAtMs ?? nowMs) + temporaryUrlTtlMs;
  const urlsExpireAtMs = Math.min(resultExpiresAtMs, nowMs + urlTtlMsMax);
  const urlTtlMs = urlsExpireAtMs - nowMs;
  // Signatures expire at whole seconds, so a URL may be valid slightly longer than `expiresAt`.
  const urlsExpireAt = isoTime(Math.floor(urlsExpireAtMs / 1000) * 1000);
  return { urlsExpireAt, urlTtlMs, urlsHaveExpired: urlTtlMs <= 0 };
}

/**
 * Returns the cost of a job in micro-credits: the reserved amount until the job is settled, then
 * the charged amount.
 */
function calculateCostMicro(job: JobRecord): number {
  if (job.billingState === 'reserved') return job.reserved;
  return job.charged ?? 0;
}
