/** Reasoning of models with Anthropic's protocol: what a request asks for, and the thoughts of earlier answers. */
import type { ChatModel } from '../../catalog/chat-model.ts';
import { isRecord, type JsonObject } from '../../domain/json.ts';
import type { ChatBody, ChatMessage } from '../chat-body.ts';
import { unsupported } from './protocol.ts';

/** Fields of Anthropic's request. */
interface Reasoning {
  thinking?: JsonObject;
  effort?: string;
}

/** Smallest budget that Anthropic accepts, in tokens. */
const budgetMin = 1024;
/** Budgets in tokens of the efforts that callers name, for models that know only budgets. */
const budgets: Readonly<Record<string, number>> = {
  minimal: 1024,
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
  max: 49_152,
};
/** Efforts by the budgets below which they stand, for models that know only efforts. */
const efforts = [
  { below: 4096, effort: 'low' },
  { below: 12_288, effort: 'medium' },
  { below: Infinity, effort: 'high' },
] as const;

/** Returns the effort that stands for a budget of tokens. */
export function effortOf(budgetTokens: number): string {
  return efforts.find(({ below }) => budgetTokens < below)?.effort ?? 'high';
}

/** Shows the thoughts, which newer models omit by default. */
const adaptive = { type: 'adaptive', display: 'summarized' };

/** Returns the fields that make the model reason as the request asks. @throws GatewayError UNSUPPORTED_PARAMETER */
export function reasoningOf({ model, body }: { model: ChatModel; body: ChatBody }): Reasoning {
  const { thinking, reasoning_effort: asked, messages } = body;
  const kind = model.thinking ?? 'budget';
  const isOff = thinking?.type === 'disabled' || (!thinking && asked === 'none');
  if (isOff && kind === 'always') {
    const field = thinking ? 'thinking' : 'reasoning_effort';
    throw unsupported(field, 'this model always reasons: its lowest effort is low');
  }
  const effort = asked === 'none' ? undefined : asked === 'minimal' ? 'low' : asked;
  if (thinking?.type === 'default') return effort === undefined ? {} : { effort };
  if (isOff || (!thinking && effort === undefined)) return {};
  const budget = thinking?.type === 'enabled' ? thinking.budget_tokens : undefined;
  if (kind === 'budget') {
    const budgetTokens = budget ?? budgets[asked ?? ''] ?? budgets['medium'] ?? budgetMin;
    return canThink(messages)
      ? { thinking: { type: 'enabled', budget_tokens: Math.max(budgetTokens, budgetMin) } }
      : {};
  }
  const chosen = effort ?? (budget === undefined ? undefined : effortOf(budget));
  return { thinking: adaptive, ...(chosen !== undefined && { effort: chosen }) };
}

/**
 * Returns whether the model can go on thinking: with a budget, Anthropic requires the signed thoughts of a tool loop back,
 * which many clients drop. Without them the model answers without thinking.
 */
function canThink(messages: readonly ChatMessage[]): boolean {
  const turn = messages.slice(messages.findLastIndex(({ role }) => role === 'user') + 1);
  const first = turn.find(({ tool_calls: calls }) => calls);
  return !first || thoughtsOf(first).length > 0;
}

/**
 * Adds the bound on the answer. A budget must be smaller: it is halved to fit, and dropped if the answer is too short for any.
 */
export function boundAnthropic(
  { thinking, ...fields }: Record<string, unknown>,
  { answerTokens }: { answerTokens: number },
): Record<string, unknown> {
  const bounded = { ...fields, max_tokens: answerTokens };
  if (!isRecord(thinking)) return bounded;
  const budget = thinking['budget_tokens'];
  if (typeof budget !== 'number' || budget < answerTokens) return { ...bounded, thinking };
  const half = Math.floor(answerTokens / 2);
  return half < budgetMin
    ? bounded
    : { ...bounded, thinking: { ...thinking, budget_tokens: half } };
}

/** Returns the thoughts of an earlier answer that the provider can verify, as content blocks. Unsigned ones are left out. */
export function thoughtsOf({ reasoning_details: details = [] }: ChatMessage): JsonObject[] {
  const blocks: JsonObject[] = [];
  let text = '';
  for (const { type, text: piece, signature, data } of details) {
    if (type === 'reasoning.encrypted' && typeof data === 'string') {
      blocks.push({ type: 'redacted_thinking', data });
    }
    if (type !== 'reasoning.text') continue;
    // Clients may send the pieces of a stream as they arrived: the signature comes last.
    if (typeof piece === 'string') text += piece;
    if (typeof signature !== 'string' || signature === '') continue;
    blocks.push({ type: 'thinking', thinking: text, signature });
    text = '';
  }
  return blocks;
}
