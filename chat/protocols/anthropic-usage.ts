/** Translates the usage and the stop reasons that Anthropic's Messages API returns. */
import type { TokenUsage } from '../chat-price.ts';
import { parseTokenCount } from './protocol.ts';

const finishReasons: Readonly<Record<string, string>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  pause_turn: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
};

/**
 * Converts a stop reason to a finish reason; returns null if it is missing. The tool call of a
 * structured answer is the end of the answer, not a call for the caller.
 */
export function toFinishReason(stopReason: unknown, isStructuredAnswer: boolean): string | null {
  if (typeof stopReason !== 'string') return null;
  if (isStructuredAnswer && stopReason === 'tool_use') return 'stop';
  return finishReasons[stopReason] ?? 'stop';
}

/**
 * Parses the usage that Anthropic reports; missing fields stay missing. Anthropic's `input_tokens`
 * does not include the tokens read from and written to the cache; `inputTokens` includes them.
 */
export function parseAnthropicUsage(reported: Record<string, unknown>): Partial<TokenUsage> {
  const uncachedInputTokens = parseTokenCount(reported['input_tokens']);
  const outputTokens = parseTokenCount(reported['output_tokens']);
  const cachedInputTokens = parseTokenCount(reported['cache_read_input_tokens']) ?? 0;
  const cacheWriteTokens = parseTokenCount(reported['cache_creation_input_tokens']) ?? 0;
  return {
    ...(uncachedInputTokens !== undefined && {
      inputTokens: uncachedInputTokens + cachedInputTokens + cacheWriteTokens,
      cachedInputTokens,
      cacheWriteTokens,
    }),
    ...(outputTokens !== undefined && { outputTokens }),
  };
}
