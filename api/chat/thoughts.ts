/**
 * Reads reasoning from answers of chats. If Anthropic's or OpenAI's format has no field for a
 * provider's data, the data is encoded in a "sealed" text, which callers send back unchanged in the
 * next request.
 */
import { z } from 'zod';
import { isRecord, asText, type JsonObject } from '../../domain/json.ts';
import { anyJsonObject } from '../http/body-schema.ts';

/**
 * Piece of reasoning in a message or a delta: text, a whole thought with its signature, or
 * encrypted reasoning. In a stream, the text of a signed thought has already been sent in unsigned
 * pieces.
 */
export interface ThoughtPiece {
  text: string;
  signature: string;
  /** Encrypted reasoning; empty if the piece is text. */
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

/** Reasoning of an assistant message, and provider data for its next tool call. */
const sealedSchema = z.object({
  details: z.array(anyJsonObject).optional(),
  extraContent: anyJsonObject.optional(),
});
/** Content of a sealed string. */
export type SealedContent = z.infer<typeof sealedSchema>;

/** Prefix of sealed strings. A string without this prefix comes from the provider. */
const sealPrefix = 'sg1.';

/** Encodes content as a sealed string. */
export function seal(content: SealedContent): string {
  return sealPrefix + Buffer.from(JSON.stringify(content)).toString('base64url');
}

/** Decodes a sealed string. Returns null if the string is not sealed, or is invalid. */
export function unseal(text: string): SealedContent | null {
  if (!text.startsWith(sealPrefix)) return null;
  try {
    const content: unknown = JSON.parse(
      Buffer.from(text.slice(sealPrefix.length), 'base64url').toString(),
    );
    return sealedSchema.safeParse(content).data ?? null;
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
