/**
 * MCP tools: one for each Studio capability, and some endpoints on jobs and models, with the
 * schemas of the endpoints. A tool calls the HTTP API with the caller's key, so it has the same
 * permissions, limits and responses as its endpoint (docs/mcp.md).
 */
import type { IncomingMessage } from 'node:http';
import { ErrorCode, McpError, ToolSchema, type Tool } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { scopeOf } from '../../studio/capability.ts';
import { capabilities, findCapability } from '../../studio/registry.ts';
import type { Caller, Scope } from '../identity/access.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';
import { studioJobs } from '../endpoints/studio-jobs.ts';
import { studioModels } from '../endpoints/studio-models.ts';
import { uploadUrls } from '../endpoints/upload-urls.ts';

type Arguments = Record<string, unknown>;

/** Tool, and the API request that a call of the tool sends. */
interface OfferedTool {
  tool: Tool;
  scope: Scope;
  call: (input: Arguments) => OwnCall;
  /**
   * Shortens the body of a successful response, because models read all of it; absent: the body as
   * it is.
   */
  present?: (body: unknown) => unknown;
}

const inputSchema = (schema: z.ZodType): Tool['inputSchema'] => {
  const described = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return ToolSchema.shape.inputSchema.parse({ ...described, type: 'object' });
};

const capabilityTools: OfferedTool[] = capabilities.map((capability) => ({
  tool: {
    name: capability.type,
    title: capability.summary,
    description:
      `${capability.summary} (${capability.medium}). Costs credits, which are reserved first and ` +
      'charged only on success. Call getStudioModel for the parameters and prices of a model.',
    inputSchema: inputSchema(capability.request),
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
  },
  scope: scopeOf(capability),
  call: (input) => ({
    method: 'POST',
    path: `/api/v1${capability.path}`,
    body: input,
    headers: { prefer: 'respond-async' },
  }),
}));

/** Ids of the endpoints that are offered as tools. */
const offeredIds = new Set([
  'getJob',
  'listJobs',
  'cancelJob',
  'listStudioVoices',
  'createUploadUrl',
]);

const endpointTools: OfferedTool[] = [...studioJobs, ...studioModels, ...uploadUrls]
  .filter(({ id }) => id !== undefined && offeredIds.has(id))
  .map(toolOf);

/**
 * Makes the tool of an endpoint; its arguments are the fields of the body, or the path and query
 * parameters.
 */
function toolOf(endpoint: Endpoint): OfferedTool {
  const { id = '', summary = '', description, method, path, request, scope } = endpoint;
  const pathNames = Object.keys(request.params?.shape ?? {});
  const shape = { ...request.params?.shape, ...request.query?.shape };
  return {
    tool: {
      name: id,
      title: summary,
      description: [summary, description].filter(Boolean).join('. '),
      inputSchema: inputSchema(request.body ?? z.strictObject(shape)),
      annotations: {
        readOnlyHint: method === 'GET',
        destructiveHint: method !== 'GET' && !request.body,
        openWorldHint: false,
      },
    },
    // oxlint-disable-next-line no-unsafe-type-assertion -- `offeredIds` names endpoints behind keys only
    scope: scope as Scope,
    call: (input) => {
      if (request.body) return { method, path, body: input };
      const query = Object.entries(input).filter(([name]) => !pathNames.includes(name));
      const filled = path.replaceAll(/:(\w+)/g, (_, name: string) =>
        encodeURIComponent(textOf(input[name] ?? '')),
      );
      checkLength(input);
      return { method, path: withQuery(filled, Object.fromEntries(query)) };
    },
  };
}

/**
 * Highest number of characters of all arguments that are sent in a URL, because servers reject
 * longer URLs.
 */
const argumentsMax = 4000;

/**
 * Checks that arguments fit into a URL.
 * @throws McpError InvalidParams naming the longest argument
 */
function checkLength(input: Arguments): void {
  const texts = Object.entries(input).map(([name, value]) => ({ name, text: textOf(value) }));
  const length = texts.reduce((sum, { name, text }) => sum + name.length + text.length, 0);
  if (length <= argumentsMax) return;
  const [longest] = texts.toSorted((one, other) => other.text.length - one.text.length);
  const message = `${longest?.name.slice(0, 40)}: all arguments together must be at most ${argumentsMax} characters (received ${length})`;
  throw new McpError(ErrorCode.InvalidParams, message);
}

/** Adds arguments to a path as its query. */
function withQuery(path: string, input: Arguments): string {
  const texts = Object.entries(input).map(([name, value]): [string, string] => [
    name,
    textOf(value),
  ]);
  const query = new URLSearchParams(texts).toString();
  return query === '' ? path : `${path}?${query}`;
}

