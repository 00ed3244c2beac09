/**
 * Translates the internal chat request to Anthropic's Messages API. A field that Anthropic's API
 * does not have is rejected, unless its value changes nothing.
 */
import type { ChatBody } from '../chat-body.ts';
import { copyCacheControl, joinSystemMessages, groupIntoTurns } from './anthropic-content.ts';
import { toReasoning } from './anthropic-thinking.ts';
import { toTools } from './anthropic-tools.ts';
import { unsupportedField, type ChatCall } from './protocol.ts';
import { toStructuredAnswer } from './structured-answer.ts';

/**
 * Fields that Anthropic's API lacks, with the values that can be dropped because they are the
 * default.
 */
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
  // With these fields, OpenAI stores the request.
  metadata: [],
  store: [false],
};
/** Fields that are not sent, because they are hints for OpenAI and do not change the answer. */
const hints: ReadonlySet<string> = new Set([
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
 * Throws for a field that Anthropic's API does not have. @throws GatewayError UNSUPPORTED_PARAMETER
 */
function throwIfUnsupported(body: ChatBody): void {
  for (const [field, value] of Object.entries(body)) {
    if (supportedFields.has(field) || hints.has(field)) continue;
    const allowed = neutralValues[field] ?? [];
    if (!allowed.includes(value)) throw unsupportedField(field, 'this model does not support it');
  }
}

/**
 * Translates a request.
 * @throws GatewayError UNSUPPORTED_PARAMETER, INVALID_REQUEST
 */
export function encodeAnthropic(call: ChatCall): Record<string, unknown> {
  const { model, body, stream } = call;
  throwIfUnsupported(body);
  if (body.temperature !== undefined && body.temperature > 1) {
    throw unsupportedField('temperature', 'this model accepts at most 1');
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
