/**
 * Reads the body of a Studio request: JSON with its `data:` URLs, or a form with its files. Inputs
 * are not resolved. The parsed request is compared with earlier requests that have the same
 * Idempotency-Key; its `storeFiles` function stores the files.
 */
import type { ReceivedFile, RequestFiles } from '../../storage/inputs/recordings.ts';
import { inputUses, type MediaUse } from '../../storage/media-types.ts';
import type { Context } from '../context.ts';
import { receiveForm, type FormRules, type ReceivedForm } from '../http/multipart.ts';
import { Readable } from 'node:stream';
import { fieldError, fieldsError } from '../../domain/errors.ts';
import { isRecord, type Json, type JsonObject } from '../../domain/json.ts';
import { parseIdempotencyKey } from '../http/request-headers.ts';
import type { Outbound } from '../../platform/outbound.ts';
import { useOf, type Capability } from '../../studio/capabilities/capability.ts';
import { readJson } from '../http/json-body.ts';
import { throwIfSent } from '../middleware/token-rules.ts';
import { parseWith } from '../../domain/parsing.ts';
import { parseMetadata } from '../../domain/metadata.ts';
import type { Recipes } from '../../studio/requests/recipe-versions.ts';
import type { ParsedRequest } from '../../studio/requests/request-draft.ts';
import { parseWebhook } from '../../studio/requests/webhook-fields.ts';
import { resumeRequest, type ResumeRequest } from '../../studio/pipelines/resume.ts';

/** Services that receive the files of a request. */
export interface FileReceiver {
  requestFiles: RequestFiles;
  /** Registers a file as soon as it begins to arrive, so that it can be discarded. */
  onReceiving: (file: Promise<ReceivedFile>) => void;
}

interface FileRules extends Pick<FormRules<ReceivedFile>, 'files' | 'bytesMax' | 'textBytesMax'> {
  /** Name of the `requestFiles` function that receives and checks each file. */
  receive: 'receivePicture' | 'receiveRecording' | 'receiveLines';
}

/**
 * Receives a form. Registers its files and stores them in the spool.
 * @throws GatewayError the errors of `receiveForm` and of the function that `receive` names
 */
export function receiveFiles(
  ctx: Context,
  { requestFiles, onReceiving }: FileReceiver,
  { receive, ...rules }: FileRules,
): Promise<ReceivedForm<ReceivedFile>> {
  return receiveForm(ctx, {
    ...rules,
    throwIfOverQuota: requestFiles.throwIfOverQuota,
    store(stream, field) {
      const pendingFile = requestFiles[receive]({ field, stream }, ctx.state.caller);
      onReceiving(pendingFile);
      return pendingFile;
    },
  });
}

/** Creates the list of a request's files. */
export function createFileList() {
  const files: Promise<ReceivedFile>[] = [];
  return {
    /**
     * Adds a file that may still be arriving. Errors are ignored here, because the function that
     * reads the request reports them.
     */
    onReceiving(file: Promise<ReceivedFile>): void {
      file.catch(() => {});
      files.push(file);
    },
    /**
     * Discards the files in the background: those that a job uses stay in the storage. A file that
     * was sent twice is stored once, so its copy is still in the spool. If that fails, the sweep of
     * unused uploads removes the stored files later.
     */
    discard(options: { isUsed: boolean }): void {
      for (const pendingFile of files)
        pendingFile.then((file) => file.discard(options)).catch(() => {});
    },
  };
}

/**
 * Maximum size in bytes of a body that may contain `data:` URLs. Base64 encodes each three bytes of
 * a file as four.
 */
export const dataUrlBodyBytesMax = 2 * 1024 * 1024;
/** Maximum size of the file in a `data:` URL, in bytes. */
const dataUrlBytesMax = 1024 * 1024;
/** Maximum number of `data:` URLs in a request: ten images and a mask. */
const dataUrlsMax = 11;

/** Fields of a request whose `data:` URLs were replaced by file ids. */
export interface ReceivedDataUrls {
  fields: Record<string, unknown>;
  /**
   * Stores the files and returns the parsed request with their file ids. Null if the request has no
   * `data:` URL.
   */
  store: ((request: JsonObject) => Promise<JsonObject>) | null;
}

/**
 * Receives the `data:` URLs in the fields of a request whose names end with `Url` or `Urls`, also
 * in the bodies of steps.
 * @throws GatewayError INVALID_INPUT_URL, FILE_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE,
 * STORAGE_QUOTA_EXCEEDED
 */
