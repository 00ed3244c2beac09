/** Renders jobs as the job resource and the Studio envelope (spec §4.6). */
import type { z } from 'zod';
import { creditsFromMicro, type CreditsBlock } from '../../domain/credits.ts';
import { errorTable, assert } from '../../domain/errors.ts';
import { isRecord, isoTime } from '../../domain/json.ts';
import type { Capability } from '../capabilities/capability.ts';
import type { CallOutputs, StoredArtifact } from '../../domain/job-plan.ts';
import type { JobRecord } from '../../domain/job-record.ts';
import { derivePhase, estimateProgress, toPublicStatus } from './job-progress.ts';
import type { JobResource, ticketSchema } from './job-resource.ts';
import { findCapability } from '../capabilities/registry.ts';

export type JobView = ReturnType<typeof createJobView>;

/** Lifetime of the URLs of a persisted result, in milliseconds; each response signs new URLs. */
const persistedUrlTtlMs = 24 * 3_600_000;
/** Time in milliseconds from the end of a job until a result that is not persisted expires. */
const temporaryUrlTtlMs = 3_600_000;

/** Creates the functions that render jobs. `urlOf` signs the URL of an artifact. */
export function createJobView(deps: {
  publicBaseUrl: string;
  urlOf: (artifact: StoredArtifact, ttlMs: number) => Promise<string>;
}) {
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
    if (!capability || job.status !== 'completed' || !job.outputs) return null;
    if (job.media_deleted_at !== null) return null;
    const { urlTtlMs, ...expiry } = calculateUrlExpiry(job, capability);
    return capability.present({
      request: job.request,
      model: job.model,
      outputs: job.outputs,
      ...expiry,
      urlOf: await signUrls(expiry.urlsHaveExpired ? [] : job.outputs, (artifact) =>
        deps.urlOf(artifact, urlTtlMs),
      ),
      readDocument: ({ storageKey }) => job.documents?.get(storageKey) ?? null,
    });
  }

  return {
    result: buildResult,
    /** Builds the `data` of the 202 response. */
    ticket: (job: JobRecord): z.infer<typeof ticketSchema> => ({
      jobId: job.id,
      status: toPublicStatus(job),
      ...buildLinks(job),
      createdAt: isoTime(job.created_at),
      deadlineAt: isoTime(job.deadline_at),
    }),
    /** Builds the `data` of the job resource. */
    resource: async (job: JobRecord): Promise<JobResource> => ({
      jobId: job.id,
      keyId: job.key_id,
      type: job.type,
      model: job.model,
      provider: job.provider,
      prompt: extractPromptLine(job.request),
      status: toPublicStatus(job),
      done: job.status !== 'open',
      phase: derivePhase(job),
      progress: estimateProgress(job),
      createdAt: isoTime(job.created_at),
      startedAt: isoTime(job.started_at),
      completedAt: isoTime(job.completed_at),
      deadlineAt: isoTime(job.deadline_at),
      result: await buildResult(job),
      mediaDeletedAt: isoTime(job.media_deleted_at),
      error: job.error && { ...job.error, retryable: errorTable[job.error.code].retryable },
      billing: buildBilling(job),
      metadata: job.metadata ?? {},
      requestId: job.request_id,
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

const promptLineMax = 140;

/**
 * Returns the first line of a request's text, as a human-readable title of the job; null if the
 * request has no text.
 */
export function extractPromptLine({
  prompt,
  text,
  inputs,
  title,
}: JobRecord['request']): string | null {
  const [firstInput] = Array.isArray(inputs) ? inputs : [];
  const dialogueText = isRecord(firstInput) ? firstInput['text'] : undefined;
  const requestText = [prompt, text, dialogueText, title].find(
    (candidate) => typeof candidate === 'string',
  );
  const line = typeof requestText === 'string' ? (requestText.trim().split(/\r?\n/)[0] ?? '') : '';
  if (line === '') return null;
  const characters = Array.from(line);
  return characters.length > promptLineMax
    ? `${characters.slice(0, promptLineMax - 1).join('')}…`
    : line;
}

/** Returns the state of a job's reservation and its amounts in credits. */
export function buildBilling(job: JobRecord): JobResource['billing'] {
  return {
    state: job.billing_state,
    reserved: creditsFromMicro(job.reserved),
    charged: creditsFromMicro(job.charged ?? 0),
    refunded: creditsFromMicro(job.refunded),
  };
}

/**
 * Returns the time at which the URLs of a job's result expire, and their remaining lifetime in
 * milliseconds.
 */
function calculateUrlExpiry(job: JobRecord, capability: Capability) {
  const nowMs = Date.now();
  const isPersisted = capability.persistsResult?.(job.request) ?? true;
  const urlsExpireAtMs = isPersisted
    ? nowMs + persistedUrlTtlMs
    : (job.completed_at ?? nowMs) + temporaryUrlTtlMs;
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
  if (job.billing_state === 'reserved') return job.reserved;
  return job.charged ?? 0;
}
