/** Translates the internal chat request to OpenAI's chat completions, as each provider requires. */
import type { ChatModel } from '../../catalog/chat-model.ts';
import type { ChatBody } from '../chat-body.ts';
import { getEffortForBudget } from './anthropic-thinking.ts';
import { getDialect } from './openai-dialects.ts';
import { toMessages } from './openai-messages.ts';
import { unsupportedField, type ChatCall } from './protocol.ts';

/**
 * Adds the token limit of the answer to a request. With `prediction`, OpenAI accepts only
 * `max_tokens` (source: OpenAI's guide to Predicted Outputs, limitations).
 */
export function addOpenaiLimit(
  fields: Record<string, unknown>,
  { model, answerTokens }: { model: ChatModel; answerTokens: number },
): Record<string, unknown> {
  const isPredicted = model.provider === 'openai' && fields['prediction'] !== undefined;
  const limitField = isPredicted ? 'max_tokens' : getDialect(model).limitField;
  return { ...fields, [limitField]: answerTokens };
}

/**
 * Translates a request for a provider with OpenAI's protocol.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
export function encodeOpenai({ model, body, stream }: ChatCall): Record<string, unknown> {
  const dialect = getDialect(model);
  const { messages, tools, thinking: _, cache_control: __, ...options } = body;
  if (options.top_k !== undefined && !dialect.acceptsTopK) {
    throw unsupportedField('top_k', 'this model does not support it');
  }
  const request: Record<string, unknown> = {
    model: model.upstreamModel,
    messages: toMessages(model, messages),
    ...(tools && { tools: tools.map(({ cache_control: ___, ...tool }) => tool) }),
    ...toEffort(model, body),
  };
  for (const [field, value] of Object.entries(options)) {
    request[dialect.fieldNames[field] ?? field] = value;
  }
  if (stream) {
    request['stream'] = true;
    // The price could only be estimated if the stream reported no usage.
    if (dialect.mustRequestUsage) request['stream_options'] = { include_usage: true };
  }
  return request;
}

/**
 * Returns the effort that corresponds to the requested reasoning budget; an empty object if no
 * budget is requested.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
function toEffort(model: ChatModel, { thinking }: ChatBody): { reasoning_effort?: string } {
  if (thinking?.type !== 'enabled') return {};
  if (!model.reasoning) throw unsupportedField('thinking', 'this model does not reason');
  return { reasoning_effort: getEffortForBudget(thinking.budget_tokens) };
}
