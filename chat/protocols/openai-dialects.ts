/**
 * Differences between the providers that serve OpenAI's chat completions.
 *
 * Sources: the providers' API references.
 */
import type { ChatModel } from '../../catalog/chat-model.ts';

/** Differences between a provider's API and OpenAI's. */
interface Dialect {
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
}

const defaultDialect: Dialect = {
  limitField: 'max_tokens',
  mustRequestUsage: true,
  fieldNames: {},
  reasoning: 'dropped',
  hasSignatures: false,
  acceptsTopK: false,
};
const completionLimitDialect: Dialect = { ...defaultDialect, limitField: 'max_completion_tokens' };
const dialects: Readonly<Record<string, Dialect>> = {
  openai: completionLimitDialect,
  xai: completionLimitDialect,
  groq: completionLimitDialect,
  cerebras: completionLimitDialect,
  mistral: { ...defaultDialect, mustRequestUsage: false, fieldNames: { seed: 'random_seed' } },
  google: { ...defaultDialect, hasSignatures: true },
  deepseek: { ...defaultDialect, reasoning: 'required' },
  moonshotai: { ...defaultDialect, reasoning: 'required' },
  xiaomi: { ...defaultDialect, reasoning: 'required' },
  zai: { ...defaultDialect, reasoning: 'accepted' },
  together: { ...defaultDialect, acceptsTopK: true },
};

/** Returns how the provider of a model differs from OpenAI. */
export function getDialect(model: ChatModel): Dialect {
  return dialects[model.provider] ?? defaultDialect;
}
