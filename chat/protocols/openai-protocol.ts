/**
 * Protocol of OpenAI's chat completions. Most providers serve it under their own base URLs.
 *
 * Sources: the types of the `openai` client, the providers' API references.
 */
import { OpenaiReader } from './openai-answer.ts';
import { addOpenaiLimit, encodeOpenai } from './openai-request.ts';
import type { ChatProtocol } from './protocol.ts';

/** Protocol of providers that serve OpenAI's chat completions. */
export const openaiProtocol: ChatProtocol = {
  path: '/chat/completions',
  headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  answerBytesMax: 32 * 1024 * 1024,
  encode: encodeOpenai,
  withTokenLimit: addOpenaiLimit,
  createReader: (response) => new OpenaiReader(response),
};
