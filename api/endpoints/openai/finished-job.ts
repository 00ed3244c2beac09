/**
 * Studio jobs for clients of OpenAI's API, which has no jobs. A request creates the same job as the Studio's own
 * endpoint. The response is the job's result, or an error with the status URL of the job. Errors have the field names
 * of OpenAI's API.
 */
import type { Readable } from 'node:stream';
import type { z } from 'zod';
import type { JobRecord } from '../../../jobs/records/job-reads.ts';
import { GatewayError } from '../../../domain/errors.ts';
import type { StoredArtifact } from '../../../jobs/job-plan.ts';
import type { Capability } from '../../../studio/capability.ts';
import type { Composition } from '../../composition.ts';
import type { Context } from '../../context.ts';
import { idempotencyKeyOf } from '../../idempotency/claims.ts';
import { parseWith } from '../../http/parsing.ts';
import { submitJob } from '../../studio/job-submission.ts';
import type { ReadRequest, ReadRequestOf } from '../../studio/request-draft.ts';
import type { AnswerParts } from '../endpoint.ts';
import { bareHeaders, refuseFailed, studioErrors, tellCredits } from '../studio.ts';

/** Error codes of requests that wait for their job. */
export const jobErrors = [...studioErrors, 'JOB_NOT_DONE'] as const;

/** Makes the description of a response with the result of a finished job. */
export const finishedAnswer = (description: string, schema: z.ZodType): AnswerParts => ({
  description,
  headers: bareHeaders,
  schema,
});

/** Parses the fields of a capability's request. @throws GatewayError INVALID_REQUEST */
export function requestOf(capability: Capability, fields: object): ReadRequest {
  const request = parseWith(capability.request, fields);
  return { request, webhookUrl: null, metadata: null };
}

/**
 * Starts the job of a request and waits for its end.
 * @throws GatewayError errors that reject the request, the failure of the job, or JOB_NOT_DONE when the wait times out
 */
export async function finishedJob(
  ctx: Context,
  reader: { capability: Capability; readBody: ReadRequestOf },
  services: Composition,
): Promise<JobRecord> {
  const { job } = await inTheirWords(() => submitJob(ctx, reader, services));
  const { view } = services;
  ctx.set('X-Job-Id', job.id);
  refuseFailed(job);
  tellCredits(ctx, view.credits(job));
  if (job.status !== 'completed') {
    const { jobId, statusUrl } = view.ticket(job);
    // The clients retry automatically. A retry with an Idempotency-Key finds this job; without one it creates another
    // job.
    ctx.set('X-Should-Retry', String(idempotencyKeyOf(ctx) !== null));
    throw new GatewayError(
      'JOB_NOT_DONE',
      'The job continues. Send the request again with the same Idempotency-Key, or poll statusUrl.',
      { body: { jobId, statusUrl }, retryAfterSeconds: 2 },
    );
  }
  return job;
}

/** Returns the artifacts of a job in their order. */
export function artifactsOf({ outputs }: JobRecord): StoredArtifact[] {
  return (outputs ?? []).flatMap((call) => call.artifacts);
}

/**
 * Opens an artifact of a job.
 * @throws GatewayError NOT_FOUND if the job has no artifact, or it was deleted
 */
export async function bytesOf(
  artifact: StoredArtifact | undefined,
  { storage }: Pick<Composition, 'storage'>,
): Promise<{ stream: Readable; sizeBytes: number; contentType: string }> {
  const object = artifact && (await storage.open(artifact.storageKey));
  if (!object) throw new GatewayError('NOT_FOUND', 'The file does not exist or was deleted.');
  return object;
}

/** Names of fields in OpenAI's API, by the name in the capability. */
const names: Readonly<Record<string, string>> = {
  numImages: 'n',
  imageSize: 'size',
  aspectRatio: 'size',
  width: 'size',
  height: 'size',
  resolution: 'size',
  outputFormat: 'output_format',
  imageUrls: 'image',
  maskUrl: 'mask',
  imageUrl: 'input_reference',
  durationSeconds: 'seconds',
  text: 'input',
  title: 'input',
  fileId: 'file',
};

/**
 * Runs a part of a request and gives the fields in its errors the names that the caller sent.
 * @throws GatewayError with renamed fields, and every other error of `run`
 */
export async function inTheirWords<Result>(
  run: () => Result | Promise<Result>,
  rename: (path: string) => string = nameOf,
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    throw error instanceof GatewayError && error.details ? renamed(error, rename) : error;
  }
}

function renamed(error: GatewayError, rename: (path: string) => string): GatewayError {
  const { code, body, retryAfterSeconds, cause } = error;
  const details = error.details?.map(({ path, message }) => ({ path: rename(path), message }));
  const [first] = error.details ?? [];
  const isNamed = first && error.message.startsWith(`${first.path}:`);
  const message = isNamed
    ? rename(first.path) + error.message.slice(first.path.length)
    : error.message;
  return new GatewayError(code, message, { details, body, retryAfterSeconds, cause });
}

/** Renames `imageUrls.0` to `image.0`. */
function nameOf(path: string): string {
  const [field = '', ...rest] = path.split('.');
  return [Object.hasOwn(names, field) ? names[field] : field, ...rest].join('.');
}
