/**
 * Media in chat requests: reads data URIs, checks that a model supports the parts and that the
 * addresses of URLs are public, because providers fetch them, and signs URLs of uploaded pictures.
 */
import type { ChatModel } from '../models.ts';
import { iterateParts, type ChatBody, type ChatMessage, type ContentPart } from '../chat-body.ts';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { formatReceived } from '../../domain/field-messages.ts';
import { isId } from '../../domain/ids.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import type { Inputs } from '../../storage/inputs/inputs.ts';
import type { Storage } from '../../storage/storage.ts';
import type { ChatRequest, IncomingChat } from './chat-fields.ts';
import type { Caller } from '../../identity/access.ts';

/** Content of a data URI. */
export interface DataUrl {
  /** Media type in lower case, without parameters. Empty if the URI has none. */
  type: string;
  /** File name in the parameter `name` or `filename`. */
  name?: string;
  bytes: Buffer;
}

/** Maximum length of the media type and its parameters. */
const headLengthMax = 1024;

/** Parses a data URI. Returns null if it is malformed or has no data. */
function parseDataUrl(url: string): DataUrl | null {
  const [, head] = /^data:([^,]*),/is.exec(url.slice(0, headLengthMax)) ?? [];
  if (head === undefined) return null;
  const [type = '', ...parameters] = head.split(';').map((parameter) => parameter.trim());
  const isBase64 = parameters.at(-1)?.toLowerCase() === 'base64';
  const data = url.slice('data:,'.length + head.length);
  const bytes = isBase64 ? decodeBase64(data) : decodePercent(data);
  if (!bytes) return null;
  const [nameText] = parameters.flatMap(
    (parameter) => /^(?:file)?name=(.*)$/is.exec(parameter)?.[1] ?? [],
  );
  const name = nameText === undefined ? '' : (unescape(nameText) ?? nameText).replaceAll('"', '');
  return { type: type.toLowerCase(), bytes, ...(name !== '' && { name }) };
}

/** Formats a data URI in base64. */
function formatDataUrl({ type, bytes }: DataUrl): string {
  return `data:${type};base64,${bytes.toString('base64')}`;
}

/**
 * Decodes base64, also with line breaks, with the letters of base64url, without padding, or
 * percent-encoded. Returns null for other characters and if there are no bytes.
 */
function decodeBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length > 0 && bytes.toString('base64') === text) return bytes;
  const unescaped = text.includes('%') ? unescape(text) : text;
  const letters = unescaped?.replaceAll(/[\t\n\f\r ]/g, '').replace(/={1,2}$/, '') ?? '';
  const isValid = letters !== '' && letters.length % 4 !== 1 && !/[^\w+/-]/.test(letters);
  return isValid ? Buffer.from(letters, 'base64') : null;
}

function decodePercent(text: string): Buffer | null {
  const unescaped = unescape(text);
  return unescaped ? Buffer.from(unescaped) : null;
}

