/** OpenAPI 3.1 documents, generated from the endpoints and their schemas (spec §9). */
import { stringify } from 'yaml';
import { z } from 'zod';
import { createDocument } from 'zod-openapi';
import { errorTable } from '../../domain/errors.ts';
import { errorSchemas } from '../http/error-bodies.ts';
import {
  toOpenapiPath,
  type AnswerParts,
  type EndpointDescription,
} from '../endpoints/description.ts';
import { makeLlmsText } from './llms-text.ts';
import { webhookDescriptions } from './webhooks.ts';

/** OpenAPI document as an object, as JSON and as YAML. */
interface OpenApiDocument {
  document: { openapi: '3.1.0' };
  json: string;
  yaml: string;
}

export type Documents = ReturnType<typeof createDocuments>;

/** Makes the documents of these endpoints; each is generated at its first use. */
export function createDocuments(baseUrl: string, endpoints: readonly EndpointDescription[]) {
  const ofOperators = endpoints.filter(({ scope }) => scope === 'admin');
  const ofCallers = endpoints.filter(({ scope, id }) => scope !== 'admin' && id !== undefined);
  return {
    callers: once(() =>
      buildDocument(ofCallers, {
        baseUrl,
        title: 'Studio Gateway',
        description:
          'One API for chat and for Studio work: image, video, voice, music, sound effects, transcription. ' +
          'Studio work is paid in credits that are reserved before the job starts and charged only on success.',
        key: 'An API key: `gk_live_…`',
        webhooks: webhookDescriptions,
      }),
    ),
    operators: once(() =>
      buildDocument(ofOperators, {
        baseUrl,
        title: 'Studio Gateway: operators',
        description:
          'Endpoints for operators. Every write names its actor and reason, and is recorded.',
        key: 'The key of an operator, `gk_oper_…`, or the `ADMIN_API_KEY` of the deployment.',
        webhooks: {},
      }),
    ),
    summary: (prices: readonly string[]) => makeLlmsText(baseUrl, ofCallers, prices),
  };
}

interface Frame {
  baseUrl: string;
  title: string;
  description: string;
  key: string;
  webhooks: Record<string, Record<string, unknown>>;
}

function buildDocument(endpoints: readonly EndpointDescription[], frame: Frame): OpenApiDocument {
  const { baseUrl, title, description, key, webhooks } = frame;
  const paths: Record<string, Record<string, unknown>> = {};
  for (const endpoint of endpoints) {
    const path = toOpenapiPath(endpoint);
    paths[path] = {
      ...paths[path],
      [endpoint.method.toLowerCase()]: describeEndpoint(endpoint),
    };
  }
  const document = createDocument({
    openapi: '3.1.0',
    info: { title, version: '1.0.0', license: { name: 'MIT', identifier: 'MIT' }, description },
    servers: [{ url: baseUrl }],
    security: [{ apiKey: [] }],
    components: {
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', description: key } },
    },
    paths,
    webhooks,
  });
  return {
    document: { ...document, openapi: '3.1.0' },
    json: JSON.stringify(document),
    yaml: stringify(document),
  };
}

function once<Value>(make: () => Value): () => Value {
  let value: Value | undefined;
  return () => (value ??= make());
}

/** Headers of every response of an endpoint that needs a key (spec §8). */
const rateHeaders = z.object({
  'X-RateLimit-Limit': z.int().meta({ description: 'Requests per minute of this key.' }),
  'X-RateLimit-Remaining': z.int(),
  'X-RateLimit-Reset': z.int().meta({
    description: 'Unix seconds when the current minute of the rate limit ends.',
  }),
  'X-Request-Id': z.string(),
});

/** Descriptions of the access to endpoints that need no scope. */
const unscoped = new Map<EndpointDescription['scope'], string>([
  ['admin', ''],
  ['open', 'No key needed.'],
  ['any', 'Any key may call this endpoint.'],
]);

/** Makes the OpenAPI operation object of an endpoint. */
function describeEndpoint(endpoint: EndpointDescription): Record<string, unknown> {
  const { id, tag, summary, scope, request, answers } = endpoint;
  const access = unscoped.get(scope) ?? `Scope: \`${scope}\`.`;
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(scope === 'open' && { security: [] }),
    description: [endpoint.description, access].filter(Boolean).join('\n\n'),
    requestParams: {
      ...(request.params && { path: request.params }),
      ...(request.query && { query: request.query }),
      ...(request.headers && { header: request.headers }),
    },
    ...requestBodyOf(endpoint),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, parts]) => [status, describeAnswer(endpoint, parts)]),
      ),
      ...describeErrors(endpoint),
    },
  };
}

function requestBodyOf({ request }: EndpointDescription): Record<string, unknown> {
  const { body, bodyIsOptional, example, content } = request;
  if (!body && !content) return {};
  const json = body && {
    'application/json': { schema: body, ...(example !== undefined && { example }) },
  };
  return { requestBody: { required: !bodyIsOptional, content: { ...json, ...content } } };
}

function describeAnswer(
  { scope, answer }: EndpointDescription,
  parts: AnswerParts,
): Record<string, unknown> {
  const { description, type = 'application/json', schema = answer, event, headers } = parts;
  return {
    description,
    headers:
      scope === 'admin' || scope === 'open' ? headers : rateHeaders.extend(headers?.shape ?? {}),
    ...(!(schema instanceof z.ZodVoid) && {
      content: { [type]: { schema }, ...(event && { 'text/event-stream': { schema: event } }) },
    }),
  };
}

/** Describes the error responses, one per status; each description lists the error codes. */
function describeErrors({
  errors,
  errorShape = 'service',
}: EndpointDescription): Record<string, unknown> {
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
