/**
 * Parses the fields that request reasoning: Anthropic's `thinking`, and OpenRouter's `reasoning`.
 */
import { z } from 'zod';
import type { Thinking } from '../chat-body.ts';

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
