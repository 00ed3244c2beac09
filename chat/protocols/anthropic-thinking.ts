/**
 * Translates reasoning for models with Anthropic's protocol: the requested effort or budget, and
 * the thoughts of earlier answers.
 */
import type { ChatModel } from '../models.ts';
import { isRecord, type JsonObject } from '../../domain/json.ts';
import { getCalls, type ChatBody, type ChatMessage, type Thought } from '../chat-body.ts';
import { unsupportedField } from './protocol.ts';

/** Reasoning fields of Anthropic's request. */
interface Reasoning {
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
/** Effort for each range of budgets, for models that accept only efforts. `below` is in tokens. */
const effortRanges = [
  { below: 4096, effort: 'low' },
  { below: 12_288, effort: 'medium' },
  { below: Infinity, effort: 'high' },
] as const;

/** Returns the effort that corresponds to a budget of tokens. */
export function getEffortForBudget(budgetTokens: number): string {
  return effortRanges.find(({ below }) => budgetTokens < below)?.effort ?? 'high';
}

/** Adaptive reasoning. Newer models return no thoughts unless `display` is set. */
const adaptiveThinking = { type: 'adaptive', display: 'summarized' };

/**
 * Returns the fields for the reasoning that the request specifies.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
export function toReasoning({ model, body }: { model: ChatModel; body: ChatBody }): Reasoning {
  const { thinking, reasoning_effort: requestedEffort, messages } = body;
  const thinkingKind = model.thinking ?? 'budget';
  const isOff = thinking?.type === 'disabled' || (!thinking && requestedEffort === 'none');
  if (isOff && thinkingKind === 'always') {
    const field = thinking ? 'thinking' : 'reasoning_effort';
    throw unsupportedField(field, 'this model always reasons; its lowest effort is low');
  }
  const effort =
    requestedEffort === 'none'
      ? undefined
      : requestedEffort === 'minimal'
        ? 'low'
        : requestedEffort;
  if (thinking?.type === 'default') return effort === undefined ? {} : { effort };
  if (isOff || (!thinking && effort === undefined)) return {};
  const budget = thinking?.type === 'enabled' ? thinking.budget_tokens : undefined;
  if (thinkingKind === 'budget') {
    const budgetTokens =
      budget ?? budgetByEffort[requestedEffort ?? ''] ?? budgetByEffort['medium'] ?? budgetMin;
    return canThink(model, messages)
      ? { thinking: { type: 'enabled', budget_tokens: Math.max(budgetTokens, budgetMin) } }
      : {};
  }
  const chosenEffort = effort ?? (budget === undefined ? undefined : getEffortForBudget(budget));
  return {
    thinking: adaptiveThinking,
    ...(chosenEffort !== undefined && { effort: chosenEffort }),
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
