/** MCP server of one request. It has no session, so any process can serve any request. */
import { buffer } from 'node:stream/consumers';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js';
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
  type ServerNotification,
  type ServerRequest,
  type ContentBlock,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import type { JobRecord } from '../../jobs/records/job-reads.ts';
import { idForm } from '../../domain/ids.ts';
import type { JobResource } from '../../studio/job-view.ts';
import type { Composition } from '../composition.ts';
import type { Caller } from '../identity/access.ts';
import { type OwnAnswer, type OwnApi, findTool, toolsFor } from './tools.ts';

type Services = Pick<Composition, 'admission' | 'openWaits' | 'reads' | 'storage' | 'view'>;
type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>;

interface Conversation {
  caller: Caller;
  api: OwnApi;
  services: Services;
}

const instructions =
  'Tools named after Studio capabilities start jobs that cost credits. If a job takes long, the tool returns its ' +
  'jobId: call getJob with `wait` (seconds, at most 60) until `done` is true. A job continues when you stop waiting; ' +
  'cancelJob cancels it. An input is a URL, a data URL of up to 1 MB, or a file that you send with PUT to the ' +
  'uploadUrl of createUploadUrl.';

/** Time between two progress notifications to a waiting client, in milliseconds. */
const progressIntervalMs = 2000;
/**
 * Longest wait in milliseconds for a client without progress notifications: most clients time out
 * after a minute.
 */
const silentWaitMs = 50_000;
/** Highest number of jobs that are listed as resources. */
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
      uri: uriOf(id),
      name: `${type} ${new Date(created_at).toISOString()}`,
      mimeType: 'application/json',
    })),
  }));
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }) => {
    const job = await findJob(conversation, jobIdOf(uri) ?? '');
    if (!job) throw new McpError(ErrorCode.InvalidParams, `Unknown resource ${uri}.`);
    const text = JSON.stringify(await services.view.resource(job));
    return { contents: [{ uri, mimeType: 'application/json', text }] };
  });
  return server;
}

const latestJobs = ({ caller, services }: Conversation): Promise<readonly JobRecord[]> =>
  services.reads.list(caller.organizationId, { status: 'completed', limit: listedJobs });

const findJob = async ({ caller, services }: Conversation, id: string): Promise<JobRecord | null> =>
  idForm('job').test(id) ? services.reads.read(caller.organizationId, id) : null;

async function callTool(
  conversation: Conversation,
  { name, arguments: input = {}, _meta }: CallToolRequest['params'],
  extra: Extra,
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
  if (!ok) return plainResult(response);
  if (jobId === null) {
    const { body } = response;
    return plainResult({ ...response, body: tool.present ? tool.present(body) : body });
  }
  // A job that was started is never rejected: if too many requests wait, the tool returns the job
  // without waiting.
  const leave = input['async'] === true ? null : enterWait(conversation);
  try {
    return await followJob(conversation, { jobId, wait: leave !== null }, extra);
  } finally {
    leave?.();
  }
}

/**
 * Counts a waiting tool call; returns the function that ends it, or null if too many requests wait.
 */
function enterWait({ caller, services }: Conversation): (() => void) | null {
  try {
    return services.openWaits.enter(caller);
  } catch (error) {
    if (error instanceof GatewayError) return null;
    throw error;
  }
}

/**
 * Converts a response of the API to a tool result; an error becomes text that the model can read.
 */
function plainResult({ ok, status, body }: OwnAnswer): CallToolResult {
  const structuredContent = z.record(z.string(), z.unknown()).parse(body);
  if (ok) return { content: [{ type: 'text', text: JSON.stringify(body) }], structuredContent };
  const { error, message } = refusal.catch({ error: `HTTP ${status}`, message: '' }).parse(body);
  const text = message === '' ? error : `${error}: ${message}`;
  return { content: [{ type: 'text', text }], structuredContent, isError: true };
}

/**
 * Waits for a job as long as the client waits, and sends progress notifications if the client
 * requested them. The job continues if the client disconnects.
 */
async function followJob(
  { caller, services }: Conversation,
  { jobId, wait }: { jobId: string; wait: boolean },
  { signal, sendNotification, _meta }: Extra,
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
    const job = await services.admission.awaitEnd({ organizationId, jobId }, waitMs);
    if (!job) throw new McpError(ErrorCode.InternalError, `${jobId} has no record.`);
    const isOver = job.status !== 'open' || signal.aborted || services.admission.isDraining();
    if (isOver || performance.now() - startedAtMs >= waitMaxMs) return jobResult(job, services);
    if (progressToken !== undefined) {
      const message = progressMessage(await services.view.resource(job));
      // An error is ignored, because the client may have disconnected.
      await sendNotification({
        method: 'notifications/progress',
        params: { progressToken, progress, message },
      }).catch(() => {});
    }
  }
}

/** Describes the state of a running job. */
function progressMessage({ jobId, phase, progress }: JobResource): string {
  const { queuePosition = null, etaSeconds = null } = progress ?? {};
  const position = queuePosition === null ? '' : `, queue position ${queuePosition}`;
  const left = etaSeconds === null ? '' : `, usually ${etaSeconds} s more`;
  return `${jobId} ${phase}${position}${left}`;
}

/** Largest image that a result contains as base64, in bytes, because clients reject larger ones. */
const inlineBytesMax = 512 * 1024;
const inlineCountMax = 4;

/**
 * Makes the tool result of a job in its current state: its resource as JSON, its files as links and
 * small images as base64. If the job failed or was canceled, `isError` is true.
 */
async function jobResult(job: JobRecord, { storage, view }: Services): Promise<CallToolResult> {
  const resource = await view.resource(job);
  const structuredContent = { ...resource, uri: uriOf(job.id) };
  if (job.error) {
    const text = `${job.error.code}: ${job.error.message} (${job.id}; nothing was charged)`;
    return { content: [{ type: 'text', text }], structuredContent, isError: true };
  }
  const content: ContentBlock[] = [{ type: 'text', text: JSON.stringify(structuredContent) }];
  // A result that has expired has no files any more.
  const artifacts = resource.result ? (job.outputs ?? []).flatMap((each) => each.artifacts) : [];
  const media = artifacts.filter(({ contentType }) => contentType !== 'application/json');
  const small = media.filter(
    ({ contentType, sizeBytes }) => contentType.startsWith('image/') && sizeBytes <= inlineBytesMax,
  );
  for (const { storageKey, contentType } of small.slice(0, inlineCountMax)) {
    const object = await storage.open(storageKey);
    if (!object) continue;
    const data = (await buffer(object.stream)).toString('base64');
    content.push({ type: 'image', data, mimeType: contentType });
  }
  for (const { storageKey, contentType, sizeBytes } of media) {
    content.push({
      type: 'resource_link',
      uri: await storage.urlOf(storageKey, linkTtlMs),
      name: storageKey.slice(storageKey.lastIndexOf('/') + 1),
      mimeType: contentType,
      size: sizeBytes,
    });
  }
  return { content, structuredContent };
}

/** Lifetime of file links in milliseconds, the same as in the resource of a job. */
const linkTtlMs = 24 * 3_600_000;

const uriStart = 'studio://jobs/';

/** Returns the MCP resource URI of a job. */
const uriOf = (jobId: string): string => uriStart + jobId;

/** Template of the resource URIs of jobs (RFC 6570). */
const uriTemplate = `${uriStart}{jobId}`;

/** Returns the job id of a resource URI; undefined if the URI is not of a job. */
const jobIdOf = (uri: string): string | undefined =>
  uri.startsWith(uriStart) ? uri.slice(uriStart.length) : undefined;
