/** The Studio capabilities, described from their own files. */
import { z } from 'zod';
import type { ErrorCode } from '../../domain/errors.ts';
import type { Capability } from '../../studio/capability.ts';
import { capabilities } from '../../studio/registry.ts';
import { creditsSchema, ticketSchema } from './job-operations.ts';
import type { Operation } from './operation.ts';

/** How a Studio request can be refused or fail (spec §7, design §4, §5). */
const studioErrors: readonly ErrorCode[] = [
  'INVALID_REQUEST',
  'UNKNOWN_MODEL',
  'UNSUPPORTED_PARAMETER',
  'CONFLICTING_FIELDS',
  'INVALID_INPUT_URL',
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'INSUFFICIENT_CREDITS',
  'REQUEST_IN_PROGRESS',
  'CANCELED',
  'PAYLOAD_TOO_LARGE',
  'UNSUPPORTED_MEDIA_TYPE',
  'IDEMPOTENCY_KEY_REUSED',
  'WINDOW_EXHAUSTED',
  'PROVIDER_ERROR',
  'STORAGE_ERROR',
  'DEADLINE_EXCEEDED',
  'OUTCOME_UNKNOWN',
  'JOB_LOST',
];

const headers = z.object({
  'Idempotency-Key': z
    .string()
    .min(1)
    .max(255)
    .optional()
    .meta({ description: 'The same key and body give the same job; another body is refused.' }),
  Prefer: z.string().optional().meta({
    description: '`wait=n` lowers the synchronous wait to n seconds.',
    example: 'wait=10',
  }),
});

/** One operation per capability. */
export const studioOperations: readonly Operation[] = capabilities.map(describeCapability);

function describeCapability(capability: Capability): Operation {
  return {
    method: 'post',
    path: `/api/v1${capability.path}`,
    id: capability.type,
    tag: `Studio: ${capability.medium}`,
    summary: capability.summary,
    scope: capability.scope,
    headers,
    body: {
      required: true,
      content: { 'application/json': { schema: capability.request, example: capability.example } },
    },
    answers: {
      200: {
        description: 'Done, and charged.',
        headers: z.object({ 'Idempotent-Replayed': z.literal('true').optional() }),
        content: {
          type: 'application/json',
          schema: z.object({
            success: z.literal(true),
            data: capability.data,
            credits: creditsSchema,
          }),
        },
      },
      202: {
        description: 'Accepted; the credits are reserved. Poll `statusUrl`.',
        headers: z.object({ Location: z.url(), 'Retry-After': z.int() }),
        content: {
          type: 'application/json',
          schema: z.object({
            success: z.literal(true),
            data: ticketSchema,
            credits: creditsSchema,
          }),
        },
      },
    },
    errors: studioErrors,
  };
}
