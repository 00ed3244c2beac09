/**
 * Runs Studio jobs for clients of OpenAI's API, which has no jobs. A request creates the same job
 * as the Studio endpoint and waits for it. The response is the job's result, or an error with the
 * job's status URL.
 */
import { z } from 'zod';
import type { JobRecord } from '../../../studio/jobs/job-reads.ts';
import { GatewayError } from '../../../domain/errors.ts';
import type { StoredArtifact } from '../../../domain/job-plan.ts';
import { contentCredentials } from '../../../domain/job-record.ts';
import type { Composition } from '../../composition.ts';
import type { Context } from '../../context.ts';
import type { StoredObject } from '../../../storage/storage.ts';
import { sendKeptAlive } from '../../http/kept-answer.ts';
import { sendStoredFile } from '../../http/stored-file.ts';
import { parseIdempotencyKey } from '../../http/request-headers.ts';
import { type RequestOptions, startRequest } from '../studio-requests.ts';
import type { ResponseDescription } from '../description.ts';
import {
  creditHeaders,
  studioErrors,
  throwIfFailed,
  setCreditsHeaders,
} from '../studio-results.ts';
import { withRenamedFields } from './field-names.ts';

/** Error codes of requests that wait until their job has ended. */
export const jobErrors = [...studioErrors, 'JOB_NOT_DONE'] as const;

/** Describes the response of `sendJson`: the result of a finished job as JSON. */
export const describeFinishedJob = (
  description: string,
  schema: z.ZodType,
): ResponseDescription => ({
  description: `${description} If the job takes longer than 15 seconds, the response begins with spaces and has no credits headers.`,
  headers: creditHeaders.partial(),
  schema,
});

/** Headers of a response that is a file of a job. */
export const fileHeaders = z.object({ 'X-Content-Credentials': contentCredentials });

/** Started job whose result is the response of an OpenAI-compatible endpoint. */
interface AwaitedJob {
  /**
   * Waits until the job has completed, and returns it. Call at most once, before the response
   * headers are sent.
   * @throws GatewayError the job's error, or JOB_NOT_DONE if the wait times out
   */
  awaitCompleted: () => Promise<JobRecord>;
}

/** Starts the job for a request. @throws GatewayError if the request is rejected */
export async function startAwaitedJob(
  ctx: Context,
  reader: Omit<RequestOptions, 'waitMaxMs'>,
  services: Composition,
): Promise<AwaitedJob> {
  const { config, view } = services;
  const options = { ...reader, waitMaxMs: config.COMPATIBLE_WAIT_MS };
  const { jobId, awaitEnd } = await withRenamedFields(() => startRequest(ctx, options, services));
  ctx.set('X-Job-Id', jobId);
  return {
    async awaitCompleted() {
      const { job } = await awaitEnd();
      throwIfFailed(job);
      if (!ctx.headerSent) setCreditsHeaders(ctx, view.credits(job));
      if (job.status === 'completed') return job;
      // OpenAI's clients retry if `X-Should-Retry` is true. A retry with an Idempotency-Key finds
      // this job; a retry without an Idempotency-Key would create another job.
      if (!ctx.headerSent) ctx.set('X-Should-Retry', String(parseIdempotencyKey(ctx) !== null));
      const { statusUrl } = view.accepted(job);
      throw new GatewayError(
        'JOB_NOT_DONE',
        'The job is still running. Send the request again with the same Idempotency-Key, or poll statusUrl.',
        { body: { jobId, statusUrl }, retryAfterSeconds: 2 },
      );
    },
  };
}

/** Sends a job as JSON once it has completed; spaces keep the connection open until then. */
export function sendJson(
  ctx: Context,
  { awaitCompleted }: AwaitedJob,
  {
    toJson,
    services,
  }: { toJson: (job: JobRecord) => AsyncIterable<string>; services: Composition },
): Promise<void> {
  const { config, logger } = services;
  const answer = awaitCompleted().then((job) => ({ body: toJson(job) }));
  return sendKeptAlive(ctx, answer, { keepaliveMs: config.COMPATIBLE_KEEPALIVE_MS, logger });
}

const missingMessage = 'The file does not exist or was deleted.';

/** Returns the artifacts of all calls of a job, in the order of the calls. */
export function listArtifacts({ outputs }: JobRecord): StoredArtifact[] {
  return (outputs ?? []).flatMap((call) => call.artifacts);
}

/**
 * Sends the first artifact of a job as the response body, or a range of it. A header contains the
 * origin of its marks as generated media.
 * @throws GatewayError NOT_FOUND if the job has no artifact or the artifact was deleted;
 * RANGE_NOT_SATISFIABLE
 */
export async function sendArtifact(
  ctx: Context,
  job: JobRecord,
  services: Pick<Composition, 'storage'>,
): Promise<void> {
  const [artifact] = listArtifacts(job);
  if (!artifact) throw new GatewayError('NOT_FOUND', missingMessage);
  ctx.set('X-Content-Credentials', artifact.contentCredentials);
  await sendStoredFile(ctx, services.storage, { key: artifact.storageKey, missingMessage });
}

/**
 * Opens an artifact of a job.
 * @throws GatewayError NOT_FOUND if `artifact` is undefined or its file was deleted
 */
export async function openArtifact(
  artifact: StoredArtifact | undefined,
  { storage }: Pick<Composition, 'storage'>,
): Promise<StoredObject> {
  const object = artifact && (await storage.open(artifact.storageKey));
  if (!object) throw new GatewayError('NOT_FOUND', missingMessage);
  return object;
}
