/** Tools of the MCP server. A tool is a request to an endpoint of the API. */
import { ErrorCode, McpError, ToolSchema, type Tool } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { isRecord } from '../../domain/json.ts';
import { hasScope, type Caller, type RequiredScope, type Scope } from '../../identity/access.ts';
import type { ApiRequest } from './mcp-server.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';
import { bulkJobs, bulkRequest } from '../endpoints/bulk-jobs.ts';
import { bulkBody } from '../endpoints/bulk-requests.ts';
import { jobRequest, studioJobs } from '../endpoints/studio-jobs.ts';
import { studioModels, capabilitySchema } from '../endpoints/studio-models.ts';
import { uploadUrls } from '../endpoints/upload-urls.ts';
import { capabilities } from '../../studio/capabilities/capability-registry.ts';
import { findCapability, jobKinds } from '../../studio/pipelines/job-kinds.ts';
import { pipelines, stepId } from '../../studio/pipelines/pipeline-requests.ts';
import { itemChoice } from '../../bulk/bulk-decisions.ts';
import { approvalFields } from '../../studio/requests/decisions.ts';
import { listSchema } from '../endpoints/fields.ts';
import { getRequiredScope } from '../../studio/capabilities/capability.ts';
import { recipeFields } from '../../studio/requests/recipe-versions.ts';
import { resumeRequest } from '../../studio/pipelines/resume.ts';

/** Arguments of a tool call. */
export type Arguments = Record<string, unknown>;

/** MCP tool, with the function that builds the API request for a call of the tool. */
export interface McpTool {
  tool: Tool;
  scope: RequiredScope;
  /** Builds the API request for the arguments of a call. */
  toApiRequest: (input: Arguments) => ApiRequest;
  /** Argument that is an object in which null has a meaning. */
  nullsIn?: string;
  /** Shortens the body of a successful response, because language models read all of it. */
  present?: (body: unknown) => unknown;
}

/** Converts a zod schema to the JSON schema of a tool's arguments. */
const toInputSchema = (schema: z.ZodType): Tool['inputSchema'] => {
  const jsonSchema = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return ToolSchema.shape.inputSchema.parse({ ...jsonSchema, type: 'object' });
};

/** Maximum total length of arguments that are sent in a URL, in characters. */
const urlArgumentsMax = 4000;

/** Checks that arguments fit into a URL. @throws McpError InvalidParams */
function checkLength(input: Arguments): void {
  const texts = Object.entries(input).map(([name, value]) => ({ name, text: toText(value) }));
  const length = texts.reduce((sum, { name, text }) => sum + name.length + text.length, 0);
  if (length <= urlArgumentsMax) return;
  const [longest] = texts.toSorted((one, other) => other.text.length - one.text.length);
  const message = `The arguments must have at most ${urlArgumentsMax} characters in total (received ${length}; the longest is ${longest?.name.slice(0, 40)}).`;
  throw new McpError(ErrorCode.InvalidParams, message);
}

/** Appends arguments to a path as its query string; fields of an object as `name[field]`. */
function appendQuery(path: string, input: Arguments): string {
  const texts = Object.entries(input).flatMap(([name, value]): [string, string][] =>
    isRecord(value)
      ? Object.entries(value).map(([field, part]) => [`${name}[${field}]`, toText(part)])
      : [[name, toText(value)]],
  );
  const query = new URLSearchParams(texts).toString();
  return query === '' ? path : `${path}?${query}`;
}

/** Converts an argument to text; the endpoint rejects a value of the wrong type. */
const toText = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value);

/**
 * Replaces the names in a path by arguments. `inUrl` are the names of the arguments that the URL
 * contains. @throws McpError InvalidParams if these are too long
 */
function fillPath(path: string, input: Arguments, inUrl: readonly string[]): string {
  checkLength(Object.fromEntries(inUrl.map((name) => [name, input[name] ?? ''])));
  return path.replaceAll(/:(\w+)/g, (_, name: string) =>
    encodeURIComponent(toText(input[name] ?? '')),
  );
}

/** Ids of the endpoints that are available as tools. */
const endpointIds = new Set([
  'getJob',
  'listJobs',
  'cancelJob',
  'getBulk',
  'listBulkItems',
  'listStudioVoices',
  'createUploadUrl',
]);

