/** Protocol of Anthropic's Messages API. */
import { AnthropicReader } from './anthropic-answer.ts';
import { encodeAnthropic } from './anthropic-request.ts';
import { addAnthropicLimit } from './anthropic-thinking.ts';
import type { ChatProtocol } from './protocol.ts';

/** Protocol of providers that serve Anthropic's Messages API. */
export const anthropicProtocol: ChatProtocol = {
  path: '/v1/messages',
  headers: (apiKey) => ({ 'x-api-key': apiKey, 'anthropic-version': '2023-06-01' }),
  answerBytesMax: 32 * 1024 * 1024,
  encode: encodeAnthropic,
  withTokenLimit: addAnthropicLimit,
  createReader: ({ provider }) => new AnthropicReader(provider),
};