/** Decodes percent-encoded text. Returns null if it is malformed. */
function unescape(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

const latin1 = (bytes: Buffer, start: number, end: number): string =>
  bytes.subarray(start, end).toString('latin1');

/** Types that the first bytes of a file prove. */
const detectors: readonly [type: string, matches: (bytes: Buffer) => boolean][] = [
  ['image/png', (bytes) => latin1(bytes, 0, 8) === '\x89PNG\r\n\x1A\n'],
  ['image/jpeg', (bytes) => latin1(bytes, 0, 3) === '\xFF\xD8\xFF'],
  ['image/gif', (bytes) => /^GIF8[79]a$/.test(latin1(bytes, 0, 6))],
  ['image/webp', (bytes) => /^RIFF[^]{4}WEBP$/.test(latin1(bytes, 0, 12))],
  ['application/pdf', (bytes) => latin1(bytes, 0, 1024).includes('%PDF-')],
  ['audio/wav', (bytes) => /^RIFF[^]{4}WAVE$/.test(latin1(bytes, 0, 12))],
  ['audio/mpeg', (bytes) => /^(?:ID3|\xFF[\xE2-\xFF])/.test(latin1(bytes, 0, 3))],
  ['video/webm', (bytes) => latin1(bytes, 0, 4) === '\x1A\x45\xDF\xA3'],
];

/**
 * Returns the type of the bytes, or the named type if the bytes prove none. Empty if neither is
 * known, or if a picture or a PDF is named and the bytes are none.
 */
function detectType({ type, bytes }: DataUrl): string {
  const found = detectors.find(([, matches]) => matches(bytes))?.[0];
  if (found !== undefined) return found;
  const isUnnamed = type === '' || type === 'application/octet-stream';
  if (!isUnnamed) return /^image\/|^application\/pdf$/.test(type) ? '' : type;
  if (latin1(bytes, 4, 8) === 'ftyp') return 'video/mp4';
  return isText(bytes) ? 'text/plain' : '';
}

function isText(bytes: Buffer): boolean {
  try {
    return !new TextDecoder('utf-8', { fatal: true }).decode(bytes).includes('\0');
  } catch {
    return false;
  }
}

/**
 * Replaces the data URIs in the messages by canonical ones: standard base64, and the type of the
 * bytes. A provider rejects others, or bills a picture that it cannot see.
 * @throws GatewayError INVALID_INPUT_URL
 */
export function readMedia({ messages }: ChatBody): void {
  for (const message of messages) {
    if (message.role === 'assistant' || typeof message.content === 'string') continue;
    message.content = message.content.map(readPart);
  }
}

function readPart(part: ContentPart): ContentPart {
  switch (part.type) {
    case 'text':
      return part;
    case 'image_url': {
      const { url, ...image } = part.image_url;
      if (!isDataUrl(url)) return part;
      const data = parseDataUrl(url);
      const type = data ? detectType(data) : '';
      if (data && type.startsWith('image/')) {
        return { ...part, image_url: { ...image, url: formatDataUrl({ ...data, type }) } };
      }
      const rule = 'a data URI must contain a PNG, JPEG, WebP or GIF image in base64';
      throw invalidUrl(`${part.path}.image_url.url`, rule, url);
    }
    case 'input_audio': {
      const { data: base64, format } = part.input_audio;
      const bytes = decodeBase64(base64);
      if (!bytes) throw invalidUrl(`${part.path}.input_audio.data`, 'must be base64', base64);
      const type = detectType({ type: '', bytes });
      const formats: Record<string, string> = { 'audio/wav': 'wav', 'audio/mpeg': 'mp3' };
      const data = bytes.toString('base64');
      return { ...part, input_audio: { data, format: formats[type] ?? format } };
    }
    case 'video_url': {
      const { url } = part.video_url;
      const data = parseDataUrl(url);
      const type = data ? detectType(data) : '';
      if (data && type.startsWith('video/')) {
        return { ...part, video_url: { url: formatDataUrl({ ...data, type }) } };
      }
      throw invalidUrl(`${part.path}.video_url.url`, 'must be a data URI of a video', url);
    }
    case 'file':
      break;
  }
  return part.file.file_data === undefined ? part : readDocument(part, part.file.file_data);
}

/** Reads a document. One that is a picture becomes an image part. */
function readDocument(part: Extract<ContentPart, { type: 'file' }>, sentUrl: string): ContentPart {
  const path = `${part.path}.file.file_data`;
  const data = parseDataUrl(sentUrl);
  if (!data) throw invalidUrl(path, 'must be a data URI with base64 data', sentUrl);
  const type = detectType(data);
  const url = formatDataUrl({ ...data, type });
  if (type === '') {
    const rule =
      data.type === 'application/pdf'
        ? 'must contain a PDF, as its type says'
        : 'must name the type of its data, such as application/pdf';
    throw invalidUrl(path, rule, sentUrl);
  }
  const { path: partPath, cache_control: marker } = part;
  const located = { path: partPath, ...(marker && { cache_control: marker }) };
  if (isPicture(type)) return { ...located, type: 'image_url', image_url: { url } };
  const filename = part.file.filename ?? data.name;
  const file = { file_data: url, ...(filename !== undefined && { filename }) };
  return { ...located, type: 'file', file };
}

const isPicture = (type: string): boolean => type.startsWith('image/');
const isDataUrl = (url: string): boolean => /^data:/i.test(url.slice(0, 5));

function invalidUrl(path: string, rule: string, received: string): GatewayError {
  return fieldError('INVALID_INPUT_URL', path, rule + formatReceived(received));
}

/**
 * Checks the message parts of a request.
 * @throws GatewayError UNSUPPORTED_PARAMETER, INVALID_INPUT_URL
 */
export function checkParts(request: ChatRequest, model: ChatModel, outbound: Outbound): void {
  for (const part of iterateParts(request.body)) {
    const { path } = part;
    const createUnsupportedError = (kind: string): GatewayError =>
      fieldError('UNSUPPORTED_PARAMETER', path, `${model.id} does not accept ${kind}`);
    switch (part.type) {
      case 'image_url':
        if (!model.supportsImages) throw createUnsupportedError('images');
        checkImageUrl(part.image_url.url, `${path}.image_url.url`, outbound);
        break;
      case 'file':
        if (!model.supportsImages) throw createUnsupportedError('documents');
        if (part.file.file_url !== undefined) {
          checkUrl(part.file.file_url, `${path}.file.file_url`, outbound);
        }
        break;
      case 'input_audio':
        if (!model.supportsAudio) throw createUnsupportedError('audio');
        break;
      case 'video_url':
        if (!model.supportsVideo) throw createUnsupportedError('video');
        break;
      case 'text':
        break;
    }
  }
}

function checkImageUrl(url: string, path: string, outbound: Outbound): void {
  if (!isId('upload', url) && !isDataUrl(url)) checkUrl(url, path, outbound);
}

function checkUrl(url: string, path: string, outbound: Outbound): void {
  try {
    outbound.check(url);
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw invalidUrl(path, error.message, url);
  }
}

/** Minimum lifetime of the signed URL of a picture, in milliseconds. */
const urlTtlMs = 3_600_000;
/**
 * Time for which the signed URL of a picture stays the same, in milliseconds. With another URL, the
 * provider would not find the conversation in its prompt cache.
 */
const urlStepMs = 24 * 3_600_000;

/** Returns whether a part is an uploaded picture, referenced by its file id. */
function isUpload(part: ContentPart): part is Extract<ContentPart, { type: 'image_url' }> {
  return part.type === 'image_url' && isId('upload', part.image_url.url);
}

/**
 * Returns the chat request with the ids of uploaded pictures replaced by signed URLs, which
 * providers can fetch.
 * @throws GatewayError INVALID_INPUT_URL if a file is not a picture of this organization
 */
export async function signUploads(
  { caller, request }: IncomingChat<Pick<Caller, 'organizationId' | 'token'>>,
  { inputs, storage }: { inputs: Inputs; storage: Storage },
): Promise<ChatRequest> {
  if (![...iterateParts(request.body)].some(isUpload)) return request;
  const sign = async (part: ContentPart): Promise<ContentPart> => {
    if (!isUpload(part)) return part;
    const field = `${part.path}.file_id`;
    const source = { field, url: part.image_url.url, medium: 'image' as const };
    const input = await inputs.resolve(source, caller);
    if (input.kind !== 'file') return part;
    const url = await storage.urlOf(input.storageKey, urlTtlMs, { stepMs: urlStepMs });
    return { ...part, image_url: { ...part.image_url, url } };
  };
  const messages: ChatMessage[] = [];
  for (const message of request.body.messages) {
    if (message.role === 'assistant' || typeof message.content === 'string') {
      messages.push(message);
      continue;
    }
    const content: ContentPart[] = [];
    for (const part of message.content) content.push(await sign(part));
    messages.push({ ...message, content });
  }
  return { ...request, body: { ...request.body, messages } };
}
