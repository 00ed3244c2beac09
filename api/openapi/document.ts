/** Generates the descriptions of the API from the endpoints and their schemas (spec §9). */
import {
  isBodyOptional,
  toOpenapiPath,
  type EndpointDescription,
  type ResponseDescription,
} from '../endpoints/description.ts';
import { z } from 'zod';
import { stringify } from 'yaml';
import { createDocument } from 'zod-openapi';
import { errorTable } from '../../domain/errors.ts';
import { errorSchemas, getStatus } from '../../domain/error-bodies.ts';
import { renderForGenerators } from './generator-document.ts';
import { webhookDescriptions } from './webhook-description.ts';

/** Returns the text of llms.txt. `prices` are lines of a Markdown list. */
function buildLlmsText(
  { baseUrl, prices }: DescriptionValues,
  endpoints: readonly EndpointDescription[],
): string {
  const lines = endpoints.map(
    (endpoint) => `- ${endpoint.method} ${toOpenapiPath(endpoint)}: ${endpoint.summary}`,
  );
  return [
    '# Studio Gateway',
    '',
    '> One API for chat and Studio jobs (image, video, voice, music, sound effects, transcription).',
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
    'Each Studio path has an estimate: append `/estimate` and send the same body. It returns the price, and starts and charges nothing.',
    `All prices and their units: ${baseUrl}/api/v1/pricing`,
    '',
    ...prices,
    '',
  ].join('\n');
}

/** Values in the descriptions of the API that differ between deployments. */
export interface DescriptionValues {
  baseUrl: string;
  /** Lines of a Markdown list for llms.txt. */
  prices: readonly string[];
}

export type Descriptions = ReturnType<typeof createDescriptions>;

/** Creates all descriptions of the API as texts, which takes up to a second. */
export function createDescriptions(
  values: DescriptionValues,
  endpoints: readonly EndpointDescription[],
) {
  const { baseUrl } = values;
  const operatorEndpoints = endpoints.filter(({ scope }) => scope === 'admin');
  const callerEndpoints = endpoints.filter(
    ({ scope, id }) => scope !== 'admin' && id !== undefined,
  );
  const callers = buildDocument(callerEndpoints, {
    baseUrl,
    title: 'Studio Gateway',
    description:
      'One API for chat and for Studio jobs: image, video, voice, music, sound effects, transcription. ' +
      'A Studio job reserves credits before it starts, and is charged only if it succeeds.',
    key: 'An API key: `gk_live_…`',
    webhooks: webhookDescriptions,
  });
  return {
    callers,
    /** The callers' API as OpenAPI 3.0, for programs that generate clients. */
    generators: renderForGenerators(callers),
    yaml: stringify(JSON.parse(callers)),
    operators: buildDocument(operatorEndpoints, {
      baseUrl,
      title: 'Studio Gateway: operators',
      description:
        'Endpoints for operators. Every request that changes something names its actor and its reason, and is recorded.',
      key: 'The key of an operator, `gk_oper_…`, or the `ADMIN_API_KEY` of the deployment.',
      webhooks: {},
    }),
    llms: buildLlmsText(values, callerEndpoints),
  };
}

interface DocumentInfo {
  baseUrl: string;
  title: string;
  description: string;
  /** Description of the API key. */
  key: string;
  webhooks: Record<string, Record<string, unknown>>;
}

function buildDocument(endpoints: readonly EndpointDescription[], info: DocumentInfo): string {
  const { baseUrl, title, description, key, webhooks } = info;
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
  return JSON.stringify(document);
}

/** Headers of every response of an endpoint that requires an API key (spec §8). */
const rateHeaders = z.object({
  'X-RateLimit-Limit': z.int().meta({ description: 'Maximum number of requests per minute.' }),
  'X-RateLimit-Remaining': z
    .int()
    .meta({ description: 'Remaining requests in the current minute.' }),
  'X-RateLimit-Reset': z.int().meta({
    description: 'Unix time in seconds at which the current minute of the rate limit ends.',
  }),
  'X-Request-Id': z.string(),
});

/** Description of who may call an endpoint, for endpoints that require no specific scope. */
const accessTexts = new Map<EndpointDescription['scope'], string>([
  ['admin', ''],
  ['open', 'No key required.'],
  ['any', 'Any key may call this endpoint.'],
  ['studio:*', 'Scope: `studio:image`, `studio:video` or `studio:audio`, as each step requires.'],
  [
    'bulk:*',
    'Scope: `chat`, `studio:image`, `studio:video` or `studio:audio`, as each item requires.',
  ],
]);

/** Builds the OpenAPI operation object of an endpoint. */
function describeEndpoint(endpoint: EndpointDescription): Record<string, unknown> {
  const { id, tag, summary, scope, request, responses } = endpoint;
  const access = accessTexts.get(scope) ?? `Scope: \`${scope}\`.`;
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
    ...describeRequestBody(endpoint),
    responses: {
      ...Object.fromEntries(
        Object.entries(responses).map(([status, parts]) => [
          status,
          describeResponse(endpoint, parts),
        ]),
      ),
      ...describeErrors(endpoint),
    },
  };
}

function describeRequestBody({ request }: EndpointDescription): Record<string, unknown> {
  const { body, example, content } = request;
  if (!body && !content) return {};
  const json = body && {
    'application/json': { schema: body, ...(example !== undefined && { example }) },
  };
  return { requestBody: { required: !isBodyOptional(request), content: { ...json, ...content } } };
}

function describeResponse(
  { scope, response }: EndpointDescription,
  parts: ResponseDescription,
): Record<string, unknown> {
  const {
    description,
    type = 'application/json',
    schema = response,
    event,
    textTypes = [],
    headers,
  } = parts;
  return {
    description,
    headers:
      scope === 'admin' || scope === 'open' ? headers : rateHeaders.extend(headers?.shape ?? {}),
    ...(!(schema instanceof z.ZodVoid) && {
      content: {
        [type]: { schema },
        ...(event && { 'text/event-stream': { schema: event } }),
        ...Object.fromEntries(textTypes.map((text) => [text, { schema: z.string() }])),
      },
    }),
  };
}

/** Describes the error responses of an endpoint: one per status, which lists its error codes. */
function describeErrors({
  errors,
  errorFormat = 'service',
}: EndpointDescription): Record<string, unknown> {
  const byStatus = Map.groupBy(errors, (code) => getStatus(code, errorFormat));
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      String(status),
      {
        description: codes.map((code) => `\`${code}\`: ${errorTable[code].message}`).join('\n\n'),
        ...(codes.some((code) => errorTable[code].retryable) && {
          headers: z.object({ 'Retry-After': z.int().optional() }),
        }),
        content: { 'application/json': { schema: errorSchemas[errorFormat] } },
      },
    ]),
  );
}
