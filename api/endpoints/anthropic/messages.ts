/** POST /api/v1/messages: a chat with any model, in the format of Anthropic's Messages API. */
import { z } from 'zod';
import { estimateInput } from '../../../chat/input-count.ts';
import { exactFields, repairAnswers } from '../../../chat/formats/chat-fields.ts';
import { createMessagesPresentation } from '../../../chat/formats/messages-answer.ts';
import {
  countRequestSchema,
  messagesRequestSchema,
  toMessagesName,
} from '../../../chat/formats/messages-request.ts';
import { chatBodyBytesMax, creditsConsumed, defineChatEndpoint } from '../chat-endpoint.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';

const messageResponse = z.looseObject({
  id: z.string(),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: z.string(),
  content: z.array(
    z.discriminatedUnion('type', [
      z.object({ type: z.literal('text'), text: z.string() }),
      z.object({
        type: z.literal('tool_use'),
        id: z.string(),
        name: z.string(),
        input: z.record(z.string(), z.unknown()),
      }),
      z.object({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() }),
      z.object({ type: z.literal('redacted_thinking'), data: z.string() }),
    ]),
  ),
  stop_reason: z.enum(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'refusal']),
  stop_sequence: z.string().nullable(),
  usage: z.object({
    input_tokens: z.int(),
    cache_read_input_tokens: z.int(),
    cache_creation_input_tokens: z.int(),
    output_tokens: z.int(),
  }),
  creditsConsumed,
});
const example = {
  model: 'claude-sonnet-5',
  messages: [{ role: 'user', content: 'What lights a harbour?' }],
};

/** Anthropic-compatible endpoints. */
export const anthropic = defineSection('Anthropic’s endpoints', {
  createMessage: defineChatEndpoint({
    path: '/api/v1/messages',
    errorFormat: 'anthropic',
    acceptsXApiKey: true,
    summary: 'Chat with a model (Anthropic-compatible)',
    description:
      'Accepts every chat model. Set the base URL of an Anthropic SDK to `{base}` or `{base}/api`. The key may be sent as ' +
      '`x-api-key`. ' +
      'Fields that are not listed here are ignored.',
    body: messagesRequestSchema,
    example: { ...example, max_tokens: 100 },
    response: {
      description: 'The message. With `stream: true` it is sent as server-sent events.',
      schema: messageResponse,
      event: z.object({ event: z.string(), data: z.string() }),
    },
    presentation: createMessagesPresentation,
    rename: toMessagesName,
  }),
  countMessageTokens: defineEndpoint({
    route: 'POST /api/v1/messages/count_tokens',
    scope: 'chat',
    allowsTokens: true,
    errorFormat: 'anthropic',
    acceptsXApiKey: true,
    summary: 'Estimate the input tokens of a message (Anthropic-compatible)',
    description:
      'Accepts the body of a message request and returns the estimated number of input tokens: one token per four characters. ' +
      'The reservation for a message is based on the same estimate; the provider may count more or fewer tokens. Nothing is ' +
      'sent to the provider, reserved or charged.',
    request: {
      body: countRequestSchema,
      bodyBytesMax: chatBodyBytesMax,
      repair: repairAnswers,
      exactFields,
      example,
    },
    response: z.object({ input_tokens: z.int() }),
    errors: ['UNKNOWN_MODEL'],
    handle({ body }, { chatCatalog }) {
      chatCatalog.find(body.model);
      return { input_tokens: estimateInput(body.body).tokens };
    },
  }),
});
