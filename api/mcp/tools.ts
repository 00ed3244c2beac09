/**
 * The tools: each Studio capability, and the operations that look after its jobs, by their own schemas. A tool calls
 * the API as any client does, with the same key, gate and answers: it is never more and never less than its operation
 * (docs/mcp.md).
 */
import type { IncomingMessage } from 'node:http';
import { ErrorCode, McpError, ToolSchema, type Tool } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { scopeOf } from '../../studio/capability.ts';
import { capabilities, findCapability } from '../../studio/registry.ts';
import type { Caller, Scope } from '../identity/access.ts';
import type { Operation } from '../operations/operation.ts';
import { studioJobs } from '../operations/studio-jobs.ts';
import { studioModels } from '../operations/studio-models.ts';

type Arguments = Record<string, unknown>;

/** A tool, and the call of the API that it stands for. */
interface OfferedTool {
  tool: Tool;
  scope: Scope;
  call: (given: Arguments) => OwnCall;
}

const inputSchema = (schema: z.ZodType): Tool['inputSchema'] => {
  const described = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return ToolSchema.shape.inputSchema.parse({ ...described, type: 'object' });
};

const making: OfferedTool[] = capabilities.map((capability) => ({
  tool: {
    name: capability.type,
    title: capability.summary,
    description:
      `${capability.summary} (${capability.medium}). Costs credits, which are reserved first and ` +
      'charged only on success. See listStudioModels for each model’s parameters.',
    inputSchema: inputSchema(capability.request),
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
  },
  scope: scopeOf(capability),
  call: (given) => ({
    method: 'POST',
    path: `/api/v1${capability.path}`,
    body: given,
    headers: { prefer: 'respond-async' },
  }),
}));

/** Operations that are useful in a conversation, by their names in the description. */
const useful = new Set(['getJob', 'listJobs', 'cancelJob', 'listStudioModels', 'listStudioVoices']);

const looking: OfferedTool[] = [...studioJobs, ...studioModels]
  .filter(({ id }) => id !== undefined && useful.has(id))
  .map(toolOf);

/** An operation whose arguments are the words of its path and its query. */
function toolOf(operation: Operation): OfferedTool {
  const { id = '', summary = '', description, method, path, request, scope } = operation;
  const words = Object.keys(request.params?.shape ?? {});
  const shape = { ...request.params?.shape, ...request.query?.shape };
  return {
    tool: {
      name: id,
      title: summary,
      description: [summary, description].filter(Boolean).join('. '),
      inputSchema: inputSchema(z.strictObject(shape)),
      annotations: {
        readOnlyHint: method === 'GET',
        destructiveHint: method !== 'GET',
        openWorldHint: false,
      },
    },
    // oxlint-disable-next-line no-unsafe-type-assertion -- `useful` names operations behind keys only
    scope: scope as Scope,
    call: (given) => {
      const texts = Object.entries(given).map(([name, value]) => ({ name, text: textOf(value) }));
      checkLength(texts);
      const search = new URLSearchParams(
        texts
          .filter(({ name }) => !words.includes(name))
          .map(({ name, text }): [string, string] => [name, text]),
      ).toString();
      const filled = path.replaceAll(/:(\w+)/g, (_, word: string) =>
        encodeURIComponent(texts.find(({ name }) => name === word)?.text ?? ''),
      );
      return { method, path: search === '' ? filled : `${filled}?${search}` };
    },
  };
}

/** Characters of all arguments of a tool whose arguments are sent in a URL: servers reject longer URLs. */
const argumentsMax = 4000;

/** @throws McpError InvalidParams if the arguments do not fit into a URL, naming the longest */
function checkLength(texts: readonly { name: string; text: string }[]): void {
  const length = texts.reduce((sum, { name, text }) => sum + name.length + text.length, 0);
  if (length <= argumentsMax) return;
  const [longest] = texts.toSorted((one, other) => other.text.length - one.text.length);
  const message = `${longest?.name.slice(0, 40)}: all arguments together must be at most ${argumentsMax} characters (received ${length})`;
  throw new McpError(ErrorCode.InvalidParams, message);
}

/** Converts an argument to text; the operation rejects a value of the wrong type. */
const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value);

/** The price of a capability's request: one tool for all, as each would double the list. */
const estimate: OfferedTool = {
  tool: {
    name: 'estimate',
    title: 'What a request would cost',
    description:
      'Estimate the credits that a job tool would reserve, item by item. No job is started.',
    inputSchema: inputSchema(
      z.strictObject({
        tool: z.enum(capabilities.map(({ type }) => type)),
        arguments: z.looseObject({}).meta({ description: 'As for that tool.' }),
      }),
    ),
    annotations: { readOnlyHint: true },
  },
  scope: 'studio:read',
  call: ({ tool, arguments: given = {} }) => ({
    method: 'POST',
    path: `/api/v1${findCapability(String(tool))?.path ?? '/studio/nothing'}/estimate`,
    body: given,
  }),
};

const tools: readonly OfferedTool[] = [...making, estimate, ...looking];

/** The tools that a key may use. */
export const toolsFor = ({ scopes }: Caller): Tool[] =>
  tools.filter(({ scope }) => scopes.includes(scope)).map(({ tool }) => tool);

/** A tool by its name; whether a key may use it, the API says when it is called. */
export const findTool = (name: string): OfferedTool | undefined =>
  tools.find(({ tool }) => tool.name === name);

/** A call of one operation. */
interface OwnCall {
  method: string;
  /** With its query. */
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** An answer, success or refusal. */
export interface OwnAnswer {
  ok: boolean;
  status: number;
  body: unknown;
  /** The job that the call made, or made before under its Idempotency-Key. */
  jobId: string | null;
}

/** Calls this process's API. */
export type OwnApi = (call: OwnCall) => Promise<OwnAnswer>;

/** The API that a request came to, called with that request's key. */
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
