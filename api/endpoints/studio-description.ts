/** Headers and error codes that the Studio endpoints and the OpenAI-compatible endpoints share. */
import { z } from 'zod';
import type { ErrorCode } from '../../domain/errors.ts';
import { idempotencyHeader } from '../http/request-headers.ts';

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
  'WINDOW_LIMIT_EXCEEDED',
  'WINDOW_EXHAUSTED',
  'PROVIDER_ERROR',
  'STORAGE_ERROR',
  'DEADLINE_EXCEEDED',
  'OUTCOME_UNKNOWN',
  'JOB_LOST',
];

/** Error codes of requests with a file, in addition to those of JSON requests. */
export const fileErrors = ['FILE_TOO_LARGE', 'STORAGE_QUOTA_EXCEEDED'] as const;

/** Schema of the headers of a Studio request. */
export const studioHeaders = idempotencyHeader.extend({
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
  'X-Credits-Remaining': creditsValue,
});
