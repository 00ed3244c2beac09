/**
 * `data:` URLs in Studio requests: small files inside the JSON body. They are handled like the
 * uploaded files of a form: the stored request contains file ids instead.
 */
import { Readable } from 'node:stream';
import type { ReceivedFile } from '../../storage/inputs/request-files.ts';
import { fieldError } from '../../domain/errors.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Context } from '../context.ts';
import { parseIdempotencyKey } from '../http/idempotency-key.ts';
import type { FileReceiver } from './body-files.ts';

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
 * Receives the `data:` URLs in the fields of a request whose names end with `Url` or `Urls`.
 * @throws GatewayError INVALID_INPUT_URL, FILE_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE,
 * STORAGE_QUOTA_EXCEEDED
 */
export async function receiveDataUrls(
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
    const pendingFile = requestFiles.receiveMedia({ field: path, stream }, caller);
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

/** Replaces, one after the other, the strings in fields whose names end with `Url` or `Urls`. */
async function replaceUrls<Fields extends Record<string, unknown>>(
  fields: Fields,
  replace: ReplaceText,
): Promise<Fields> {
  const replacedFields: Record<string, unknown> = { ...fields };
  for (const [name, value] of Object.entries(fields)) {
    if (!/Urls?$/.test(name)) continue;
    if (typeof value === 'string') replacedFields[name] = await replace(value, name);
    if (!Array.isArray(value)) continue;
    const items: unknown[] = [];
    for (const [index, item] of value.entries()) {
      items.push(typeof item === 'string' ? await replace(item, `${name}.${index}`) : item);
    }
    replacedFields[name] = items;
  }
  // oxlint-disable-next-line no-unsafe-type-assertion -- strings are replaced by strings
  return replacedFields as Fields;
}
