/**
 * Reads a Studio request: parses JSON or a form without resolving inputs. The result identifies the
 * request for its Idempotency-Key; its `complete` stores the files that the request contains.
 */
import type { ReceivedFile } from '../../storage/inputs/request-files.ts';
import type { Recordings } from '../../storage/inputs/recordings.ts';
import { fieldsError } from '../../domain/errors.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Outbound } from '../../platform/outbound.ts';
import type { Capability, Recording } from '../../studio/capability.ts';
import type { Context } from '../context.ts';
import { readJson } from '../http/body.ts';
import { parseWith } from '../http/parsing.ts';
import { parseMetadata } from '../http/metadata.ts';
import { dataUrlBodyBytesMax, receiveDataUrls, type ReceivedDataUrls } from './data-urls.ts';
import { receiveFiles, type FileReceiver } from './body-files.ts';
import { parseWebhook, type RequestedWebhook } from './webhook-fields.ts';

/** Request that was read. Its inputs were neither resolved nor downloaded. */
export interface ReadRequest {
  /**
   * Parsed request; a file of the request is named by a hash of its bytes
   * (`ReceivedFile.contentId`).
   */
  request: JsonObject;
  /** Webhook that reports events of the job; null if there is none. */
  webhook: RequestedWebhook | null;
  /** Name-value pairs that the caller chose; null if there are none. */
  metadata: Record<string, string> | null;
  /**
   * Stores the files of the request, and finds its recording; absent if the request has neither.
   */
  complete?: () => Promise<{ request: JsonObject; recording?: Recording }>;
}

/** Services that read a request. */
export interface ReadingDeps extends FileReceiver {
  recordings: Recordings;
  outbound: Outbound;
}

/** Reads a request for a capability from the body of an endpoint. */
export type ReadRequestOf = (
  ctx: Context,
  capability: Capability,
  deps: ReadingDeps,
) => ReadRequest | Promise<ReadRequest>;

/**
 * Reads the body of a capability's own endpoint.
 * @throws GatewayError INVALID_REQUEST, CONFLICTING_FIELDS, FILE_TOO_LARGE, …
 */
export async function readRequest(
  ctx: Context,
  capability: Capability,
  deps: ReadingDeps,
): Promise<ReadRequest> {
  if (capability.upload && ctx.is('multipart/form-data')) return readForm(ctx, capability, deps);
  const body = await readJson(ctx, dataUrlBodyBytesMax);
  const { webhookUrl, webhookEvents, metadata: pairs, ...sent } = body;
  const { fields, store } = await receiveDataUrls(ctx, sent, deps);
  const request = parseWith(capability.request, fields);
  const webhook = parseWebhook({ webhookUrl, webhookEvents }, deps.outbound);
  const metadata = parseMetadata(pairs);
  return { webhook, metadata, ...completed(ctx, capability, { request, store, ...deps }) };
}

/**
 * Returns the request and the function that stores its `data:` URLs and finds its recording.
 * @throws GatewayError if it names no recording, or two
 */
function completed(
  ctx: Context,
  capability: Capability,
  {
    request,
    store,
    recordings,
  }: { request: JsonObject; store: ReceivedDataUrls['store']; recordings: Recordings },
): Pick<ReadRequest, 'request' | 'complete'> {
  // Rejects a wrong source before the request claims its Idempotency-Key.
  const hasRecording = capability.recording?.(request) !== undefined;
  if (!hasRecording && !store) return { request };
  const { organizationId } = ctx.state.caller;
  return {
    request,
    async complete() {
      const stored = store ? await store(request) : request;
      const source = capability.recording?.(stored);
      if (!source) return { request: stored };
      return { request: stored, recording: await recordings.find(source, organizationId) };
    },
  };
}

async function readForm(
  ctx: Context,
  capability: Capability,
  { recordings, outbound, ...receiver }: ReadingDeps,
): Promise<ReadRequest> {
  const { field = '', bytesMax = 0 } = capability.upload ?? {};
  const { texts, files } = await receiveFiles(ctx, receiver, {
    receive: 'receiveRecording',
    fields: [field],
    bytesMax,
  });
  const [file] = files;
  const { async: later, webhookUrl, webhookEvents: events, metadata: pairs, ...fields } = texts;
  const webhook = parseWebhook({ webhookUrl, webhookEvents: jsonOrText(events) }, outbound);
  const metadata = parseMetadata(jsonOrText(pairs));
  const named = { ...fields, ...(later !== undefined && { async: spelledFlag(later) }) };
  if (!file) {
    // A missing file is reported before unknown fields.
    capability.recording?.(named);
    const request = parseWith(capability.request, named);
    const store = null;
    return { webhook, metadata, ...completed(ctx, capability, { request, store, recordings }) };
  }
  if (texts['fileId'] !== undefined) {
    const message = `name one source: ${field} or fileId`;
    throw fieldsError('CONFLICTING_FIELDS', [field, 'fileId'], message);
  }
  const request = parseWith(capability.request, {
    ...(file.name !== '' && { fileName: file.name.slice(0, 255) }),
    ...named,
    fileId: file.kept.contentId,
  });
  // Rejects a second source in addition to the file.
  capability.recording?.(request);
  return { request, webhook, metadata, complete: storedRecording(request, file.kept) };
}

/**
 * Makes the `complete` function of a request that contains its recording as a file: it stores the
 * file.
 */
export function storedRecording(
  request: JsonObject,
  { store, durationSeconds }: ReceivedFile,
): NonNullable<ReadRequest['complete']> {
  return async () => {
    const { storageKey } = await store();
    const seconds = durationSeconds ?? 0;
    return { request, recording: { kind: 'file', storageKey, durationSeconds: seconds } };
  };
}

/** Parses a form's text as JSON; the schema rejects a text that is not JSON. */
function jsonOrText(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}

/** Parses a form's flag; the schema rejects another spelling. */
function spelledFlag(text: string): boolean | string {
  return text === 'true' || (text === 'false' ? false : text);
}
