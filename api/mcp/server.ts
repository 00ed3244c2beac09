/** MCP server of one request. It has no session, so any process can serve any request. */
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  CallToolRequestSchema,
  ErrorCode,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  type CallToolRequest,
  type CallToolResult,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import type { JobRecord } from '../../jobs/records/job-reads.ts';
import { idPattern } from '../../domain/ids.ts';
import {
  followJob,
  parseJobUri,
  makeJobUri,
  uriTemplate,
  type JobReader,
  type ToolCallExtra,
} from './job-results.ts';
import type { OwnAnswer, OwnApi } from './own-api.ts';
import { findTool, toolsFor } from './tools.ts';

interface Conversation extends JobReader {
  api: OwnApi;
}

const instructions =
  'Tools named after Studio capabilities start jobs that cost credits. If a job takes long, the tool returns its ' +
  'jobId: call getJob with `wait` (seconds, at most 60) until `done` is true. A job continues when you stop waiting; ' +
  'cancelJob cancels it. An input is a URL, a data URL of up to 1 MB, or a file that you send with PUT to the ' +
  'uploadUrl of createUploadUrl.';

const listedJobs = 20;
/** Name of the `_meta` entry of a tool call that contains its Idempotency-Key. */
const idempotencyName = 'studio-gateway/idempotency-key';

const refusal = z.object({ error: z.string(), message: z.string().default('') });

/** Creates the server for a request of a caller. */
export function createMcpServer(conversation: Conversation): Server {
  const { caller, services } = conversation;
  const server = new Server(
    { name: 'studio-gateway', title: 'Studio Gateway', version: '1.0.0' },
    { capabilities: { tools: {}, resources: {} }, instructions },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: toolsFor(caller) }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }, extra) =>
    callTool(conversation, params, extra),
  );
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [
      { uriTemplate, name: 'job', title: 'A Studio job', mimeType: 'application/json' },
    ],
  }));
  server.setRequestHandler(ListResourcesRequestSchema, async () => ({
    resources: (await latestJobs(conversation)).map(({ id, type, created_at }) => ({
      uri: makeJobUri(id),
      name: `${type} ${new Date(created_at).toISOString()}`,
      mimeType: 'application/json',
    })),
  }));
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }) => {
    const job = await findJob(conversation, parseJobUri(uri) ?? '');
    if (!job) throw new McpError(ErrorCode.InvalidParams, `Unknown resource ${uri}.`);
    const text = JSON.stringify(await services.view.resource(job));
    return { contents: [{ uri, mimeType: 'application/json', text }] };
  });
  return server;
}

const latestJobs = ({ caller, services }: Conversation): Promise<readonly JobRecord[]> =>
  services.reads.list(caller.organizationId, { status: 'completed', limit: listedJobs });

const findJob = async ({ caller, services }: Conversation, id: string): Promise<JobRecord | null> =>
  idPattern('job').test(id) ? services.reads.read(caller.organizationId, id) : null;

async function callTool(
  conversation: Conversation,
  { name, arguments: input = {}, _meta }: CallToolRequest['params'],
  extra: ToolCallExtra,
): Promise<CallToolResult> {
  const tool = findTool(name);
  if (!tool) throw new McpError(ErrorCode.InvalidParams, `Unknown tool ${name}.`);
  const call = tool.call(input);
  const key = _meta?.[idempotencyName];
  const response = await conversation.api({
    ...call,
    headers: { ...call.headers, ...(typeof key === 'string' && { 'idempotency-key': key }) },
  });
  const { ok, jobId } = response;
  if (!ok) return toToolResult(response);
  if (jobId === null) {
    const { body } = response;
    return toToolResult({ ...response, body: tool.present ? tool.present(body) : body });
  }
  const leave = input['async'] === true ? null : enterWait(conversation);
  try {
    return await followJob(conversation, { jobId, wait: leave !== null }, extra);
  } finally {
    leave?.();
  }
}

/** Counts a waiting call; returns the function that ends it, null if too many wait. */
function enterWait({ caller, services }: Conversation): (() => void) | null {
  try {
    return services.openWaits.enter(caller);
  } catch (error) {
    if (error instanceof GatewayError) return null;
    throw error;
  }
}

/** Converts a response of the API to a tool result; a model can read errors. */
function toToolResult({ ok, status, body }: OwnAnswer): CallToolResult {
  const structuredContent = z.record(z.string(), z.unknown()).parse(body);
  if (ok) return { content: [{ type: 'text', text: JSON.stringify(body) }], structuredContent };
  const { error, message } = refusal.catch({ error: `HTTP ${status}`, message: '' }).parse(body);
  const text = message === '' ? error : `${error}: ${message}`;
  return { content: [{ type: 'text', text }], structuredContent, isError: true };
}
