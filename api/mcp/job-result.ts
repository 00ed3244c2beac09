/** A job as a tool's result: its resource as data, its files as links, small pictures in full. */
import { buffer } from 'node:stream/consumers';
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/sdk/types.js';
import type { JobRecord } from '../../activities/jobs/job-reads.ts';
import type { Composition } from '../composition.ts';

type Services = Pick<Composition, 'storage' | 'view'>;

/** Larger pictures, as base64 in a conversation, are more than clients take. */
const inlineBytesMax = 512 * 1024;
const inlineCountMax = 4;

/** How a job stands, or how it ended; `isError` where it failed or was canceled. */
export async function jobResult(
  job: JobRecord,
  { storage, view }: Services,
): Promise<CallToolResult> {
  const resource = await view.resource(job);
  const told = { ...resource, uri: uriOf(job.id) };
  if (job.error) {
    const text = `${job.error.code}: ${job.error.message} (${job.id}; nothing was charged)`;
    return { content: [{ type: 'text', text }], structuredContent: told, isError: true };
  }
  const content: ContentBlock[] = [{ type: 'text', text: JSON.stringify(told) }];
  // A result that is not kept, and whose time is over, has no files any more.
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
  return { content, structuredContent: told };
}

/** As the URLs of a job's resource. */
const linkTtlMs = 24 * 3_600_000;

const uriStart = 'studio://jobs/';

/** A job as a resource of MCP. */
export const uriOf = (jobId: string): string => uriStart + jobId;

/** The template of all such URIs (RFC 6570). */
export const uriTemplate = `${uriStart}{jobId}`;

/** The job that a URI names; undefined where it names none. */
export const jobIdOf = (uri: string): string | undefined =>
  uri.startsWith(uriStart) ? uri.slice(uriStart.length) : undefined;
