/**
 * Parses the fields that request reasoning: Anthropic's `thinking`, and OpenRouter's `reasoning`.
 */
import { z } from 'zod';
import type { Thinking, Thought } from '../chat-body.ts';
import { readThought } from '../answer-blocks.ts';
import { isRecord, asText } from '../../domain/json.ts';
import { anyJsonObject } from '../../domain/body-schema.ts';

/** Schema of a reasoning budget in tokens. Anthropic requires at least 1024. */
const budget = z.int().min(1024);

/** Schema of Anthropic's `thinking`. */
export const thinkingSchema = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('enabled'), budget_tokens: budget }),
    z.object({ type: z.literal('adaptive') }),
    z.object({ type: z.literal('disabled') }),
  ],
  { error: 'must be one of enabled, adaptive, disabled' },
);

/** Schema of `reasoning_effort` in OpenAI's API. */
export const effortSchema = z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']);

/** Schema of OpenRouter's `reasoning`, which contains an effort or a budget in tokens. */
export const reasoningSchema = z
  .object({
    effort: effortSchema.nullish(),
    max_tokens: budget.nullish(),
    enabled: z.boolean().nullish(),
    exclude: z.literal(false, 'must be false: reasoning is part of the answer').nullish(),
  })
  .refine((fields) => fields.effort == null || fields.max_tokens == null, {
    path: ['max_tokens'],
    message: 'cannot be used together with effort',
  });

interface ReasoningRequest {
  thinking?: z.infer<typeof thinkingSchema> | null | undefined;
  reasoning?: z.infer<typeof reasoningSchema> | null | undefined;
  reasoning_effort?: string | null | undefined;
}

/** Converts the reasoning fields of a request to the fields of the internal request. */
export function convertReasoning({
  thinking: sentThinking,
  reasoning: fields,
  reasoning_effort,
}: ReasoningRequest): {
  thinking?: Thinking;
  reasoning_effort?: string;
} {
  const { effort: fieldEffort, max_tokens: tokens, enabled } = fields ?? {};
  const isOnlyEnabled = enabled === true && fieldEffort == null && tokens == null && !sentThinking;
  const chosenEffort = reasoning_effort ?? fieldEffort ?? (isOnlyEnabled ? 'medium' : undefined);
  const chosenThinking = sentThinking ?? convertThinkingBudget(tokens, enabled);
  return {
    ...(chosenEffort !== undefined && { reasoning_effort: chosenEffort }),
    ...(chosenThinking && { thinking: chosenThinking }),
  };
}

function convertThinkingBudget(
  tokens: number | null | undefined,
  enabled: boolean | null | undefined,
) {
  if (tokens != null) return { type: 'enabled' as const, budget_tokens: tokens };
  return enabled === false ? { type: 'disabled' as const } : null;
}

interface LimitedRequest {
  max_tokens?: number | null | undefined;
  max_completion_tokens?: number | null | undefined;
  thinking?: z.infer<typeof thinkingSchema> | null | undefined;
}

/**
 * Returns whether the reasoning budget is below `max_tokens`. Reasoning tokens count toward
 * `max_tokens`, so a larger budget could leave no tokens for the answer.
 */
export function isThinkingBudgetValid(wire: LimitedRequest): boolean {
  const limit = wire.max_completion_tokens ?? wire.max_tokens ?? Infinity;
  return wire.thinking?.type !== 'enabled' || wire.thinking.budget_tokens < limit;
}

/** Validation error for a reasoning budget that is not below `max_tokens`. */
export const thinkingBudgetIssue = {
  path: ['thinking', 'budget_tokens'],
  message: 'must be less than max_tokens',
};

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
