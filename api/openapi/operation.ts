/** One operation of the API as it is described; the description is made from the validating schemas. */
import { z } from 'zod';
import type { ZodOpenApiObject } from 'zod-openapi';
import { errorTable, type ErrorCode } from '../../domain/errors.ts';
import type { Scope } from '../identity/access.ts';

/** What an answer holds. */
export interface AnswerDescription {
  description: string;
  /** Absent for an answer without a body. */
  content?: { type: string; schema: z.ZodType; example?: unknown };
  /** One event of the same answer as a stream of server-sent events, where it can be one. */
  event?: z.ZodType;
  headers?: z.ZodObject;
}

/** An operation. */
export interface Operation {
  method: 'get' | 'post' | 'put' | 'delete';
  /** As in OpenAPI: `/api/v1/studio/jobs/{jobId}`. */
  path: string;
  id: string;
  tag: string;
  summary: string;
  description?: string;
  /** Key scope; `null` for operations that need no key. */
  scope: Scope | null;
  params?: z.ZodObject;
  query?: z.ZodObject;
  headers?: z.ZodObject;
  body?: {
    required: boolean;
    content: Record<string, { schema: z.ZodType; example?: unknown }>;
  };
  answers: Record<string, AnswerDescription>;
  /** Codes beside those that every operation with a key can answer. */
  errors: readonly ErrorCode[];
}

const errorDetail = z.object({ path: z.string(), message: z.string() });

/** The error object (spec §2.1, design §7). */
const errorSchema = z
  .looseObject({
    error: z.string(),
    message: z.string().optional(),
    requestId: z.string().optional(),
    details: z.array(errorDetail).optional(),
  })
  .meta({ id: 'Error', description: 'Machine-readable code, detail for people, fields at fault.' });

/** Headers of every answer behind a key (spec §8). */
const rateHeaders = z.object({
  'X-RateLimit-Limit': z.int().meta({ description: 'Requests per minute of this key.' }),
  'X-RateLimit-Remaining': z.int(),
  'X-RateLimit-Reset': z.int().meta({ description: 'Unix seconds when the minute ends.' }),
  'X-Request-Id': z.string(),
});

/** Every operation with a key can be refused so. */
const keyedErrors: readonly ErrorCode[] = [
  'Unauthorized',
  'FORBIDDEN',
  'Rate limit exceeded. Please slow down.',
  'Internal server error',
  'SERVICE_UNAVAILABLE',
];

/** The operation in OpenAPI's words. */
export function describeOperation(operation: Operation): Record<string, unknown> {
  const { scope } = operation;
  const described = {
    operationId: operation.id,
    tags: [operation.tag],
    summary: operation.summary,
    description: [operation.description, scope === null ? '' : `Scope: \`${scope}\`.`]
      .filter(Boolean)
      .join('\n\n'),
    ...(scope === null && { security: [] }),
    requestParams: {
      ...(operation.params && { path: operation.params }),
      ...(operation.query && { query: operation.query }),
      ...(operation.headers && { header: operation.headers }),
    },
    ...(operation.body && { requestBody: operation.body }),
    responses: { ...describeAnswers(operation), ...describeErrors(operation) },
  };
  return described;
}

function describeAnswers(operation: Operation): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(operation.answers).map(([status, answer]) => [
      status,
      {
        description: answer.description,
        headers:
          operation.scope === null
            ? answer.headers
            : rateHeaders.extend(answer.headers?.shape ?? {}),
        ...(answer.content && {
          content: {
            [answer.content.type]: {
              schema: answer.content.schema,
              ...(answer.content.example !== undefined && { example: answer.content.example }),
            },
            ...(answer.event && { 'text/event-stream': { schema: answer.event } }),
          },
        }),
      },
    ]),
  );
}

/** One answer per status; its description names the codes. */
function describeErrors(operation: Operation): Record<string, unknown> {
  const codes = new Set([...(operation.scope === null ? [] : keyedErrors), ...operation.errors]);
  const byStatus = Map.groupBy(codes, (code) => errorTable[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, ofStatus]) => [
      String(status),
      {
        description: ofStatus
          .map((code) => `\`${code}\`: ${errorTable[code].message}`)
          .join('\n\n'),
        ...(ofStatus.some((code) => errorTable[code].retryable) && {
          headers: z.object({ 'Retry-After': z.int().optional() }),
        }),
        content: { 'application/json': { schema: errorSchema } },
      },
    ]),
  );
}

/** Everything that makes up the document, see document.ts. */
export type DocumentPaths = NonNullable<ZodOpenApiObject['paths']>;
