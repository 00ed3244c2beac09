/**
 * Protocols of chat providers: OpenAI's chat completions, which most serve under their own base URLs, and
 * Anthropic's Messages API.
 */
import { AnthropicReader } from './anthropic-answer.ts';
import { encodeAnthropic } from './anthropic-request.ts';
import { addAnthropicLimit } from './anthropic-thinking.ts';
import type { ChatProtocol } from './protocol.ts';
import { OpenaiReader } from './openai-answer.ts';
import { addOpenaiLimit, encodeOpenai } from './openai-request.ts';

/** Protocol of providers that serve Anthropic's Messages API. */
export const anthropicProtocol: ChatProtocol = {
  path: '/v1/messages',
  headers: (apiKey) => ({ 'x-api-key': apiKey, 'anthropic-version': '2023-06-01' }),
  answerBytesMax: 32 * 1024 * 1024,
  encode: encodeAnthropic,
  withTokenLimit: addAnthropicLimit,
  createReader: (response) => new AnthropicReader(response),
};

/** Protocol of providers that serve OpenAI's chat completions. */
export const openaiProtocol: ChatProtocol = {
  path: '/chat/completions',
  headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  answerBytesMax: 32 * 1024 * 1024,
  encode: encodeOpenai,
  withTokenLimit: addOpenaiLimit,
  createReader: (response) => new OpenaiReader(response),
};