/** Converts an argument to text; the endpoint rejects a value of the wrong type. */
const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value);

const publishedModels = z.object({
  data: z.array(
    z.looseObject({
      type: z.string(),
      defaultModel: z.string().nullable(),
      models: z.array(
        z.looseObject({
          id: z.string(),
          displayName: z.string(),
          example: z.looseObject({ credits: z.number() }),
        }),
      ),
    }),
  ),
});

/** Makes the request of a tool that reads models. */
function modelsCall(input: Arguments): OwnCall {
  checkLength(input);
  return { method: 'GET', path: withQuery('/api/v1/studio/models', input) };
}

/**
 * Tools that list all models briefly, and describe one model in full. Both read the same endpoint.
 */
const modelTools: OfferedTool[] = [
  {
    tool: {
      name: 'listStudioModels',
      title: 'List the models of every Studio tool',
      description:
        'List the models of every Studio tool, with the credits of an example request. ' +
        'getStudioModel has the parameters and prices of one model.',
      inputSchema: inputSchema(z.strictObject({})),
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    scope: 'studio:read',
    call: modelsCall,
    present: (body) => ({
      data: publishedModels.parse(body).data.map(({ type: tool, defaultModel, models }) => ({
        tool,
        defaultModel,
        models: models.map(({ id, displayName, example }) => ({
          id,
          displayName,
          exampleCredits: example.credits,
        })),
      })),
    }),
  },
  {
    tool: {
      name: 'getStudioModel',
      title: 'Describe a model of a Studio tool',
      description: 'Get the parameters that a model accepts, its price rules and an example price.',
      inputSchema: inputSchema(
        z.strictObject({
          tool: z.enum(capabilities.map(({ type }) => type)),
          model: z.string().max(100).optional().meta({ description: 'Absent: all its models.' }),
        }),
      ),
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    scope: 'studio:read',
    call: ({ tool, ...rest }) => modelsCall({ type: tool ?? '', ...rest }),
    // The schema of the request is the schema of the tool.
    present: (body) => ({
      data: publishedModels.parse(body).data.map((each) => ({ ...each, request: undefined })),
    }),
  },
];

/**
 * Tool that estimates the price of a request. One tool serves all capabilities, because one for
 * each would double the list.
 */
const estimate: OfferedTool = {
  tool: {
    name: 'estimate',
    title: 'Estimate the cost of a request',
    description:
      'Estimate the credits that a job tool would reserve, item by item. No job is started.',
    inputSchema: inputSchema(
      z.strictObject({
        tool: z.enum(capabilities.map(({ type }) => type)),
        arguments: z.looseObject({}).meta({ description: 'Arguments of that tool.' }),
      }),
    ),
    annotations: { readOnlyHint: true },
  },
  scope: 'studio:read',
  call: ({ tool, arguments: input = {} }) => ({
    method: 'POST',
    path: `/api/v1${findCapability(String(tool))?.path ?? '/studio/nothing'}/estimate`,
    body: input,
  }),
};

const tools: readonly OfferedTool[] = [
  ...capabilityTools,
  estimate,
  ...modelTools,
  ...endpointTools,
];

/** Lists the tools that a key may use. */
export const toolsFor = ({ scopes }: Caller): Tool[] =>
  tools.filter(({ scope }) => scopes.includes(scope)).map(({ tool }) => tool);

/** Finds a tool by its name; the API checks at the call whether the key may use it. */
export const findTool = (name: string): OfferedTool | undefined =>
  tools.find(({ tool }) => tool.name === name);

/** Request for one endpoint of the API. */
interface OwnCall {
  method: string;
  /** Path with the query. */
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Response of the API, success or error. */
export interface OwnAnswer {
  ok: boolean;
  status: number;
  body: unknown;
  /**
   * Id of the job that this request started, or the first request with its Idempotency-Key; null:
   * no job.
   */
  jobId: string | null;
}

/** Function that sends a request to the API of this process. */
export type OwnApi = (call: OwnCall) => Promise<OwnAnswer>;

/**
 * Makes the function that sends requests to the API of this process with the key of an incoming
 * request.
 */
export function ownApiOf(request: IncomingMessage): OwnApi {
  const { localAddress = '127.0.0.1', localPort } = request.socket;
  const host = localAddress.includes(':') ? `[${localAddress}]` : localAddress;
  const authorization = request.headers.authorization ?? '';
  return async ({ method, path, body, headers }) => {
    const response = await fetch(`http://${host}:${localPort}${path}`, {
      method,
      headers: {
        authorization,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      redirect: 'error',
    });
    const { ok, status } = response;
    return { ok, status, body: await response.json(), jobId: response.headers.get('x-job-id') };
  };
}
