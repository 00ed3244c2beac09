/** An operation in OpenAPI's words. */
import { z } from 'zod';
import { errorTable } from '../../domain/errors.ts';
import { errorSchemas } from '../middleware/errors.ts';
import { ownAnswer, type AnswerParts, type Operation } from '../operations/operation.ts';

/** Headers of every answer behind a key (spec §8). */
const rateHeaders = z.object({
  'X-RateLimit-Limit': z.int().meta({ description: 'Requests per minute of this key.' }),
  'X-RateLimit-Remaining': z.int(),
  'X-RateLimit-Reset': z.int().meta({
    description: 'Unix seconds when the oldest request of the last minute stops counting.',
  }),
  'X-Request-Id': z.string(),
});

/** What is said of operations that no scope opens. */
const unscoped = new Map<Operation['scope'], string>([
  ['admin', ''],
  ['open', 'No key needed.'],
  ['any', 'Any key may ask.'],
]);

/** The operation as the document has it. */
export function describeOperation(operation: Operation): Record<string, unknown> {
  const { id, tag, summary, scope, request, answers } = operation;
  const needed = unscoped.get(scope) ?? `Scope: \`${scope}\`.`;
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(scope === 'open' && { security: [] }),
    description: [operation.description, needed].filter(Boolean).join('\n\n'),
    requestParams: {
      ...(request.params && { path: request.params }),
      ...(request.query && { query: request.query }),
      ...(request.headers && { header: request.headers }),
    },
    ...requestBodyOf(operation),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, told]) => [status, describeAnswer(operation, told)]),
      ),
      ...describeErrors(operation),
    },
  };
}

function requestBodyOf({ request }: Operation): Record<string, unknown> {
  const { body, bodyIsOptional, example, content } = request;
  if (!body && !content) return {};
  const json = body && {
    'application/json': { schema: body, ...(example !== undefined && { example }) },
  };
  return { requestBody: { required: !bodyIsOptional, content: { ...json, ...content } } };
}

function describeAnswer({ scope, answer }: Operation, told: AnswerParts): Record<string, unknown> {
  const { description, type = 'application/json', schema = answer, event, headers } = told;
  return {
    description,
    headers:
      scope === 'admin' || scope === 'open' ? headers : rateHeaders.extend(headers?.shape ?? {}),
    ...(schema !== ownAnswer && {
      content: { [type]: { schema }, ...(event && { 'text/event-stream': { schema: event } }) },
    }),
  };
}

/** One answer per status; its description names the codes. */
function describeErrors({ errors, errorShape = 'service' }: Operation): Record<string, unknown> {
  const byStatus = Map.groupBy(errors, (code) => errorTable[code].status);
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
        content: { 'application/json': { schema: errorSchemas[errorShape] } },
      },
    ]),
  );
}
