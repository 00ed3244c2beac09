/**
 * Reads the reasoning in chat answers. A provider may require data with its reasoning or with a
 * tool call. If Anthropic's or OpenAI's format has no field for this data, the gateway encodes it
 * as a string, which callers send back unchanged in the next request.
 */
import { z } from 'zod';
import { isRecord, asText, type JsonObject } from '../../domain/json.ts';
import { anyJsonObject } from '../http/body-schema.ts';

/**
 * Piece of reasoning in a message or a delta: a text, a complete text with its signature, or
 * encrypted reasoning. In a stream, a signed text has already been sent in unsigned pieces.
 */
export interface ThoughtPiece {
  text: string;
  signature: string;
  /** Encrypted reasoning. Empty if the piece is a text. */
  data: string;
}

/** Returns the pieces of reasoning in a message or a delta, in order. */
export function readThoughts(message: Record<string, unknown>): ThoughtPiece[] {
  const { reasoning_details: details } = message;
  const pieces = (Array.isArray(details) ? details.filter(isRecord) : [])
    .map((detail) => ({
      text: asText(detail['text']),
      signature: asText(detail['signature']),
      data: asText(detail['data']),
    }))
    .filter(({ text, signature, data }) => text !== '' || signature !== '' || data !== '');
  if (pieces.length > 0) return pieces;
  const text = asText(message['reasoning_content']) || asText(message['reasoning']);
  return text === '' ? [] : [{ text, signature: '', data: '' }];
}

/** Schema of the provider data of an assistant message's reasoning and of its next tool call. */
const providerDataSchema = z.object({
  details: z.array(anyJsonObject).optional(),
  extraContent: anyJsonObject.optional(),
});
/** Data that a provider requires back in the next request. */
export type ProviderData = z.infer<typeof providerDataSchema>;

/** Prefix of encoded provider data. A string without it comes from the provider itself. */
const providerDataPrefix = 'sg1.';

/** Encodes provider data as a string. */
export function encodeProviderData(content: ProviderData): string {
  return providerDataPrefix + Buffer.from(JSON.stringify(content)).toString('base64url');
}

/** Decodes provider data. Returns null if the string is invalid, or not from the gateway. */
export function decodeProviderData(text: string): ProviderData | null {
  if (!text.startsWith(providerDataPrefix)) return null;
  try {
    const content: unknown = JSON.parse(
      Buffer.from(text.slice(providerDataPrefix.length), 'base64url').toString(),
    );
    return providerDataSchema.safeParse(content).data ?? null;
  } catch {
    return null;
  }
}

/** Converts a piece of reasoning to an entry of `reasoning_details`. */
export function toReasoningDetail({ text, signature, data }: ThoughtPiece): JsonObject {
  return data === ''
    ? { type: 'reasoning.text', text, ...(signature !== '' && { signature }) }
    : { type: 'reasoning.encrypted', data };
}
