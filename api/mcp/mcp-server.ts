/**
 * MCP server that serves one request. It is stateless, so any API process can serve any request.
 */
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
import type { JobRecord } from '../../studio/jobs/job-reads.ts';
import { idPattern } from '../../domain/ids.ts';
import { isRecord } from '../../domain/json.ts';
import {
  awaitJobResult,
  parseJobUri,
  buildJobUri,
  jobUriTemplate,
  type JobReader,
  type ToolCallExtra,
  type ApiResponse,
  type SendApiRequest,
} from './own-api-client.ts';
import { findTool, listTools } from './mcp-tools.ts';

interface McpRequestContext extends JobReader {
  sendRequest: SendApiRequest;
}

const instructions =
  'Tools named after Studio capabilities start jobs that cost credits. If a job takes long, the tool returns its ' +
  'jobId: call getJob with `wait` (seconds, at most 60) until `done` is true. A job continues even if you stop waiting; ' +
  'cancelJob cancels it. An input is a URL, a data URL of up to 1 MB, or a file that you send with PUT to the ' +
  'uploadUrl of createUploadUrl.';

/** Maximum number of jobs in the list of MCP resources. */
const listedJobsMax = 20;
/** Name of the `_meta` entry in which a tool call may send an Idempotency-Key. */
const idempotencyMetaName = 'studio-gateway/idempotency-key';

const errorBody = z.object({ error: z.string(), message: z.string().default('') });

/** Creates the MCP server for one request of a caller. */
export function createMcpServer(context: McpRequestContext): Server {
  const { caller, services } = context;
  const server = new Server(
    { name: 'studio-gateway', title: 'Studio Gateway', version: '1.0.0' },
    { capabilities: { tools: {}, resources: {} }, instructions },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: listTools(caller) }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }, extra) =>
    callTool(context, params, extra),
  );
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [
      {
        uriTemplate: jobUriTemplate,
        name: 'job',
        title: 'A Studio job',
        mimeType: 'application/json',
      },
    ],
  }));
  server.setRequestHandler(ListResourcesRequestSchema, async () => ({
    resources: (await listLatestJobs(context)).map(({ id, type, created_at }) => ({
      uri: buildJobUri(id),
      name: `${type} ${new Date(created_at).toISOString()}`,
      mimeType: 'application/json',
    })),
  }));
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }) => {
    const job = await findJob(context, parseJobUri(uri) ?? '');
    if (!job) throw new McpError(ErrorCode.InvalidParams, `Unknown resource ${uri}.`);
    const text = JSON.stringify(await services.view.resource(job));
    return { contents: [{ uri, mimeType: 'application/json', text }] };
  });
  return server;
}

const listLatestJobs = ({ caller, services }: McpRequestContext): Promise<readonly JobRecord[]> =>
  services.reads.list(caller.organizationId, { status: 'completed', limit: listedJobsMax });

const findJob = async (
  { caller, services }: McpRequestContext,
  id: string,
): Promise<JobRecord | null> =>
  idPattern('job').test(id) ? services.reads.read(caller.organizationId, id) : null;

async function callTool(
  context: McpRequestContext,
  { name, arguments: input = {}, _meta }: CallToolRequest['params'],
  extra: ToolCallExtra,
): Promise<CallToolResult> {
  const tool = findTool(name);
  if (!tool) throw new McpError(ErrorCode.InvalidParams, `Unknown tool ${name}.`);
  const apiRequest = tool.toApiRequest(dropNulls(input));
  const idempotencyKey = _meta?.[idempotencyMetaName];
  const response = await context.sendRequest({
    ...apiRequest,
    headers: {
      ...apiRequest.headers,
      ...(typeof idempotencyKey === 'string' && { 'idempotency-key': idempotencyKey }),
    },
  });
  const { ok, jobId } = response;
  if (!ok) return toToolResult(response);
  if (jobId === null) {
    const { body } = response;
    return toToolResult({ ...response, body: tool.present ? tool.present(body) : body });
  }
  return awaitJobResult(context, { jobId, wait: input['async'] !== true }, extra);
}

/** Removes null fields: language models send null for an argument that they leave out. */
function dropNulls(fields: Record<string, unknown>): Record<string, unknown> {
  const present = Object.entries(fields).filter(([, value]) => value !== null);
  return Object.fromEntries(
    present.map(([name, value]) => [name, isRecord(value) ? dropNulls(value) : value]),
  );
}

/**
 * Converts an API response to a tool result. An error is a result too, so that the model can read
 * it.
 */
function toToolResult({ ok, status, body }: ApiResponse): CallToolResult {
  const structuredContent = z.record(z.string(), z.unknown()).parse(body);
  if (ok) return { content: [{ type: 'text', text: JSON.stringify(body) }], structuredContent };
  const { error, message } = errorBody.catch({ error: `HTTP ${status}`, message: '' }).parse(body);
  const text = message === '' ? error : `${error}: ${message}`;
  return { content: [{ type: 'text', text }], structuredContent, isError: true };
}
