/**
 * Studio jobs for clients of OpenAI's API, which has no jobs. A request creates the same job as the
 * Studio's own endpoint. The response is the job's result, or an error with the status URL of the
 * job.
 */
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import type { JobRecord } from '../../../jobs/records/job-reads.ts';
import { GatewayError } from '../../../domain/errors.ts';
import type { StoredArtifact } from '../../../jobs/job-plan.ts';
import type { Capability } from '../../../studio/capability.ts';
import type { Composition } from '../../composition.ts';
import type { Context } from '../../context.ts';
import { idempotencyKeyOf } from '../../idempotency/idempotency-key.ts';
import { parseWith } from '../../http/parsing.ts';
import { openaiError } from '../../http/error-bodies.ts';
import { toGatewayError } from '../../middleware/errors.ts';
import { type RequestReader, startJob } from '../../studio/job-submission.ts';
import type { ReadRequest } from '../../studio/request-reading.ts';
import type { AnswerParts } from '../description.ts';
import { bareHeaders, studioErrors } from '../studio-description.ts';
import { refuseFailed, setCreditsHeaders } from '../studio-results.ts';
import { withRenamedFields } from './field-names.ts';

/** Error codes of requests that wait for their job. */
export const jobErrors = [...studioErrors, 'JOB_NOT_DONE'] as const;

/** Makes the description of a response with the result of a finished job as JSON (`sendJson`). */
export const finishedAnswer = (description: string, schema: z.ZodType): AnswerParts => ({
  description: `${description} After 15 seconds the response begins with blanks, and lacks the headers with the credits.`,
  headers: bareHeaders.partial(),
  schema,
});

/** Parses the fields of a capability's request. @throws GatewayError INVALID_REQUEST */
export function requestOf(capability: Capability, fields: object): ReadRequest {
  const request = parseWith(capability.request, fields);
  return { request, webhook: null, metadata: null };
}

/** Job that was started for one of these endpoints. */
interface AwaitedJob {
  /**
   * Waits for the end of the job, and returns it completed. The headers of the response are not
   * sent before. To be called once.
   * @throws GatewayError the failure of the job, or JOB_NOT_DONE when the wait times out
   */
  completed: () => Promise<JobRecord>;
}

/**
 * Starts the job of a request.
 * @throws GatewayError errors that reject the request
 */
export async function startedJob(
  ctx: Context,
  reader: Omit<RequestReader, 'waitMaxMs'>,
  services: Composition,
): Promise<AwaitedJob> {
  const { config, view } = services;
  const waiting = { ...reader, waitMaxMs: config.COMPATIBLE_WAIT_MS };
  const { jobId, ended } = await withRenamedFields(() => startJob(ctx, waiting, services));
  ctx.set('X-Job-Id', jobId);
  return {
    async completed() {
      const { job } = await ended();
      refuseFailed(job);
      if (!ctx.headerSent) setCreditsHeaders(ctx, view.credits(job));
      if (job.status === 'completed') return job;
      // The clients retry automatically. A retry with an Idempotency-Key finds this job; without
      // one it creates another job.
      if (!ctx.headerSent) ctx.set('X-Should-Retry', String(idempotencyKeyOf(ctx) !== null));
      const { statusUrl } = view.ticket(job);
      throw new GatewayError(
        'JOB_NOT_DONE',
        'The job continues. Send the request again with the same Idempotency-Key, or poll statusUrl.',
        { body: { jobId, statusUrl }, retryAfterSeconds: 2 },
      );
    },
  };
}

/**
 * Sends the JSON of a job when it is completed. If that takes longer than COMPATIBLE_KEEPALIVE_MS,
 * the response begins with status 200 and blanks, which JSON allows, so that proxies keep the
 * connection. A failure after that is a text that is not JSON (`CODE: message`, then the error
 * body), so that every client fails to parse it instead of taking it for a result.
 */
export async function sendJson(
  ctx: Context,
  { completed }: AwaitedJob,
  {
    toJson,
    services,
  }: { toJson: (job: JobRecord) => AsyncIterable<string>; services: Composition },
): Promise<void> {
  const { requestId } = ctx.state;
  const { config, logger } = services;
  const keepaliveMs = config.COMPATIBLE_KEEPALIVE_MS;
  const completion = completed();
  // If the client disconnects, nothing awaits the completion.
  completion.catch(() => {});
  const job = await within(completion, keepaliveMs);
  async function* late(): AsyncGenerator<string> {
    try {
      let done: JobRecord | null = null;
      while (!done) {
        yield ' ';
        done = await within(completion, keepaliveMs);
      }
      yield* toJson(done);
    } catch (error) {
      const failure = toGatewayError(error);
      logger.error({ error, code: failure.code }, 'request.failed_late');
      yield `${failure.code}: ${failure.message}\n${JSON.stringify(openaiError(failure, requestId))}\n`;
    }
  }
  ctx.status = 200;
  ctx.type = 'json';
  ctx.body = Readable.from(job ? toJson(job) : late(), { objectMode: false });
}

/** Waits for a promise at most `waitMs` milliseconds; returns null if it is still pending. */
async function within<Value>(promise: Promise<Value>, waitMs: number): Promise<Value | null> {
  const timer = new AbortController();
  try {
    return await Promise.race([promise, sleep(waitMs, null, { signal: timer.signal })]);
  } finally {
    timer.abort();
  }
}

/** Returns the artifacts of a job in their order. */
export function artifactsOf({ outputs }: JobRecord): StoredArtifact[] {
  return (outputs ?? []).flatMap((call) => call.artifacts);
}

/**
 * Sends the first artifact of a job as the body of the response.
 * @throws GatewayError NOT_FOUND if the job has no artifact, or it was deleted
 */
export async function sendArtifact(
  ctx: Context,
  job: JobRecord,
  services: Pick<Composition, 'storage'>,
): Promise<void> {
  const { stream, sizeBytes, contentType } = await bytesOf(artifactsOf(job)[0], services);
  ctx.type = contentType;
  ctx.length = sizeBytes;
  ctx.body = stream;
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
