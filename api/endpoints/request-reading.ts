/**
 * Reads a Studio request: parses JSON or a form without resolving inputs. The parsed request is
 * compared with earlier requests that have the same Idempotency-Key. Its `storeFiles` function stores
 * the files of the request.
 */
import type { ReceivedFile } from '../../storage/inputs/request-files.ts';
import type { Recordings } from '../../storage/inputs/recordings.ts';
import { fieldsError } from '../../domain/errors.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Outbound } from '../../platform/outbound.ts';
import type { Capability } from '../../studio/capabilities/capability.ts';
import type { Context } from '../context.ts';
import { readJson } from '../http/json-body.ts';
import { parseWith } from '../../domain/parsing.ts';
import { parseMetadata } from '../../domain/metadata.ts';
import { dataUrlBodyBytesMax, receiveDataUrls, type ReceivedDataUrls } from './data-urls.ts';
import { receiveFiles, type FileReceiver } from './body-files.ts';
import type { ParsedRequest } from '../../studio/requests/request-draft.ts';
import { parseWebhook } from './webhook-fields.ts';

/** Services needed to read a request. */
export interface ReadingDeps extends FileReceiver {
  recordings: Recordings;
  outbound: Outbound;
}

/** Function that reads a request for a capability from the request body. */
export type RequestBodyReader = (
  ctx: Context,
  capability: Capability,
  deps: ReadingDeps,
) => ParsedRequest | Promise<ParsedRequest>;

/**
 * Reads the body of a request to a capability's own endpoint.
 * @throws GatewayError INVALID_REQUEST, CONFLICTING_FIELDS, FILE_TOO_LARGE, …
 */
export async function readRequest(
  ctx: Context,
  capability: Capability,
  deps: ReadingDeps,
): Promise<ParsedRequest> {
  if (capability.upload && ctx.is('multipart/form-data')) return readForm(ctx, capability, deps);
  const body = await readJson(ctx, { bytesMax: dataUrlBodyBytesMax });
  const { webhookUrl, webhookEvents, metadata: pairs, ...sent } = body;
  const { fields, store } = await receiveDataUrls(ctx, sent, deps);
  const request = parseWith(capability.request, fields);
  const webhook = parseWebhook({ webhookUrl, webhookEvents }, deps.outbound);
  const metadata = parseMetadata(pairs);
  return { webhook, metadata, ...addCompletion(ctx, capability, { request, store, ...deps }) };
}

/**
 * Returns the request, with a `storeFiles` function that stores its `data:` URLs and finds its
 * recording.
 * @throws GatewayError if the request needs a recording but names none, or more than one
 */
function addCompletion(
  ctx: Context,
  capability: Capability,
  {
    request,
    store,
    recordings,
  }: { request: JsonObject; store: ReceivedDataUrls['store']; recordings: Recordings },
): Pick<ParsedRequest, 'request' | 'storeFiles'> {
  // Rejects an invalid recording source before the request claims its Idempotency-Key.
  const hasRecording = capability.recording?.(request) !== undefined;
  if (!hasRecording && !store) return { request };
  const { organizationId } = ctx.state.caller;
  return {
    request,
    async storeFiles(copies) {
      const storedRequest = store ? await store(request) : request;
      const source = capability.recording?.(storedRequest);
      if (!source) return { request: storedRequest };
      const recording = await recordings.find(source, { organizationId, copies });
      return { request: storedRequest, recording };
    },
  };
}

async function readForm(
  ctx: Context,
  capability: Capability,
  { recordings, outbound, ...receiver }: ReadingDeps,
): Promise<ParsedRequest> {
  const { field = '', bytesMax = 0 } = capability.upload ?? {};
  const { texts, files } = await receiveFiles(ctx, receiver, {
    receive: 'receiveRecording',
    files: { [field]: 1 },
    bytesMax,
  });
  const [file] = files;
  const { async: isAsync, webhookUrl, webhookEvents: events, metadata: pairs, ...fields } = texts;
  const webhook = parseWebhook({ webhookUrl, webhookEvents: parseJsonOrText(events) }, outbound);
  const metadata = parseMetadata(parseJsonOrText(pairs));
  const fieldsWithAsync = {
    ...fields,
    ...(isAsync !== undefined && { async: parseBooleanText(isAsync) }),
  };
  if (!file) {
    // A missing file must be reported before unknown fields.
    capability.recording?.(fieldsWithAsync);
    const request = parseWith(capability.request, fieldsWithAsync, 'form');
    const store = null;
    return {
      webhook,
      metadata,
      ...addCompletion(ctx, capability, { request, store, recordings }),
    };
  }
  if (texts['fileId'] !== undefined) {
    const message = `cannot be used together: send ${field} or fileId`;
    throw fieldsError('CONFLICTING_FIELDS', [field, 'fileId'], message);
  }
  const fileName = file.name === '' ? {} : { fileName: file.name };
  const fileId = file.stored.contentId;
  const request = parseWith(
    capability.request,
    { ...fileName, ...fieldsWithAsync, fileId },
    'form',
  );
  // Throws if the request names a recording in addition to the file.
  capability.recording?.(request);
  return { request, webhook, metadata, storeFiles: createRecordingStore(request, file.stored) };
}

/**
 * Parses the fields of a request that has neither a webhook nor metadata.
 * @throws GatewayError INVALID_REQUEST
 */
export function parseCapabilityFields(capability: Capability, fields: object): ParsedRequest {
  return { request: parseWith(capability.request, fields), webhook: null, metadata: null };
}

/** Creates the `storeFiles` function of a request that contains its recording as a file. */
export function createRecordingStore(
  request: JsonObject,
  { store, durationSeconds, sizeBytes, type }: ReceivedFile,
): NonNullable<ParsedRequest['storeFiles']> {
  return async () => {
    const { storageKey } = await store();
    return {
      request,
      recording: {
        kind: 'file',
        storageKey,
        durationSeconds: durationSeconds ?? 0,
        sizeBytes,
        type,
      },
    };
  };
}

/**
 * Parses a form field as JSON. Returns invalid JSON and a repeated field unchanged, so that the
 * schema decides.
 */
function parseJsonOrText(text: string | string[] | undefined): unknown {
  try {
    return typeof text === 'string' ? JSON.parse(text) : text;
  } catch {
    return text;
  }
}

/**
 * Parses the form values `true` and `false`. Returns other values unchanged, so that the schema
 * rejects them.
 */
function parseBooleanText(text: string | string[]): boolean | string | string[] {
  return text === 'true' || (text === 'false' ? false : text);
}
