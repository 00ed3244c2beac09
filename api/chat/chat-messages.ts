/**
 * Messages of a chat: their multimodal parts (spec §2.2), the checks of those parts against the
 * model, and their form for providers.
 */
import { z } from 'zod';
import type { ContentPart, ChatMessage } from '../../chat/chat-body.ts';
import type { ChatModel } from '../../catalog/chat-model.ts';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { received } from '../../domain/field-messages.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import type { ChatRequest } from './chat-schema.ts';

/** Text, limited to more characters than the context of every model. */
export const text = z.string().max(10_000_000);
/** Name or id in a conversation. */
export const name = z.string().min(1).max(256);
/** Name of a tool. */
export const toolName = z
  .string()
  .max(128)
  .regex(/^[\w.-]{1,128}$/, 'must be 1–128 of A–Z a–z 0–9 _ . -');
/** Makes the schema of a field that is rejected, because ignoring it would change the answer. */
export const notTaken = (reason: string) => z.null(`is not supported: ${reason}`).optional();

type Given<Fields> = { [Field in keyof Fields]?: NonNullable<Fields[Field]> };

/**
 * Returns an object without its null and undefined fields, because no provider accepts `null` in
 * all fields.
 */
export function given<Fields extends object>(fields: Fields): Given<Fields> {
  const entries = Object.entries(fields).filter(([, value]) => value != null);
  // oxlint-disable-next-line no-unsafe-type-assertion -- only entries without a value were removed
  return Object.fromEntries(entries) as Given<Fields>;
}

/** Highest number of base64 characters of a file: the size limit of a request. */
export const dataMax = 20 * 1024 * 1024;
const data = z.string().min(1).max(dataMax);
const imageUrl = z.object({
  url: data,
  detail: z.enum(['auto', 'low', 'high', 'original']).optional(),
});

/** Mark at the end of a cached prompt. A longer time in the cache has no price here. */
export const cacheControl = z
  .object({
    type: z.literal('ephemeral'),
    ttl: z.literal('5m', 'must be 5m: a longer time in the cache is not available').nullish(),
  })
  .transform(({ type }) => ({ type }));
const marked = { cache_control: cacheControl.optional() };

/** Text part. */
export const textPart = z.object({ type: z.literal('text'), text, ...marked });
/** Image part: an https URL or a base64 data URI. */
export const imagePart = z.object({
  type: z.literal('image_url'),
  image_url: z.union([imageUrl, data.transform((url) => ({ url }))]),
  ...marked,
});
/** Audio part. */
export const audioPart = z.object({
  type: z.literal('input_audio'),
  input_audio: z.object({ data, format: z.enum(['wav', 'mp3']) }),
});
/**
 * Document part. Ids of files at a provider are rejected, because those files belong to the
 * operator.
 */
export const filePart = z.object({
  type: z.literal('file'),
  file: z.object({
    file_id: notTaken('send the file itself in file_data'),
    file_data: data.startsWith('data:', 'must be a data URI'),
    filename: z.string().max(255).optional(),
  }),
  ...marked,
});

const imageData = /^data:image\/(?:png|jpeg|webp|gif);base64,[\w+/]/;

/**
 * Checks the parts of a request against the model. Providers read the URLs; addresses that no
 * provider should read are rejected here.
 * @throws GatewayError UNSUPPORTED_PARAMETER, INVALID_INPUT_URL
 */
export function checkParts(request: ChatRequest, model: ChatModel, outbound: Outbound): void {
  for (const [index, { content }] of request.body.messages.entries()) {
    if (!Array.isArray(content)) continue;
    for (const [position, part] of content.entries()) {
      checkPart(part, { path: `messages.${index}.content.${position}`, model, outbound });
    }
  }
}

interface Check {
  path: string;
  model: ChatModel;
  outbound: Outbound;
}

function checkPart(part: ContentPart, { path, model, outbound }: Check): void {
  const refuse = (message: string): GatewayError =>
    fieldError('UNSUPPORTED_PARAMETER', path, message);
  switch (part.type) {
    case 'image_url':
      if (!model.supportsImages) throw refuse(`${model.id} does not accept images`);
      return checkImageUrl(part.image_url.url, `${path}.image_url.url`, outbound);
    case 'file':
      if (!model.supportsImages) throw refuse(`${model.id} does not accept documents`);
      if (part.file.file_url !== undefined) checkUrl(part.file.file_url, path, outbound);
      return undefined;
    case 'input_audio':
      if (!model.supportsAudio) throw refuse(`${model.id} does not accept audio`);
      return undefined;
    case 'text':
    case 'refusal':
      return undefined;
  }
}

function checkImageUrl(url: string, path: string, outbound: Outbound): void {
  if (!url.startsWith('data:')) return checkUrl(url, path, outbound);
  if (imageData.test(url.slice(0, 64))) return undefined;
  const message = 'data URIs must be base64 of a PNG, JPEG, WebP or GIF';
  throw fieldError('INVALID_INPUT_URL', path, message + received(url));
}

function checkUrl(url: string, path: string, outbound: Outbound): void {
  try {
    outbound.check(url);
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw fieldError('INVALID_INPUT_URL', path, error.message + received(url));
  }
}

interface WireMessage {
  role: string;
  reasoning?: string | null;
  reasoning_content?: string | null;
}

/**
 * Converts a parsed message: drops null fields, turns the developer role into system, and collects
 * the reasoning in one field, which providers name differently.
 */
export function toMessage({ reasoning, ...wire }: WireMessage): ChatMessage {
  const fields = {
    ...wire,
    role: wire.role === 'developer' ? 'system' : wire.role,
    reasoning_content: wire.reasoning_content ?? reasoning,
  };
  // oxlint-disable-next-line no-unsafe-type-assertion -- the schemas have validated the message
  return given(fields) as ChatMessage;
}
