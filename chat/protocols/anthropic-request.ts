/**
 * Translates the internal chat request to Anthropic's Messages API. A field that Anthropic's API
 * does not have is rejected, unless its value has no effect.
 */
import type { ChatBody } from '../chat-body.ts';
import { copyCacheControl, joinSystemMessages, groupIntoTurns } from './anthropic-content.ts';
import { toReasoning } from './anthropic-thinking.ts';
import { toTools } from './anthropic-tools.ts';
import { unsupportedField, type ChatCall } from './protocol.ts';
import { toStructuredAnswer } from './structured-answer.ts';

/** Fields that Anthropic's API lacks, with values that can be dropped without an effect. */
const neutralValues: Readonly<Record<string, readonly unknown[]>> = {
  n: [1],
  seed: [],
  logprobs: [false],
  top_logprobs: [0],
  logit_bias: [],
  presence_penalty: [0],
  frequency_penalty: [0],
  prediction: [],
  verbosity: ['medium'],
  // These fields make OpenAI store the request.
  metadata: [],
  store: [false],
};
/** Fields that are not sent, because they are hints for OpenAI and do not change the answer. */
const ignoredHints: ReadonlySet<string> = new Set([
  'prompt_cache_key',
  'prompt_cache_retention',
  'safety_identifier',
]);
const supportedFields: ReadonlySet<string> = new Set([
  'messages',
  'temperature',
  'top_p',
  'stop',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'reasoning_effort',
  'thinking',
  'top_k',
  'user',
  'cache_control',
]);

/**
 * Throws if a field does not exist in Anthropic's API and its value has an effect. @throws
 * GatewayError UNSUPPORTED_PARAMETER
 */
function throwIfUnsupported(body: ChatBody): void {
  for (const [field, value] of Object.entries(body)) {
    if (supportedFields.has(field) || ignoredHints.has(field)) continue;
    const allowed = neutralValues[field] ?? [];
    if (!allowed.includes(value)) throw unsupportedField(field, 'this model does not support it');
  }
}

/**
 * Translates a request to Anthropic's format.
 * @throws GatewayError UNSUPPORTED_PARAMETER if the model does not support a field; INVALID_REQUEST
 * if there is no user message
 */
export function encodeAnthropic(call: ChatCall): Record<string, unknown> {
  const { model, body, stream } = call;
  throwIfUnsupported(body);
  if (body.temperature !== undefined && body.temperature > 1) {
    throw unsupportedField('temperature', 'must be at most 1 for this model');
  }
  const { thinking, effort } = toReasoning(call);
  const answer = toStructuredAnswer(call, thinking !== undefined);
  const system = joinSystemMessages(body.messages);
  const config = {
    ...(effort !== undefined && { effort }),
    ...(answer.format && { format: answer.format }),
  };
  // JSON omits undefined fields.
  return {
    model: model.upstreamModel,
    messages: groupIntoTurns(body.messages),
    system: system.length > 0 ? system : undefined,
    temperature: body.temperature,
    top_p: body.top_p,
    top_k: body.top_k,
    stop_sequences: body.stop === undefined ? undefined : [body.stop].flat(),
    metadata: body.user === undefined ? undefined : { user_id: body.user },
    thinking,
    ...toTools(body, answer),
    ...(Object.keys(config).length > 0 && { output_config: config }),
    ...copyCacheControl(body),
    ...(stream && { stream: true }),
  };
}