/** Tools for jobs, voices and uploads. */
const endpointTools: McpTool[] = [...studioJobs, ...bulkJobs, ...studioModels, ...uploadUrls]
  .filter(({ id }) => id !== undefined && endpointIds.has(id))
  .map(buildTool);

/** Builds the tool of an endpoint: its arguments are the body's fields, or else the parameters. */
function buildTool(endpoint: Endpoint): McpTool {
  const { id = '', summary = '', description, method, path, request, scope } = endpoint;
  const pathNames = Object.keys(request.params?.shape ?? {});
  const argumentFields = { ...request.params?.shape, ...request.query?.shape };
  return {
    tool: {
      name: id,
      title: summary,
      description: [summary, description].filter(Boolean).join('. '),
      inputSchema: toInputSchema(request.body ?? z.strictObject(argumentFields)),
      annotations: {
        readOnlyHint: method === 'GET',
        destructiveHint: method !== 'GET' && !request.body,
        openWorldHint: false,
      },
    },
    // oxlint-disable-next-line no-unsafe-type-assertion -- all endpoints in `endpointIds` require a scope
    scope: scope as Scope,
    toApiRequest: (input) => {
      if (request.body) return { method, path, body: input };
      // An invalid id such as `events` could be the path of another endpoint.
      const problem = request.params?.safeParse(input).error?.issues[0];
      if (problem) throw new McpError(ErrorCode.InvalidParams, problem.message);
      const query = Object.entries(input).filter(([name]) => !pathNames.includes(name));
      const filled = fillPath(path, input, Object.keys(input));
      return { method, path: appendQuery(filled, Object.fromEntries(query)) };
    },
  };
}

const publishedModels = listSchema(capabilitySchema);

function buildModelsRequest(input: Arguments): ApiRequest {
  checkLength(input);
  return { method: 'GET', path: appendQuery('/api/v1/studio/models', input) };
}

/**
 * MCP tools that call GET /api/v1/studio/models. `listStudioModels` lists all models briefly;
 * `getStudioModel` describes one model fully.
 */
