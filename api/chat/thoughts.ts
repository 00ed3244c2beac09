/**
 * Reasoning in the answers of chats. Data that has no field in another API's messages is encoded in
 * a sealed text, which the caller returns unchanged in the next request.
 */
import { z } from 'zod';
import { isRecord, textOf, type JsonObject } from '../../domain/json.ts';
import { anyJsonObject } from '../http/body-schema.ts';

/**
 * Piece of reasoning in a message or a delta: text, a whole thought with its signature, or
 * encrypted reasoning. In a stream, the text of a signed thought was sent before in pieces without
 * a signature.
 */
export interface ThoughtPiece {
  text: string;
  signature: string;
  /** Encrypted reasoning; empty if the piece is text. */
  data: string;
}

/** Returns the reasoning in a message or a delta, in its order. */
export function thoughtsIn(message: Record<string, unknown>): ThoughtPiece[] {
  const { reasoning_details: details } = message;
  const pieces = (Array.isArray(details) ? details.filter(isRecord) : [])
    .map((detail) => ({
      text: textOf(detail['text']),
      signature: textOf(detail['signature']),
      data: textOf(detail['data']),
    }))
    .filter(({ text, signature, data }) => text !== '' || signature !== '' || data !== '');
  if (pieces.length > 0) return pieces;
  const text = textOf(message['reasoning_content']) || textOf(message['reasoning']);
  return text === '' ? [] : [{ text, signature: '', data: '' }];
}

/** Reasoning of one assistant message, and the provider's data of its next tool call. */
const sealedShape = z.object({
  details: z.array(anyJsonObject).optional(),
  extraContent: anyJsonObject.optional(),
});
/** Content of a sealed text. */
export type Sealed = z.infer<typeof sealedShape>;

/** Start of sealed texts; a text without this start is the provider's own. */
const seal = 'sg1.';

/** Writes a sealed text. */
export function sealed(content: Sealed): string {
  return seal + Buffer.from(JSON.stringify(content)).toString('base64url');
}

/** Reads a sealed text; returns null if the text is not sealed. */
export function unsealed(text: string): Sealed | null {
  if (!text.startsWith(seal)) return null;
  try {
    const content: unknown = JSON.parse(
      Buffer.from(text.slice(seal.length), 'base64url').toString(),
    );
    return sealedShape.safeParse(content).data ?? null;
  } catch {
    return null;
  }
}

/** Converts a piece of reasoning to an entry of `reasoning_details`. */
export function detailOf({ text, signature, data }: ThoughtPiece): JsonObject {
  return data === ''
    ? { type: 'reasoning.text', text, ...(signature !== '' && { signature }) }
    : { type: 'reasoning.encrypted', data };
}
