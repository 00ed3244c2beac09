/**
 * Translates reasoning for models with Anthropic's protocol: the requested effort or budget, and
 * the thoughts of earlier answers.
 */
import type { ChatModel } from '../models.ts';
import { isRecord, type JsonObject } from '../../domain/json.ts';
import { getCalls, type ChatBody, type ChatMessage, type Thought } from '../chat-body.ts';
import { findEffort, turnsOff } from './reasoning-options.ts';

/** Reasoning fields of Anthropic's request. */
interface SentReasoning {
  thinking?: JsonObject;
  effort?: string;
}

/** Minimum budget that Anthropic accepts, in tokens. */
const budgetMin = 1024;
/** Budget in tokens for each effort, for models that accept only budgets. */
const budgetByEffort: Readonly<Record<string, number>> = {
  minimal: 1024,
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
  max: 49_152,
};
/** Adaptive reasoning. Newer models return no thoughts unless `display` is set. */
const adaptiveThinking = { type: 'adaptive', display: 'summarized' };

/**
 * Returns the fields for the reasoning that the request specifies.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
export function toReasoning({ model, body }: { model: ChatModel; body: ChatBody }): SentReasoning {
  const { reasoning, messages } = body;
  if (!reasoning || !model.reasoning) return {};
  const isOff = turnsOff(model, reasoning);
  const { mode, budgetTokens } = reasoning;
  if ((model.thinking ?? 'budget') === 'budget') {
    if (isOff) return { thinking: { type: 'disabled' } };
    if (mode === 'default' || !canThink(model, messages)) return {};
    const budget = budgetTokens ?? budgetByEffort[reasoning.effort ?? 'medium'] ?? budgetMin;
    return { thinking: { type: 'enabled', budget_tokens: Math.max(budget, budgetMin) } };
  }
  const requestedEffort = findEffort(reasoning);
  const effort = requestedEffort === 'minimal' ? 'low' : requestedEffort;
  const isOn = mode === 'on' || mode === 'adaptive';
  return {
    ...(isOff && { thinking: { type: 'disabled' } }),
    ...(isOn && { thinking: adaptiveThinking }),
    ...(effort !== undefined && { effort }),
  };
}

/**
 * Returns whether the request can use reasoning with a budget. In a tool loop, Anthropic requires
 * the signed thoughts of earlier answers. Many clients drop them; the model then answers without
 * reasoning.
 */
function canThink(model: ChatModel, messages: readonly ChatMessage[]): boolean {
  const turn = messages.slice(messages.findLastIndex(({ role }) => role === 'user') + 1);
  const first = turn.find(
    (message) => message.role === 'assistant' && getCalls(message).length > 0,
  );
  if (first?.role !== 'assistant') return true;
  const thoughts = first.blocks.filter((block) => block.type === 'thought');
  return thoughts.some((thought) => toThinkingBlock(model, thought).length > 0);
}

/**
 * Adds the token limit of the answer. Anthropic requires a reasoning budget below this limit. Any
 * other budget is reduced to half of the limit, or removed if that is below the minimum budget.
 */
export function addAnthropicLimit(
  { thinking, ...fields }: Record<string, unknown>,
  { answerTokens }: { answerTokens: number },
): Record<string, unknown> {
  const limitedFields = { ...fields, max_tokens: answerTokens };
  if (!isRecord(thinking)) return limitedFields;
  const budget = thinking['budget_tokens'];
  if (typeof budget !== 'number' || budget < answerTokens) return { ...limitedFields, thinking };
  const halfLimit = Math.floor(answerTokens / 2);
  return halfLimit < budgetMin
    ? limitedFields
    : { ...limitedFields, thinking: { ...thinking, budget_tokens: halfLimit } };
}

/**
 * Converts a thought of an earlier answer to a content block. Returns none for an unsigned thought,
 * and for one of another provider, because the model's provider could not verify it.
 */
export function toThinkingBlock(
  model: ChatModel,
  { text, signature, data, provider }: Thought,
): JsonObject[] {
  if (provider !== model.provider) return [];
  if (data !== '') return [{ type: 'redacted_thinking', data }];
  return signature === '' ? [] : [{ type: 'thinking', thinking: text, signature }];
}