async function receiveDataUrls(
  ctx: Context,
  fields: Record<string, unknown>,
  { requestFiles, onReceiving }: FileReceiver,
): Promise<ReceivedDataUrls> {
  const { caller } = ctx.state;
  const receivedFiles = new Map<string, ReceivedFile>();
  let count = 0;

  async function receive(text: string, path: string): Promise<string> {
    count += 1;
    if (count > dataUrlsMax) {
      const message = `a request may contain at most ${dataUrlsMax} data URLs; upload the files instead`;
      throw fieldError('INVALID_INPUT_URL', path, message);
    }
    const bytes = decodeDataUrl(text, path);
    const { organizationId } = caller;
    const idempotencyKey = parseIdempotencyKey(ctx);
    await requestFiles.throwIfOverQuota({ organizationId, bytes: bytes.length, idempotencyKey });
    const stream = Object.assign(Readable.from([bytes]), { truncated: false });
    const pendingFile = requestFiles.receiveMedia({ field: path, stream }, caller, findUse(path));
    onReceiving(pendingFile);
    const file = await pendingFile;
    receivedFiles.set(file.contentId, file);
    return file.contentId;
  }

  const replacedFields = await replaceUrls(fields, (text, path) =>
    text.startsWith('data:') ? receive(text, path) : Promise.resolve(text),
  );
  if (receivedFiles.size === 0) return { fields, store: null };
  return {
    fields: replacedFields,
    async store(request) {
      const fileIds = new Map<string, string>();
      for (const [contentId, file] of receivedFiles)
        fileIds.set(contentId, (await file.store()).fileId);
      return replaceUrls(request, (text) => Promise.resolve(fileIds.get(text) ?? text));
    },
  };
}

/** Returns the use of the file in a field, by the name of the field: `imageUrls.0`, `videoUrl`. */
function findUse(path: string): MediaUse | undefined {
  const [, medium = ''] = /(?:^|\.)(image|mask|video|audio)Urls?(?:\.\d+)?$/.exec(path) ?? [];
  const uses: Readonly<Record<string, MediaUse>> = { ...inputUses, mask: 'picture' };
  return uses[medium];
}

/** Pattern of the padding at the end of base64 data. */
const padding = /={1,2}$/;
/** Pattern of a character that base64 data cannot contain. */
const notBase64 = /[^A-Za-z0-9+/]/;

/** Decodes a `data:` URL. @throws GatewayError INVALID_INPUT_URL, FILE_TOO_LARGE */
function decodeDataUrl(text: string, path: string): Buffer {
  const prefix = /^data:[\w.+-]+\/[\w.+-]+;base64,/.exec(text.slice(0, 200))?.[0];
  const encoded = text.slice(prefix?.length ?? 0);
  const digits = encoded.slice(0, -2) + encoded.slice(-2).replace(padding, '');
  if (prefix === undefined || digits === '' || notBase64.test(digits)) {
    throw fieldError('INVALID_INPUT_URL', path, 'must be data:TYPE;base64,DATA with valid Base64');
  }
  const bytes = Buffer.from(encoded, 'base64');
  if (bytes.length > dataUrlBytesMax) {
    const message = `a data URL may contain at most ${dataUrlBytesMax} bytes (has ${bytes.length}); upload the file instead`;
    throw fieldError('FILE_TOO_LARGE', path, message);
  }
  return bytes;
}

type ReplaceText = (text: string, path: string) => Promise<string>;

/**
 * Replaces, one after the other, the strings in fields whose names end with `Url` or `Urls`, also in
 * objects in lists, such as the steps of a pipeline.
 */
async function replaceUrls<Fields extends Record<string, unknown>>(
  fields: Fields,
  replace: ReplaceText,
  path = '',
): Promise<Fields> {
  const entries: [string, unknown][] = [];
  for (const [name, value] of Object.entries(fields)) {
    const isUrl = /Urls?$/.test(name);
    const replaceItem = (item: unknown, itemPath: string): unknown => {
      if (isRecord(item)) return replaceUrls(item, replace, `${itemPath}.`);
      return typeof item === 'string' && isUrl ? replace(item, itemPath) : item;
    };
    if (!Array.isArray(value)) {
      entries.push([name, await replaceItem(value, `${path}${name}`)]);
      continue;
    }
    const items: unknown[] = [];
    for (const [index, item] of value.entries()) {
      items.push(await replaceItem(item, `${path}${name}.${index}`));
    }
    entries.push([name, items]);
  }
  // oxlint-disable-next-line no-unsafe-type-assertion -- strings are replaced by strings
  return Object.fromEntries(entries) as Fields;
}

