/**
 * Parses the fields that request reasoning: `reasoning_effort` of OpenAI, `thinking` of Anthropic
 * and of Z.ai, DeepSeek and Moonshot AI, and `reasoning` of OpenRouter.
 */
import { z } from 'zod';
import type { Reasoning, Thought } from '../chat-body.ts';
import { readThought } from '../answer-blocks.ts';
import { isRecord, asText } from '../../domain/json.ts';
import { anyJsonObject } from '../../domain/body-schema.ts';

/** Minimum of a reasoning budget in tokens at Anthropic. */
const budgetMin = 1024;

/**
 * Schema of `thinking`. Anthropic requires a budget with `enabled`; Z.ai, DeepSeek and Moonshot AI
 * know none.
 */
export const thinkingSchema = z
  .object({
    type: z.enum(['enabled', 'adaptive', 'disabled'], 'must be one of enabled, adaptive, disabled'),
    budget_tokens: z.int().nullish(),
  })
  .refine(({ type, budget_tokens: budget }) => type === 'disabled' || !isTooSmall(budget), {
    path: ['budget_tokens'],
    message: `must be at least ${budgetMin}`,
  });

const isTooSmall = (budget: number | null | undefined): boolean =>
  budget != null && budget < budgetMin;

/** Schema of `reasoning_effort` in OpenAI's API. */
export const effortSchema = z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']);

/**
 * Schema of OpenRouter's `reasoning`, which contains an effort or a budget in tokens. With
 * `exclude`, the model reasons, and the answer does not contain the reasoning.
 */
export const reasoningSchema = z
  .object({
    effort: effortSchema.nullish(),
    max_tokens: z.int().min(1).nullish(),
    enabled: z.boolean().nullish(),
    exclude: z.boolean().nullish(),
  })
  .refine((fields) => fields.effort == null || fields.max_tokens == null, {
    path: ['max_tokens'],
    message: 'cannot be used together with effort',
  });

type Thinking = z.infer<typeof thinkingSchema>;
interface ReasoningRequest {
  thinking?: Thinking | null | undefined;
  reasoning?: z.infer<typeof reasoningSchema> | null | undefined;
  reasoning_effort?: z.infer<typeof effortSchema> | null | undefined;
}

const modes = { enabled: 'on', adaptive: 'adaptive', disabled: 'off' } as const;

/** Converts the reasoning fields of OpenAI, OpenRouter and others. `thinking` takes precedence. */
export function convertReasoning({
  thinking,
  reasoning: fields,
  reasoning_effort: ownEffort,
}: ReasoningRequest): { reasoning?: Reasoning } {
  const sentEffort = ownEffort ?? fields?.effort;
  const effortField = ownEffort == null ? 'reasoning.effort' : 'reasoning_effort';
  const chosenEffort = convertEffort(sentEffort, effortField);
  if (thinking) return { reasoning: { ...convertThinking(thinking), ...chosenEffort } };
  const { max_tokens: tokens, enabled } = fields ?? {};
  if (enabled === false) return { reasoning: { mode: 'off', modeField: 'reasoning.enabled' } };
  if (tokens != null) {
    const budgetTokens = Math.max(tokens, budgetMin);
    const modeField = 'reasoning.max_tokens';
    return { reasoning: { mode: 'on', modeField, budgetTokens, ...chosenEffort } };
  }
  if (sentEffort != null) {
    const mode = sentEffort === 'none' ? 'off' : 'on';
    return { reasoning: { mode, modeField: effortField, ...chosenEffort } };
  }
  return enabled ? { reasoning: { mode: 'on', modeField: 'reasoning.enabled' } } : {};
}

/** Converts `thinking` to a mode and a budget. */
export function convertThinking({ type, budget_tokens: budget }: Thinking) {
  return {
    mode: modes[type],
    modeField: 'thinking',
    ...(type !== 'disabled' && budget != null && { budgetTokens: budget }),
  };
}

/** Converts an effort. `none` is a mode, and no effort. */
export function convertEffort(
  effort: z.infer<typeof effortSchema> | null | undefined,
  effortField: string,
): Pick<Reasoning, 'effort' | 'effortField'> {
  return effort == null || effort === 'none' ? {} : { effort, effortField };
}

interface LimitedRequest {
  max_tokens?: number | null | undefined;
  max_completion_tokens?: number | null | undefined;
  thinking?: Thinking | null | undefined;
}

/**
 * Returns whether the reasoning budget is below `max_tokens`. Reasoning tokens count toward
 * `max_tokens`, so a larger budget could leave no tokens for the answer.
 */
export function isThinkingBudgetValid(wire: LimitedRequest): boolean {
  const limit = wire.max_completion_tokens ?? wire.max_tokens ?? Infinity;
  return wire.thinking?.type !== 'enabled' || (wire.thinking.budget_tokens ?? 0) < limit;
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
