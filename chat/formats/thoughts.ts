/**
 * Reads the reasoning in chat answers. A provider may require data with its reasoning or with a
 * tool call. If Anthropic's or OpenAI's format has no field for this data, the gateway encodes it
 * as a string, which callers send back unchanged in the next request.
 */
import { z } from 'zod';
import { readThought } from '../answer-blocks.ts';
import type { Thought } from '../chat-body.ts';
import { isRecord, asText } from '../../domain/json.ts';
import { anyJsonObject } from '../../domain/body-schema.ts';

/** Piece of reasoning in a delta. */
export interface ThoughtPiece extends Thought {
  /** True if the text is a whole thought, which has already been sent in pieces. */
  isWhole: boolean;
}

/** Returns the pieces of reasoning in a delta: texts, whole texts, and encrypted reasoning. */
export function readThoughts(delta: Record<string, unknown>): ThoughtPiece[] {
  const { reasoning_details: details } = delta;
  const pieces = (Array.isArray(details) ? details.filter(isRecord) : [])
    .map((detail) => ({
      ...readThought(detail),
      isWhole: typeof detail['signature'] === 'string',
    }))
    .filter(({ text, signature, data }) => text !== '' || signature !== '' || data !== '');
  if (pieces.length > 0) return pieces;
  const text = asText(delta['reasoning_content']) || asText(delta['reasoning']);
  return text === '' ? [] : [{ ...readThought({ text }), isWhole: false }];
}

/**
 * Schema of provider data: of an assistant message's reasoning, of its next tool call, or of one
 * thought with its provider.
 */
const providerDataSchema = z.object({
  details: z.array(anyJsonObject).optional(),
  extraContent: anyJsonObject.optional(),
  thought: z.object({ provider: z.string(), signature: z.string(), data: z.string() }).optional(),
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

/** Makers of thoughts that a message of Anthropic's API contains as they are. */
const unsealedProviders: ReadonlySet<string> = new Set(['', 'anthropic']);

/**
 * Converts a thought to a content block of Anthropic's API. The block has no field for the provider,
 * so the data of any other provider than Anthropic are encoded together with its name.
 */
export function toThoughtBlock({ text, signature, data, provider }: Thought) {
  const isSealed = !unsealedProviders.has(provider) && (signature !== '' || data !== '');
  const sealed = isSealed && encodeProviderData({ thought: { provider, signature, data } });
  return data === ''
    ? { type: 'thinking' as const, thinking: text, signature: sealed || signature }
    : { type: 'redacted_thinking' as const, data: sealed || data };
}

/** Reads a thought from the fields of a content block. */
export function readThoughtBlock(block: {
  thinking?: string;
  signature?: string | null | undefined;
  data?: string;
}): Thought {
  const { thinking: text = '', data = '' } = block;
  const signature = block.signature ?? '';
  return readThought({ text, signature, data, ...decodeProviderData(signature || data)?.thought });
}