/** Services needed to read a request. */
export interface ReadingDeps extends FileReceiver {
  outbound: Outbound;
  recipes: Recipes;
}

/** Fields that a browser token may not send: they use what belongs to the organization. */
const fieldsOfKeys = ['recipe', 'webhookUrl', 'webhookEvents'];

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
  const { caller } = ctx.state;
  const json = await readJson(ctx, { bytesMax: dataUrlBodyBytesMax });
  throwIfSent(caller, json, fieldsOfKeys);
  const { body, recipe } = await deps.recipes.complete(
    caller.organizationId,
    useOf(capability),
    json,
  );
  const { webhookUrl, webhookEvents, metadata: pairs, endUser, ...sent } = body;
  const { fields, store } = await receiveDataUrls(ctx, sent, deps);
  const request = parseWith(capability.request, fields);
  const webhook = parseWebhook({ webhookUrl, webhookEvents }, deps.outbound);
  const metadata = parseMetadata({ metadata: pairs, endUser });
  const storeFiles = store && (async () => ({ request: await store(request) }));
  return { request, webhook, metadata, recipe, ...(storeFiles && { storeFiles }) };
}

/** Reads the body of a request that resumes a pipeline. @throws GatewayError INVALID_REQUEST, … */
export async function readResume(
  ctx: Context,
  { outbound }: Pick<ReadingDeps, 'outbound'>,
): Promise<{ resume: ResumeRequest; options: Pick<ParsedRequest, 'webhook' | 'metadata'> }> {
  const { webhookUrl, webhookEvents, metadata, endUser, ...fields } = await readJson(ctx);
  const resume = parseWith(resumeRequest, fields);
  const webhook = parseWebhook({ webhookUrl, webhookEvents }, outbound);
  return { resume, options: { webhook, metadata: parseMetadata({ metadata, endUser }) } };
}

async function readForm(
  ctx: Context,
  capability: Capability,
  { outbound, recipes, ...receiver }: ReadingDeps,
): Promise<ParsedRequest> {
  const { field = '', bytesMax = 0 } = capability.upload ?? {};
  const { texts: sent, files } = await receiveFiles(ctx, receiver, {
    receive: 'receiveRecording',
    files: { [field]: 1 },
    bytesMax,
  });
  const [file] = files;
  const { caller } = ctx.state;
  throwIfSent(caller, sent, fieldsOfKeys);
  const { organizationId } = caller;
  const { body: texts, recipe } = await recipes.complete(organizationId, useOf(capability), sent);
  const { async: isAsync, webhookUrl, webhookEvents: events, ...tagged } = texts;
  const { metadata: pairs, endUser, ...fields } = tagged;
  const webhook = parseWebhook({ webhookUrl, webhookEvents: parseJsonOrText(events) }, outbound);
  const metadata = parseMetadata({ metadata: parseJsonOrText(pairs), endUser });
  const fieldsWithAsync = {
    ...fields,
    ...(isAsync !== undefined && { async: parseBooleanText(isAsync) }),
  };
  if (!file) {
    // A missing file must be reported before unknown fields.
    capability.recordings?.(fieldsWithAsync);
    const request = parseWith(capability.request, fieldsWithAsync, 'form');
    return { request, webhook, metadata, recipe };
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
  return { request, webhook, metadata, recipe, storeFiles: createRecordingStore(file.stored) };
}

/**
 * Parses the fields of a request that has neither a webhook nor metadata.
 * @throws GatewayError INVALID_REQUEST
 */
export function parseCapabilityFields(capability: Capability, fields: object): ParsedRequest {
  return { request: parseWith(capability.request, fields), webhook: null, metadata: null };
}

/** Creates the `storeFiles` function of a request that contains its recording as a file. */
export function createRecordingStore({
  store,
  durationSeconds,
  sizeBytes,
  type,
}: ReceivedFile): NonNullable<ParsedRequest['storeFiles']> {
  return async () => {
    const { storageKey } = await store();
    return {
      recordings: [
        { kind: 'file', storageKey, durationSeconds: durationSeconds ?? 0, sizeBytes, type },
      ],
    };
  };
}

/**
 * Parses a form field as JSON. Returns invalid JSON, a repeated field and a value of a recipe
 * unchanged, so that the schema decides.
 */
function parseJsonOrText(text: unknown): unknown {
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
function parseBooleanText(text: Json): Json {
  return text === 'true' || (text === 'false' ? false : text);
}
