/**
 * Headers, errors and responses that the Studio endpoints and the OpenAI-compatible endpoints share: the
 * result of the job, or 202 with the job's id and URLs.
 */
import { z } from 'zod';
import { type ErrorCode, GatewayError, type ErrorDetail } from '../../domain/errors.ts';
import { spendingHeaders } from '../http/request-headers.ts';
import type { ParameterizedContext } from 'koa';
import type { JobRecord } from '../../studio/jobs/job-reads.ts';
import type { CreditsBlock } from '../../domain/credits.ts';
import { creditsSchema, acceptedJobSchema, type JobView } from '../../studio/jobs/job-view.ts';
import { toData, dataSchema } from './fields.ts';

/** Error codes of Studio requests (spec §7). */
export const studioErrors: readonly ErrorCode[] = [
  'UNKNOWN_MODEL',
  'UNSUPPORTED_PARAMETER',
  'CONFLICTING_FIELDS',
  'INVALID_INPUT_URL',
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'INSUFFICIENT_CREDITS',
  'MEDIA_DELETED',
  'CANCELED',
  'KEY_LIMIT_EXCEEDED',
  'END_USER_LIMIT_EXCEEDED',
  'END_USER_SUSPENDED',
  'WINDOW_LIMIT_EXCEEDED',
  'WINDOW_EXHAUSTED',
  'JOBS_MAX_REACHED',
  'PROVIDER_ERROR',
  'STORAGE_ERROR',
  'DEADLINE_EXCEEDED',
  'OUTCOME_UNKNOWN',
  'JOB_LOST',
];

/** Error codes of requests with a file, in addition to those of JSON requests. */
export const fileErrors = ['FILE_TOO_LARGE', 'STORAGE_QUOTA_EXCEEDED'] as const;

/** Schema of the headers of a Studio request. */
export const studioHeaders = spendingHeaders.extend({
  Prefer: z.string().optional().meta({
    description: '`wait=n`: waits at most n seconds for the job. `respond-async`: does not wait.',
    example: 'wait=10',
  }),
});

/** Schema of the response header with the job id. */
export const jobHeader = z.object({
  'X-Job-Id': z.string().meta({ description: 'Id of the job.' }),
});
/** Schema of the headers of a response with the result of a job. */
export const resultHeaders = jobHeader.extend({
  'Idempotent-Replayed': z.literal('true').optional(),
});
const creditsValue = z
  .number()
  .meta({ description: 'Same value as the corresponding field of `credits` in JSON responses.' });
/** Schema of the headers of a response whose body has no `credits` block. */
export const creditHeaders = resultHeaders.extend({
  'X-Credits-Used': creditsValue,
  'X-Credits-Cost': creditsValue,
  'X-Credits-Remaining': creditsValue
    .optional()
    .meta({ description: 'Available balance in credits. Absent for a browser token.' }),
});

/** Schema of a 202 response. */
export const acceptedResponse = dataSchema(acceptedJobSchema).extend({ credits: creditsSchema });

/** Sets the response headers that show the credits of a job. */
export function setCreditsHeaders(ctx: ParameterizedContext, credits: CreditsBlock): void {
  ctx.set({
    'X-Credits-Used': String(credits.used),
    'X-Credits-Cost': String(credits.cost),
    'X-Credits-Remaining': String(credits.remaining),
  });
}

/**
 * Returns the result of a job, or null if the job has not ended.
 * @throws GatewayError the job's error, or MEDIA_DELETED
 */
export function readResult(job: JobRecord, view: JobView): ReturnType<JobView['result']> {
  throwIfFailed(job);
  if (job.mediaDeletedAtMs !== null) {
    throw new GatewayError('MEDIA_DELETED', undefined, { body: { jobId: job.id } });
  }
  return view.result(job);
}

/** Throws the job's error if it failed or was canceled. @throws GatewayError the job's error */
export function throwIfFailed({ id, error }: JobRecord): void {
  if (!error) return;
  const details =
    error.code === 'PROVIDER_REJECTED_INPUT' ? listRejectedFields(error.message) : undefined;
  throw new GatewayError(error.code, error.message, { details, body: { jobId: id } });
}

/**
 * Returns the fields that a provider rejected, from the message that names them
 * (providers/error-responses.ts), or the whole message.
 */
function listRejectedFields(message: string): ErrorDetail[] {
  const start = message.indexOf('(');
  if (start < 0 || !message.endsWith(')')) return [{ path: '(body)', message }];
  const list = message.slice(start + 1, -1);
  return list.split('; ').map((entry) => {
    const [, path = '(body)', reason = entry] = /^([\w.]+)(?:: (.*))?$/.exec(entry) ?? [];
    return { path, message: reason === path ? 'was rejected by the provider' : reason };
  });
}

/** Sets status 202 and the headers for polling the job. Returns the job's id and URLs. */
export function buildAcceptedResponse(
  ctx: ParameterizedContext,
  job: JobRecord,
  view: JobView,
): z.infer<typeof acceptedResponse> {
  const accepted = view.accepted(job);
  ctx.status = 202;
  ctx.set('Location', accepted.statusUrl);
  ctx.set('Retry-After', '2');
  return { ...toData(accepted), credits: view.credits(job) };
}
