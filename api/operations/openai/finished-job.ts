/**
 * Studio jobs for clients that know none: the request becomes the same job as on the Studio's own endpoint,
 * and its result the answer, or an error says where that will be. Refusals have the names that those clients sent.
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
import type { AnswerParts } from '../operation.ts';
import { bareHeaders, refuseFailed, studioErrors, tellCredits } from '../studio.ts';

/** How such a request can be refused or fail. */
export const jobErrors = [...studioErrors, 'JOB_NOT_DONE'] as const;

/** What is told of an answer that is made from a finished job. */
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
 * Runs the job of a request to its end.
 * @throws GatewayError what refuses it, its failure, or JOB_NOT_DONE when it takes longer than is waited for
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
    // The clients try again by themselves: with a key that finds this job, without one it makes another.
    ctx.set('X-Should-Retry', String(idempotencyKeyOf(ctx) !== null));
    throw new GatewayError(
      'JOB_NOT_DONE',
      'The job goes on. Ask again with the same Idempotency-Key, or look at statusUrl.',
      { body: { jobId, statusUrl }, retryAfterSeconds: 2 },
    );
  }
  return job;
}

/** What a job has made, in order. */
export function artifactsOf({ outputs }: JobRecord): StoredArtifact[] {
  return (outputs ?? []).flatMap((call) => call.artifacts);
}

/**
 * The bytes of what a job has made.
 * @throws GatewayError NOT_FOUND when there are none, or no more
 */
export async function bytesOf(
  artifact: StoredArtifact | undefined,
  { storage }: Pick<Composition, 'storage'>,
): Promise<{ stream: Readable; sizeBytes: number; contentType: string }> {
  const object = artifact && (await storage.open(artifact.storageKey));
  if (!object) throw new GatewayError('NOT_FOUND', 'This job has no file, or has it no more.');
  return object;
}

/** A capability's field → theirs. */
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
