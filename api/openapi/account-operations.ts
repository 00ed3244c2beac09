/** API keys and usage, described (spec §4.3, §4.4; design §5, §7). */
import { z } from 'zod';
import { scopes } from '../identity/access.ts';
import { idempotencyHeader } from '../middleware/idempotency-key.ts';
import { createRequest, rotateRequest } from '../routes/api-keys.ts';
import { usageQuery } from '../routes/usage.ts';
import type { AnswerDescription, Operation } from './operation.ts';

const keysTag = 'API keys';
const unixMs = z.int().meta({ description: 'Unix milliseconds.' });

const keyMeta = z
  .object({
    keyId: z.string(),
    keyPrefix: z.string(),
    name: z.string(),
    createdAt: unixMs,
    expiresAt: unixMs.nullable(),
    lastUsedAt: unixMs.nullable(),
    scopes: z.array(z.enum(scopes)),
    allowedModels: z.array(z.string()).nullable().meta({ description: 'Null: all models.' }),
  })
  .meta({ id: 'ApiKeyMeta' });
const newKey = keyMeta.extend({ key: z.string().meta({ description: 'Shown this once only.' }) });
const params = z.object({ keyId: z.string() });

const answered = (description: string, schema: z.ZodType): Record<string, AnswerDescription> => ({
  200: { description, content: { type: 'application/json', schema } },
});

const usageRecord = z
  .object({
    id: z.string(),
    type: z.string().meta({ description: '`chat`, or the type of the Studio job.' }),
    model: z.string().nullable(),
    status: z.enum(['reserved', 'charged', 'released']),
    credits: z.number().meta({ description: 'What was charged; 0 while reserved or released.' }),
    inputTokens: z.int().optional(),
    outputTokens: z.int().optional(),
    jobId: z.string().optional(),
    keyId: z.string().nullable(),
    requestId: z.string().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: 'UsageRecord' });

const usagePage = z.object({
  credits: z.number().meta({ description: 'The available balance.' }),
  balance: z.object({ available: z.number(), reserved: z.number(), total: z.number() }),
  window: z
    .object({
      limit: z.number().nullable(),
      used: z.number(),
      remaining: z.number().nullable(),
      startedAt: z.iso.datetime().nullable(),
      resetAt: z.iso.datetime().nullable(),
    })
    .meta({ description: 'Studio credits in six hours; a `limit` of null is no limit.' }),
  storage: z
    .object({ limit: z.int(), used: z.int(), remaining: z.int() })
    .meta({ description: 'Bytes of uploaded files; what open upload URLs admit is used.' }),
  usage: z.array(usageRecord),
  hasMore: z.boolean(),
  nextCursor: z.string().nullable(),
});

/** Keys: list, create, rotate, revoke; usage. */
export const accountOperations: readonly Operation[] = [
  {
    method: 'get',
    path: '/api/v1/api-keys',
    id: 'listApiKeys',
    tag: keysTag,
    summary: 'List your API keys, newest first',
    scope: 'keys:read',
    answers: answered('The keys that are not revoked.', z.object({ keys: z.array(keyMeta) })),
    errors: [],
  },
  {
    method: 'post',
    path: '/api/v1/api-keys',
    id: 'createApiKey',
    tag: keysTag,
    summary: 'Create an API key',
    description:
      'At most 10 per user. A key grants no more than the key that makes it: scopes, models and ' +
      'expiry that are not given are taken from it. With an Idempotency-Key a repeat makes no second ' +
      'key; it is told the id of the first.',
    scope: 'keys:write',
    headers: z.object(idempotencyHeader),
    body: {
      required: true,
      content: { 'application/json': { schema: createRequest, example: { name: 'my laptop' } } },
    },
    answers: answered('The key. It is shown once.', newKey),
    errors: [
      'INVALID_REQUEST',
      'KEY_QUOTA_REACHED',
      'KEY_ALREADY_CREATED',
      'IDEMPOTENCY_KEY_REUSED',
      'PAYLOAD_TOO_LARGE',
      'UNSUPPORTED_MEDIA_TYPE',
    ],
  },
  {
    method: 'post',
    path: '/api/v1/api-keys/{keyId}/rotate',
    id: 'rotateApiKey',
    tag: keysTag,
    summary: 'Replace an API key',
    description:
      'A new key with the same name and rights. The old one works on for the overlap, a day unless told.',
    scope: 'keys:write',
    params,
    body: {
      required: false,
      content: { 'application/json': { schema: rotateRequest, example: { overlapSeconds: 3600 } } },
    },
    answers: answered(
      'The new key. It is shown once.',
      newKey.extend({ replaced: z.object({ keyId: z.string(), expiresAt: unixMs }) }),
    ),
    errors: [
      'INVALID_REQUEST',
      'KEY_QUOTA_REACHED',
      'NOT_FOUND',
      'KEY_ALREADY_REPLACED',
      'PAYLOAD_TOO_LARGE',
      'UNSUPPORTED_MEDIA_TYPE',
    ],
  },
  {
    method: 'delete',
    path: '/api/v1/api-keys/{keyId}',
    id: 'revokeApiKey',
    tag: keysTag,
    summary: 'Revoke an API key, at once',
    scope: 'keys:write',
    params,
    answers: answered('It is revoked.', z.object({ success: z.literal(true), keyId: z.string() })),
    errors: ['NOT_FOUND'],
  },
  {
    method: 'get',
    path: '/api/v1/usage',
    id: 'getUsage',
    tag: 'Usage',
    summary: 'Balance, window and usage records, newest first',
    scope: 'usage:read',
    query: usageQuery,
    answers: answered('A page of records.', usagePage),
    errors: ['INVALID_REQUEST'],
  },
];
