/** The Studio capabilities, described from their own files. */
import { z } from 'zod';
import type { ErrorCode } from '../../domain/errors.ts';
import type { Capability } from '../../studio/capability.ts';
import { capabilities } from '../../studio/registry.ts';
import { idempotencyKeyText } from '../studio/idempotency.ts';
import { creditsSchema, ticketSchema } from './job-operations.ts';
import type { AnswerDescription, Operation } from './operation.ts';

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
  'Idempotency-Key': idempotencyKeyText
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
    body: { required: true, content: contentOf(capability) },
    answers: {
      200: doneAnswer(capability),
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
    errors: [...studioErrors, ...(capability.upload ? (['FILE_TOO_LARGE'] as const) : [])],
  };
}

function contentOf(capability: Capability): NonNullable<Operation['body']>['content'] {
  const { request, example, upload } = capability;
  if (!upload) return { 'application/json': { schema: request, example } };
  const file = z.string().meta({
    format: 'binary',
    description: `At most ${upload.bytesMax} bytes. Texts of the form are fields of the JSON body.`,
  });
  return {
    'application/json': { schema: request, example },
    'multipart/form-data': { schema: z.looseObject({ [upload.field]: file }) },
  };
}

function doneAnswer(capability: Capability): AnswerDescription {
  const replayed = { 'Idempotent-Replayed': z.literal('true').optional() };
  if (capability.envelope === 'bare') {
    const credits = z.number().meta({ description: 'As in the `credits` of other answers.' });
    return {
      description: 'Done, and charged; without the common envelope.',
      headers: z.object({
        ...replayed,
        'X-Credits-Used': credits,
        'X-Credits-Cost': credits,
        'X-Credits-Remaining': credits,
      }),
      content: { type: 'application/json', schema: capability.data },
    };
  }
  return {
    description: 'Done, and charged.',
    headers: z.object(replayed),
    content: {
      type: 'application/json',
      schema: z.object({
        success: z.literal(true),
        data: capability.data,
        credits: creditsSchema,
      }),
    },
  };
}
