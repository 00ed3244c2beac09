/** Formats the fields of a response in OpenAI's Responses API that every response has. */
import { isRecord } from '../../domain/json.ts';
import type { ChatContext } from './completions-answer.ts';

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
    metadata: metadata ?? {},
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

/**
 * Formats a response. `state` contains the fields that depend on how far the response has come, and
 * `createdAt` is in Unix seconds.
 */
export function formatResponse(
  { chat, request }: ChatContext,
  createdAt: number,
  state: object,
): object {
  return {
    id: chat.id,
    object: 'response',
    created_at: createdAt,
    background: false,
    completed_at: null,
    error: null,
    incomplete_details: null,
    model: chat.servedBy.model,
    previous_response_id: null,
    service_tier: 'default',
    store: false,
    truncation: 'disabled',
    usage: null,
    ...formatSettings(request),
    ...state,
  };
}