const modelTools: McpTool[] = [
  {
    tool: {
      name: 'listStudioModels',
      title: 'List the models of every Studio tool',
      description:
        'List the models of every Studio tool, with the price of an example request in credits. ' +
        'Call getStudioModel for the parameters and prices of one model.',
      inputSchema: toInputSchema(z.strictObject({})),
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    scope: 'studio:read',
    toApiRequest: buildModelsRequest,
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
      inputSchema: toInputSchema(
        z.strictObject({
          tool: z.enum(capabilities.map(({ type }) => type)),
          model: z
            .string()
            .max(100)
            .optional()
            .meta({ description: 'Id of the model. Omit to describe all models of the tool.' }),
        }),
      ),
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    scope: 'studio:read',
    toApiRequest: ({ tool, ...rest }) => buildModelsRequest({ type: tool ?? '', ...rest }),
    // The request schema is omitted, because it is already the input schema of the tool.
    present: (body) => ({
      data: publishedModels.parse(body).data.map((capability) => ({
        ...capability,
        request: undefined,
      })),
    }),
  },
];

/** Adds the field `recipe`, which only the API's own endpoints parse, to the arguments of a tool. */
const addRecipe = ({ properties, ...schema }: Tool['inputSchema']): Tool['inputSchema'] => ({
  ...schema,
  properties: { ...properties, ...toInputSchema(z.object(recipeFields)).properties },
});

const capabilityTools: McpTool[] = jobKinds.map((capability) => ({
  tool: {
    name: capability.type,
    title: capability.summary,
    description:
      `${capability.summary} (${capability.medium}). Costs credits, which are reserved first and ` +
      'charged only on success. Call getStudioModel for the parameters and prices of a model.',
    inputSchema: addRecipe(toInputSchema(capability.describedRequest ?? capability.request)),
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
  },
  scope: getRequiredScope(capability),
  toApiRequest: (input) => ({
    method: 'POST',
    path: `/api/v1${capability.path}`,
    body: input,
    headers: { prefer: 'respond-async' },
  }),
}));

/** MCP tool that estimates the price of a call to another tool. */
const estimate: McpTool = {
  tool: {
    name: 'estimate',
    title: 'Estimate the cost of a request',
    description:
      'Estimate how many credits a call of another tool would reserve, item by item. No job is started.',
    inputSchema: toInputSchema(
      z.strictObject({
        tool: z.enum(jobKinds.map(({ type }) => type)),
        arguments: z
          .looseObject({})
          .meta({ description: 'Arguments for the tool named in `tool`.' }),
      }),
    ),
    annotations: { readOnlyHint: true },
  },
  scope: 'studio:read',
  toApiRequest: ({ tool, arguments: input = {} }) => ({
    method: 'POST',
    path: `/api/v1${findCapability(String(tool))?.path ?? '/studio/nothing'}/estimate`,
    body: input,
  }),
};

/** MCP tool that starts a bulk job. The API checks the scope that each item needs. */
const startBulk: McpTool = {
  tool: {
    name: 'startBulk',
    title: 'Start a bulk job',
    description:
      'Start many requests as one bulk job with a budget: items with `use` (such as image/generate or chat) and `body`. ' +
      'Set `maxCredits`. Call getBulk to follow it.',
    inputSchema: toInputSchema(bulkBody),
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
  },
  scope: 'bulk:*',
  toApiRequest: (input) => ({ method: 'POST', path: '/api/v1/studio/bulk', body: input }),
};

/** MCP tool that resumes a pipeline. The API checks the scope that each step needs. */
const resume: McpTool = {
  tool: {
    name: 'resumePipeline',
    title: 'Resume a pipeline',
    description:
      'Start a new job that takes over what the steps of an ended pipeline delivered, at the price 0, and runs the others. ' +
      'With `from`, that step and all that depend on it run again.',
    inputSchema: toInputSchema(jobRequest.params.extend(resumeRequest.shape)),
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
  },
  scope: getRequiredScope(pipelines),
  toApiRequest({ jobId, ...input }) {
    checkLength({ jobId });
    return {
      method: 'POST',
      path: `/api/v1/studio/jobs/${encodeURIComponent(String(jobId))}/resume`,
      body: input,
      headers: { prefer: 'respond-async' },
    };
  },
};

/**
 * Creates an MCP tool that decides about steps of pipelines: with the fields of a decision, others, and
 * the ids of its path. The API checks the scope that each step needs.
 */
function createDecisionTool(
  { name, title, waiting }: { name: string; title: string; waiting: string },
  fields: z.ZodRawShape,
  path: string,
): McpTool {
  const description =
    `Decide about ${waiting}. \`approve\` spends the credits that are shown there, with the chosen \`outputs\` ` +
    'or a changed `body`; ask the user first. `reject` skips the step and all that follow it.';
  const schema = z.object({
    ...fields,
    decision: z.enum(['approve', 'reject']),
    ...approvalFields,
    reason: z.string().optional(),
  });
  const ids = [...path.matchAll(/:(\w+)/g)].map(([, id = '']) => id);
  return {
    tool: {
      name,
      title,
      description,
      inputSchema: toInputSchema(schema),
      annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: true },
    },
    nullsIn: 'body',
    scope: getRequiredScope(pipelines),
    toApiRequest(input) {
      const body = Object.fromEntries(
        Object.entries(input).filter(([field]) => !ids.includes(field)),
      );
      return { method: 'POST', path: fillPath(path, input, ids), body };
    },
  };
}

const decisionTools = [
  createDecisionTool(
    {
      name: 'decideStep',
      title: 'Approve or reject a step of a pipeline',
      waiting: 'a step that waits (`awaiting` of getJob)',
    },
    { ...jobRequest.params.shape, stepId },
    '/api/v1/studio/jobs/:jobId/steps/:stepId/decision',
  ),
  createDecisionTool(
    {
      name: 'decideBulkItems',
      title: 'Approve or reject items of a bulk job',
      waiting:
        'items that wait (`awaiting` of listBulkItems with the state `awaiting_approval`), and repeat it while `remaining` and `decided` are above 0',
    },
    { ...bulkRequest.params.shape, ...itemChoice },
    '/api/v1/studio/bulk/:bulkId/decisions',
  ),
];

const tools: readonly McpTool[] = [
  ...capabilityTools,
  estimate,
  resume,
  ...decisionTools,
  startBulk,
  ...modelTools,
  ...endpointTools,
];

/** Lists the tools that a key may use. */
export const listTools = ({ scopes }: Caller): Tool[] =>
  tools.filter(({ scope }) => hasScope(scopes, scope)).map(({ tool }) => tool);

/** Finds a tool by its name. The API checks at each call whether the key may use it. */
export const findTool = (name: string): McpTool | undefined =>
  tools.find(({ tool }) => tool.name === name);
