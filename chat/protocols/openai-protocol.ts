/**
 * Encodes requests for OpenAI's chat completions and decodes its answers. Most providers serve this
 * protocol under their own base URLs.
 *
 * Sources: the types of the `openai` client, the providers' API references.
 */
import { asRecord, asText, isRecord } from '../../domain/json.ts';
import { errorFromReport } from '../upstream-failures.ts';
import { joinOutput, parseErrorReport, parseOpenaiUsage, readChoices } from './openai-parts.ts';
import { OpenaiReader } from './openai-reader.ts';
import { addOpenaiLimit, encodeOpenai } from './openai-request.ts';
import type { ChatAnswer, ChatProtocol } from './protocol.ts';

/** Protocol of providers that serve OpenAI's chat completions. */
export const openaiProtocol: ChatProtocol = {
  path: '/chat/completions',
  headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  encode: encodeOpenai,
  withTokenLimit: addOpenaiLimit,
  decode: decodeOpenai,
  createReader: (stream) => new OpenaiReader(stream),
  toGatewayError: ({ status, body, retryAfter }) =>
    errorFromReport(status, { ...parseErrorReport(body), retryAfter }),
};

function decodeOpenai(answer: unknown, provider: string): ChatAnswer | null {
  const choices = readChoices(asRecord(answer), 'message', provider) ?? [];
  const [firstChoice] = choices;
  if (!isRecord(answer) || !firstChoice || !isRecord(firstChoice['message'])) return null;
  const finishReason = firstChoice['finish_reason'];
  return {
    completion: { ...answer, choices },
    text: asText(firstChoice['message']['content']),
    finishReason: typeof finishReason === 'string' ? finishReason : null,
    stopSequence: null,
    usage: parseOpenaiUsage(answer['usage']),
    outputText: choices.map(({ message }) => joinOutput(asRecord(message))).join(''),
  };
}
