/** Results of MCP tools that start or read a job. */
import { buffer } from 'node:stream/consumers';
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js';
import {
  ErrorCode,
  McpError,
  type CallToolResult,
  type ContentBlock,
  type ServerNotification,
  type ServerRequest,
} from '@modelcontextprotocol/sdk/types.js';
import type { JobRecord } from '../../jobs/records/job-reads.ts';
import type { JobResource } from '../../studio/job-resource.ts';
import type { Composition } from '../composition.ts';
import type { Caller } from '../identity/access.ts';

type Services = Pick<Composition, 'jobWaits' | 'openWaits' | 'reads' | 'storage' | 'view'>;
/** Caller of an MCP request, and the services that read its jobs. */
export interface JobReader {
  caller: Caller;
  services: Services;
}
/** Signal, progress token and notifications of a tool call. */
export type ToolCallExtra = RequestHandlerExtra<ServerRequest, ServerNotification>;

/** Time between two progress notifications to a waiting client, in milliseconds. */
const progressIntervalMs = 2000;
/** Longest wait in milliseconds for a client without progress: most time out after a minute. */
const silentWaitMs = 50_000;

/** Waits for a job as long as the client, with progress notifications if it requested them. */
export async function followJob(
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
    const job = await services.jobWaits.awaitEnd({ organizationId, jobId }, waitMs);
    if (!job) throw new McpError(ErrorCode.InternalError, `${jobId} has no record.`);
    const isOver = job.status !== 'open' || signal.aborted || services.jobWaits.isDraining();
    if (isOver || performance.now() - startedAtMs >= waitMaxMs) return makeJobResult(job, services);
    if (progressToken !== undefined) {
      const message = describeProgress(await services.view.resource(job));
      // An error is ignored, because the client may have disconnected.
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
async function makeJobResult(job: JobRecord, { storage, view }: Services): Promise<CallToolResult> {
  const resource = await view.resource(job);
  const structuredContent = { ...resource, uri: makeJobUri(job.id) };
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
export const makeJobUri = (jobId: string): string => uriStart + jobId;

/** Template of the resource URIs of jobs (RFC 6570). */
export const uriTemplate = `${uriStart}{jobId}`;

/** Returns the job id of a resource URI; undefined if the URI is not of a job. */
export const parseJobUri = (uri: string): string | undefined =>
  uri.startsWith(uriStart) ? uri.slice(uriStart.length) : undefined;
