/** POST /api/v1/chat and POST /api/v1/chat/completions: send a chat to a chat model (spec §4.1). */
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { isArchived } from '../../ledger/ledger-reads.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { toData, dataSchema, pathId } from './fields.ts';
import { formatUsageRecord, usageRecord } from './usage.ts';
import {
  completionsPresentation,
  servicePresentation,
} from '../../chat/formats/completions-answer.ts';
import {
  chatRequestSchema,
  completionsRequestSchema,
} from '../../chat/formats/completions-request.ts';
import {
  creditsConsumed,
  defineChatEndpoint,
  chatExample,
  defineEstimateEndpoint,
} from './chat-endpoint.ts';

/** Endpoint that returns the usage record of a chat. */
export const chats = defineSection('Chat', {
  getChat: defineEndpoint({
    route: 'GET /api/v1/chats/:chatId',
    scope: 'usage:read',
    summary: 'Get the tokens and the charge of a chat',
    description:
      'The chat id is the `id` in the response of every chat endpoint and in every event of a stream.',
    request: { params: z.object({ chatId: pathId('chat') }) },
    response: dataSchema(usageRecord),
    errors: ['NOT_FOUND', 'CHAT_ARCHIVED'],
    async handle({ caller: { organizationId }, params: { chatId } }, { pool, usageReads }) {
      const record = await usageReads.chat(organizationId, chatId);
      if (!record) {
        throw (await isArchived(pool, chatId, organizationId))
          ? new GatewayError('CHAT_ARCHIVED')
          : new GatewayError('NOT_FOUND', 'No such chat.');
      }
      return toData(formatUsageRecord(record));
    },
  }),
});

const tokenUsage = z
  .object({
    inputTokens: z.int(),
    outputTokens: z.int(),
    totalTokens: z.int(),
    cachedInputTokens: z.int().optional(),
    cacheWriteTokens: z.int().optional(),
    reasoningTokens: z.int().optional(),
  })
  .meta({ id: 'TokenUsage' });
const failedModels = z
  .array(z.object({ model: z.string(), error: z.string() }))
  .optional()
  .meta({ description: 'Models that failed before another model responded, with their errors.' });
const chatResponse = z.object({
  id: z.string(),
  model: z.string(),
  content: z.string(),
  finishReason: z.string().nullable(),
  usage: tokenUsage,
  creditsConsumed,
  tried: failedModels,
});
export type ChatResponse = z.infer<typeof chatResponse>;
/** Schema of a response in OpenAI's format, with additional fields of the gateway. */
const completionResponse = z.looseObject({
  id: z.string(),
  object: z.literal('chat.completion'),
  created: z.int(),
  model: z.string(),
  choices: z.array(
    z.looseObject({
      index: z.int(),
      message: z.looseObject({ role: z.literal('assistant'), content: z.string().nullish() }),
      finish_reason: z.string().nullable(),
    }),
  ),
  usage: z.looseObject({
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    ...tokenUsage.shape,
  }),
  content: z.string(),
  creditsConsumed,
  tried: failedModels,
});

const describeResponse = (schema: z.ZodType) => ({
  description:
    'The response. With `stream: true` it is sent as server-sent events that end with `[DONE]`.',
  schema,
  event: z.object({ event: z.string().optional(), data: z.string() }),
});

/** Chat endpoints in the gateway's format and in OpenAI's, and their price estimates. */
export const chat = defineSection('Chat', {
  chat: defineChatEndpoint({
    path: '/api/v1/chat',
    summary: 'Chat with a model',
    description:
      'Reserves credits for the input and for the longest answer, then charges the tokens used.',
    body: chatRequestSchema,
    example: chatExample,
    format: 'chat',
    response: describeResponse(chatResponse),
    presentation: () => servicePresentation,
  }),
  chatCompletions: defineChatEndpoint({
    path: '/api/v1/chat/completions',
    summary: 'Chat with a model (OpenAI-compatible)',
    description:
      'Set the base URL of an OpenAI SDK to `{base}/api/v1`. Tools and other fields are passed to the provider.',
    body: completionsRequestSchema,
    example: chatExample,
    format: 'completions',
    response: describeResponse(completionResponse),
    presentation: () => completionsPresentation,
    errorFormat: 'openai',
  }),
  chatEstimate: defineEstimateEndpoint({ path: '/api/v1/chat', body: chatRequestSchema }),
  chatCompletionsEstimate: defineEstimateEndpoint({
    path: '/api/v1/chat/completions',
    body: completionsRequestSchema,
  }),
});
