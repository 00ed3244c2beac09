/**
 * OpenAPI 3.1 documents, generated from the endpoints and the schemas that validate requests (spec §9), and llms.txt. The
 * webhooks that the service sends are described too.
 */
import { stringify } from 'yaml';
import { z } from 'zod';
import { createDocument } from 'zod-openapi';
import { noticeData } from '../../webhooks/notices.ts';
import { errorTable } from '../../domain/errors.ts';
import { jobSchema } from '../../studio/job-view.ts';
import { errorSchemas } from '../middleware/errors.ts';
import { time } from '../endpoints/fields.ts';
import { type Endpoint, ownAnswer, type AnswerParts } from '../endpoints/endpoint.ts';

/** OpenAPI document as an object, as JSON and as YAML. */
interface OpenApiDocument {
  document: { openapi: '3.1.0' };
  json: string;
  yaml: string;
}

export type Documents = ReturnType<typeof createDocuments>;

/** Makes the documents of these endpoints for an API at `baseUrl`; each document is generated at its first use. */
export function createDocuments(baseUrl: string, endpoints: readonly Endpoint[]) {
  const ofOperators = endpoints.filter(({ scope }) => scope === 'admin');
  const ofCallers = endpoints.filter(({ scope, id }) => scope !== 'admin' && id !== undefined);
  return {
    /** Returns the document of the callers' API. */
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
    /** Returns the document of the operators' API. */
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
    /** Returns llms.txt, a description of the API for language models (llmstxt.org); `prices` are lines of a Markdown list. */
    summary: (prices: readonly string[]) => summaryOf(baseUrl, ofCallers, prices),
  };
}

interface Frame {
  baseUrl: string;
  title: string;
  description: string;
  /** Description of the bearer key. */
  key: string;
  webhooks: Record<string, Record<string, unknown>>;
}

function buildDocument(endpoints: readonly Endpoint[], frame: Frame): OpenApiDocument {
  const { baseUrl, title, description, key, webhooks } = frame;
  const paths: Record<string, Record<string, unknown>> = {};
  for (const endpoint of endpoints) {
    const path = describedPath(endpoint);
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

/** Returns the path of an endpoint in OpenAPI's format: `/api/v1/studio/jobs/{jobId}`. */
export function describedPath({ path }: Pick<Endpoint, 'path'>): string {
  return path.replaceAll(/[:*](\w+)/g, '{$1}');
}

function once<Value>(make: () => Value): () => Value {
  let value: Value | undefined;
  return () => (value ??= make());
}

function summaryOf(
  baseUrl: string,
  endpoints: readonly Endpoint[],
  prices: readonly string[],
): string {
  const lines = endpoints.map(
    (endpoint) => `- ${endpoint.method} ${describedPath(endpoint)}: ${endpoint.summary}`,
  );
  return [
    '# Studio Gateway',
    '',
    '> One API for chat and Studio work (image, video, voice, music, sound effects, transcription).',
    '',
    `Base URL ${baseUrl}. Send \`Authorization: Bearer <API key>\`. Bodies are JSON. Studio responses are`,
    '`{success, data, credits}`, or 202 with `data.statusUrl` to poll until `data.done` is true.',
    `Full description: ${baseUrl}/api/v1/openapi.json`,
    '',
    '## Endpoints',
    '',
    ...lines,
    '',
    '## Prices of the Studio models, in credits',
    '',
    'A path plus `/estimate` takes the same body and returns what it would cost, without starting or charging anything.',
    `Everything, and how to count it: ${baseUrl}/api/v1/pricing`,
    '',
    ...prices,
    '',
  ].join('\n');
}

/** Headers of every response of an endpoint that needs a key (spec §8). */
const rateHeaders = z.object({
  'X-RateLimit-Limit': z.int().meta({ description: 'Requests per minute of this key.' }),
  'X-RateLimit-Remaining': z.int(),
  'X-RateLimit-Reset': z.int().meta({
    description: 'Unix seconds when the oldest request of the last minute stops counting.',
  }),
  'X-Request-Id': z.string(),
});

/** Descriptions of the access to endpoints that need no scope. */
const unscoped = new Map<Endpoint['scope'], string>([
  ['admin', ''],
  ['open', 'No key needed.'],
  ['any', 'Any key may call this endpoint.'],
]);

/** Makes the OpenAPI operation object of an endpoint. */
function describeEndpoint(endpoint: Endpoint): Record<string, unknown> {
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

function requestBodyOf({ request }: Endpoint): Record<string, unknown> {
  const { body, bodyIsOptional, example, content } = request;
  if (!body && !content) return {};
  const json = body && {
    'application/json': { schema: body, ...(example !== undefined && { example }) },
  };
  return { requestBody: { required: !bodyIsOptional, content: { ...json, ...content } } };
}

function describeAnswer({ scope, answer }: Endpoint, parts: AnswerParts): Record<string, unknown> {
  const { description, type = 'application/json', schema = answer, event, headers } = parts;
  return {
    description,
    headers:
      scope === 'admin' || scope === 'open' ? headers : rateHeaders.extend(headers?.shape ?? {}),
    ...(schema !== ownAnswer && {
      content: { [type]: { schema }, ...(event && { 'text/event-stream': { schema: event } }) },
    }),
  };
}

/** Describes the error responses, one per status; each description lists the error codes. */
function describeErrors({ errors, errorShape = 'service' }: Endpoint): Record<string, unknown> {
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

const webhookHeaders = z.object({
  'webhook-id': z
    .string()
    .meta({ description: 'Id that is the same for all attempts of one job or notice.' }),
  'webhook-timestamp': z.string().meta({ description: 'Unix seconds of this attempt.' }),
  'webhook-signature': z.string().meta({
    description: '`v1,` and a base64 HMAC-SHA256; several signatures are separated by spaces.',
  }),
});

interface Described {
  type: string;
  operationId: string;
  summary: string;
  data: z.ZodType;
}

const described: Described[] = [
  ...(['completed', 'failed', 'canceled'] as const).map((status) => ({
    type: `studio.job.${status}`,
    operationId: `${status}JobWebhook`,
    summary: `A job is ${status}`,
    data: jobSchema,
  })),
  {
    type: 'account.balance.low',
    operationId: 'lowBalanceWebhook',
    summary: 'The balance is low',
    data: noticeData['account.balance.low'],
  },
  {
    type: 'key.limit.near',
    operationId: 'nearKeyLimitWebhook',
    summary: '80 % of the limit of a key is used',
    data: noticeData['key.limit.near'],
  },
  {
    type: 'key.limit.reached',
    operationId: 'reachedKeyLimitWebhook',
    summary: 'The limit of a key is reached, or a request was rejected because of it',
    data: noticeData['key.limit.reached'],
  },
];

/** Webhooks to a `webhookUrl` and to the URL of notices, by event type. */
const webhookDescriptions: Record<string, Record<string, unknown>> = Object.fromEntries(
  described.map(({ type, operationId, summary, data }) => {
    const schema = z.object({ type: z.literal(type), timestamp: time, data });
    return [
      type,
      {
        post: {
          operationId,
          tags: ['Webhooks'],
          summary,
          security: [],
          requestParams: { header: webhookHeaders },
          requestBody: { required: true, content: { 'application/json': { schema } } },
          responses: {
            '2XX': { description: 'The webhook was received.' },
            410: { description: 'No more attempts are made.' },
            default: { description: 'The webhook is sent again later.' },
          },
        },
      },
    ];
  }),
);
