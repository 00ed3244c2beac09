/**
 * Differences between the providers that serve OpenAI's chat completions.
 *
 * Sources: the providers' API references.
 */
import type { ChatModel } from '../models.ts';
import { callIdRules, type CallIdRule } from './call-ids.ts';

/** Differences between a provider's API and OpenAI's. */
export interface Dialect {
  /**
   * Field for the token limit of an answer. OpenAI's reasoning models reject `max_tokens`; many
   * other providers accept only `max_tokens`.
   */
  limitField: 'max_tokens' | 'max_completion_tokens';
  /** True if the provider reports the usage of a stream only on request. */
  mustRequestUsage: boolean;
  /** Provider's field names by internal name, for the fields whose names differ. */
  fieldNames: Readonly<Record<string, string>>;
  /**
   * Handling of reasoning from earlier answers. `dropped`: not sent; `accepted`: sent; `required`:
   * sent, or an empty string if there is none, because the provider rejects tool calls without
   * reasoning.
   */
  reasoning: 'dropped' | 'accepted' | 'required';
  /** True if tool calls of the provider contain thought signatures. */
  hasSignatures: boolean;
  /** True if the provider accepts `top_k`. */
  acceptsTopK: boolean;
  callIds: CallIdRule;
  /**
   * Places of system messages: `anywhere`, or only at the `start`, because the templates of many
   * open models reject others (`System message must be at the beginning`).
   */
  systemPlace: 'anywhere' | 'start';
  /** True if the provider rejects a message of the user after the result of a tool. */
  mustAnswerResults: boolean;
  /** True if the provider knows the field `refusal` of earlier answers. */
  hasRefusals: boolean;
}

const defaultDialect: Dialect = {
  limitField: 'max_tokens',
  mustRequestUsage: true,
  fieldNames: {},
  reasoning: 'dropped',
  hasSignatures: false,
  acceptsTopK: false,
  callIds: callIdRules.openai,
  systemPlace: 'anywhere',
  mustAnswerResults: false,
  hasRefusals: false,
};
const completionLimitDialect: Dialect = { ...defaultDialect, limitField: 'max_completion_tokens' };
const dialects: Readonly<Record<string, Dialect>> = {
  openai: { ...completionLimitDialect, hasRefusals: true },
  xai: completionLimitDialect,
  groq: { ...completionLimitDialect, systemPlace: 'start' },
  cerebras: { ...completionLimitDialect, systemPlace: 'start' },
  mistral: {
    ...defaultDialect,
    mustRequestUsage: false,
    fieldNames: { seed: 'random_seed' },
    callIds: callIdRules.mistral,
    // `Unexpected role 'system' after role 'assistant'`, `Unexpected role 'user' after role 'tool'`.
    systemPlace: 'start',
    mustAnswerResults: true,
  },
  google: { ...defaultDialect, hasSignatures: true },
  deepseek: { ...defaultDialect, reasoning: 'required' },
  moonshotai: { ...defaultDialect, reasoning: 'required' },
  xiaomi: { ...defaultDialect, reasoning: 'required' },
  zai: { ...defaultDialect, reasoning: 'accepted' },
  together: { ...defaultDialect, acceptsTopK: true, systemPlace: 'start' },
};

/** Returns how the provider of a model differs from OpenAI. */
export function getDialect(model: ChatModel): Dialect {
  return dialects[model.provider] ?? defaultDialect;
}
