/** Fields of a response of OpenAI's Responses API besides its output: its settings, state and usage. */
import type { ChatBill } from '../chat-run.ts';
import { splitEndUser } from '../../domain/end-users.ts';
import { isRecord } from '../../domain/json.ts';
import type { ChatContext } from './completions-answer.ts';

/** Formats usage. Cached and reasoning tokens are 0 if the provider does not report them. */
export function formatUsage({ usage }: ChatBill): object {
  const { inputTokens, outputTokens } = usage;
  const { cachedInputTokens = 0, cacheWriteTokens = 0, reasoningTokens = 0 } = usage;
  return {
    input_tokens: inputTokens,
    input_tokens_details: {
      cached_tokens: cachedInputTokens,
      cache_write_tokens: cacheWriteTokens,
    },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: inputTokens + outputTokens,
  };
}

/**
 * Returns the response fields that repeat fields of the request. Fields that the request lacks have
 * OpenAI's defaults, because its types and those of Open Responses require them.
 */
function formatSettings({ body, maxTokens, metadata }: ChatContext['request']): object {
  const { tools = [], tool_choice: choice = 'auto', response_format: format } = body;
  const { mode, effort = null } = body.reasoning ?? {};
  return {
    frequency_penalty: body.frequency_penalty ?? 0,
    instructions: null,
    max_output_tokens: maxTokens,
    max_tool_calls: null,
    metadata: splitEndUser(metadata).metadata,
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    presence_penalty: body.presence_penalty ?? 0,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: { effort: mode === 'off' ? 'none' : effort, summary: null },
    safety_identifier: body.safety_identifier ?? null,
    temperature: body.temperature ?? 1,
    text: {
      format: formatTextFormat(format),
      ...(body.verbosity && { verbosity: body.verbosity }),
    },
    tool_choice: typeof choice === 'string' ? choice : { type: 'function', ...choice.function },
    tools: tools.map(({ type, function: tool }) => ({
      type,
      description: null,
      parameters: null,
      strict: null,
      ...tool,
    })),
    top_logprobs: 0,
    top_p: body.top_p ?? 1,
  };
}

function formatTextFormat(format: ChatContext['request']['body']['response_format']): object {
  if (!format) return { type: 'text' };
  const { type, json_schema: schema } = format;
  return { type, ...(isRecord(schema) && schema) };
}

/** Converts a time in milliseconds to whole seconds. */
export const toUnixSeconds = (ms: number): number => Math.floor(ms / 1000);

/** Formats a response with the fields of its state, which replace the defaults of one that begins. */
export function formatResponse(
  { chat, request }: ChatContext,
  createdAt: number,
  state: object,
): object {
  return {
    id: chat.id,
    object: 'response',
    created_at: createdAt,
    background: request.background ?? false,
    completed_at: null,
    error: null,
    incomplete_details: null,
    model: chat.servedBy.model,
    previous_response_id: null,
    service_tier: 'default',
    store: request.background ?? false,
    truncation: 'disabled',
    usage: null,
    ...formatSettings(request),
    ...state,
  };
}
