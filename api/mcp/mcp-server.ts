/**
 * MCP server that serves one request. It is stateless, so any API process can serve any request.
 */
import type { IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js';
import {
  ErrorCode,
  McpError,
  type CallToolResult,
  type ContentBlock,
  type ServerNotification,
  type ServerRequest,
  CallToolRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
  type CallToolRequest,
} from '@modelcontextprotocol/sdk/types.js';
import { extractTitle } from '../../domain/job-record.ts';
import { buildDisposition, buildFilename } from '../../storage/file-names.ts';
import type { JobRecord } from '../../studio/jobs/job-reads.ts';
import type { JobResource } from '../../studio/jobs/job-view.ts';
import { listAwaiting } from '../../studio/pipelines/approval-view.ts';
import type { Composition } from '../composition.ts';
import type { Caller } from '../../identity/access.ts';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { z } from 'zod';
import { idPattern } from '../../domain/ids.ts';
import { isRecord } from '../../domain/json.ts';
import { findTool, listTools } from './mcp-tools.ts';

/** Request to an endpoint of the API. */
export interface ApiRequest {
  method: string;
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Response of the API, successful or not. */
export interface ApiResponse {
  ok: boolean;
  status: number;
  body: unknown;
  /**
   * Id of the job that this request or an earlier one with the same Idempotency-Key started. Null
   * if there is no job.
   */
  jobId: string | null;
}

/** Function that sends a request to the API of this process. */
export type SendApiRequest = (request: ApiRequest) => Promise<ApiResponse>;

/**
 * Creates the function that sends requests with the API key of an incoming request, until `signal`
 * aborts.
 */
export function createOwnApiClient(incoming: IncomingMessage, signal: AbortSignal): SendApiRequest {
  const { localAddress = '127.0.0.1', localPort } = incoming.socket;
  const host = localAddress.includes(':') ? `[${localAddress}]` : localAddress;
  const { authorization = '', 'x-end-user': endUser } = incoming.headers;
  return async ({ method, path, body, headers }) => {
    const response = await fetch(`http://${host}:${localPort}${path}`, {
      method,
      headers: {
        authorization,
        ...(endUser !== undefined && { 'x-end-user': String(endUser) }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      redirect: 'error',
      signal,
    });
    const { ok, status } = response;
    return { ok, status, body: await response.json(), jobId: response.headers.get('x-job-id') };
  };
}

type Services = Pick<Composition, 'jobWaits' | 'reads' | 'storage' | 'view'>;
/** Caller of an MCP request, and the services that read the caller's jobs. */
export interface JobReader {
  caller: Caller;
  services: Services;
}
/** Abort signal, progress token and notification function of a tool call. */
export type ToolCallExtra = RequestHandlerExtra<ServerRequest, ServerNotification>;

/** Interval between progress notifications to a waiting client, in milliseconds. */
const progressIntervalMs = 2000;
/**
 * Maximum time to wait for a job without progress notifications, in milliseconds. Most clients time
 * out after a minute.
 */
const silentWaitMs = 50_000;

/**
 * Waits until the job ends, a step of it waits for a decision, or the client stops waiting, with progress
 * notifications on request.
 */
async function awaitJobResult(
  { caller, services }: JobReader,
  { jobId, wait }: { jobId: string; wait: boolean },
  { signal, sendNotification, _meta }: ToolCallExtra,
): Promise<CallToolResult> {
  const { organizationId } = caller;
  const progressToken = _meta?.progressToken;
  const waitMaxMs = wait ? (progressToken === undefined ? silentWaitMs : Infinity) : 0;
  const startedAtMs = performance.now();
  for (let progress = 0; ; progress += 1) {
    const waitedMs = performance.now() - startedAtMs;
    const waitMs = Math.max(
      0,
      Math.min(progress === 0 ? 0 : progressIntervalMs, waitMaxMs - waitedMs),
    );
    const job = await services.jobWaits.awaitEnd({ organizationId, id: jobId, signal }, waitMs);
    if (!job) throw new McpError(ErrorCode.InternalError, `The job ${jobId} was not found.`);
    const isOver = job.status !== 'open' || listAwaiting(job).length > 0;
    const mustReturn = isOver || signal.aborted || services.jobWaits.isDraining();
    if (mustReturn || performance.now() - startedAtMs >= waitMaxMs)
      return buildJobResult(job, services);
    if (progressToken !== undefined) {
      const message = describeProgress(await services.view.resource(job));
      // Ignores errors, because the client may have disconnected.
      await sendNotification({
        method: 'notifications/progress',
        params: { progressToken, progress, message },
      }).catch(() => {});
    }
  }
}

function describeProgress({ jobId, phase, progress }: JobResource): string {
  const { queuePosition = null, etaSeconds = null } = progress ?? {};
  const position = queuePosition === null ? '' : `, queue position ${queuePosition}`;
  const left = etaSeconds === null ? '' : `, about ${etaSeconds} s left`;
  return `${jobId} ${phase}${position}${left}`;
}

/**
 * Maximum size of an image that a result contains as base64, in bytes. Clients reject larger ones.
 */
const inlineBytesMax = 512 * 1024;
const inlineCountMax = 4;

/**
 * Builds the tool result for the current state of a job: the job as JSON, its files as links, and
 * small images also as base64. `isError` is true if the job failed or was canceled.
 */
async function buildJobResult(
  job: JobRecord,
  { storage, view }: Services,
): Promise<CallToolResult> {
  const resource = await view.resource(job);
  const structuredContent = { ...resource, uri: buildJobUri(job.id) };
  if (job.error) {
    const text = `${job.error.code}: ${job.error.message} (${job.id}; nothing was charged)`;
    return { content: [{ type: 'text', text }], structuredContent, isError: true };
  }
  const content: ContentBlock[] = [{ type: 'text', text: JSON.stringify(structuredContent) }];
  // `result` is null if the media were deleted; then there are no files to link.
  const artifacts = resource.result
    ? (job.outputs ?? []).flatMap((output) => output.artifacts)
    : [];
  const media = artifacts.filter(({ contentType }) => contentType !== 'application/json');
  const small = media.filter(
    ({ contentType, sizeBytes }) => contentType.startsWith('image/') && sizeBytes <= inlineBytesMax,
  );
  for (const { storageKey, contentType } of small.slice(0, inlineCountMax)) {
    const storedObject = await storage.open(storageKey);
    if (!storedObject) continue;
    const data = (await buffer(storedObject.stream)).toString('base64');
    content.push({ type: 'image', data, mimeType: contentType });
  }
  const text = extractTitle(job.request);
  for (const artifact of media) {
    const file = { ...artifact, text };
    content.push({
      type: 'resource_link',
      uri: await storage.urlOf(artifact.storageKey, linkTtlMs, {
        disposition: buildDisposition(file),
      }),
      name: buildFilename(file),
      mimeType: artifact.contentType,
      size: artifact.sizeBytes,
    });
  }
  return { content, structuredContent };
}

/** Lifetime of file links in milliseconds, the same as in responses of the API. */
const linkTtlMs = 24 * 3_600_000;

const jobUriPrefix = 'studio://jobs/';

/** Returns the MCP resource URI of a job. */
const buildJobUri = (jobId: string): string => jobUriPrefix + jobId;

/** URI template (RFC 6570) of the MCP resources of jobs. */
const jobUriTemplate = `${jobUriPrefix}{jobId}`;

/** Returns the job id in a resource URI, or undefined if the URI does not identify a job. */
const parseJobUri = (uri: string): string | undefined =>
  uri.startsWith(jobUriPrefix) ? uri.slice(jobUriPrefix.length) : undefined;

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
    resources: (await listLatestJobs(context)).map(({ id, type, createdAtMs }) => ({
      uri: buildJobUri(id),
      name: `${type} ${new Date(createdAtMs).toISOString()}`,
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
  const apiRequest = tool.toApiRequest(dropNulls(input, tool.nullsIn));
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

/** Removes null fields, except in `kept`: language models send null for an argument that they leave out. */
function dropNulls(fields: Record<string, unknown>, kept?: string): Record<string, unknown> {
  const present = Object.entries(fields).filter(([, value]) => value !== null);
  return Object.fromEntries(
    present.map(([name, value]) => [
      name,
      isRecord(value) && name !== kept ? dropNulls(value) : value,
    ]),
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
