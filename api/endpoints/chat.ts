/** POST /api/v1/chat and /api/v1/chat/completions (spec §4.1). */
import { z } from 'zod';
import { creditsFromMicro } from '../../domain/credits.ts';
import { answerChat } from '../chat/chat-answers.ts';
import { estimateChat } from '../chat/chat-orders.ts';
import type { ChatRequest } from '../chat/chat-request.ts';
import { chatRequest, completionsRequest } from '../chat/completions-request.ts';
import {
  completionsPresentation,
  servicePresentation,
  type Presentation,
} from '../chat/chat-presentation.ts';
import { idempotencyHeader } from '../idempotency/idempotency-key.ts';
import { toData, dataSchema } from './fields.ts';
import type { AnswerParts } from './description.ts';
import { defineEndpoint, ownAnswer, section } from './endpoint.ts';

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
const tried = z
  .array(z.object({ model: z.string(), error: z.string() }))
  .optional()
  .meta({ description: 'Models that failed before the one that answered, with their errors.' });
const chatAnswer = z.object({
  id: z.string(),
  model: z.string(),
  content: z.string(),
  finishReason: z.string().nullable(),
  usage: tokenUsage,
  creditsConsumed: z.number(),
  tried,
});
/** Response in OpenAI's envelope, with the service's own fields in addition. */
const completionAnswer = z.looseObject({
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
  creditsConsumed: z.number(),
  tried,
});

/** Schema of the headers of a chat's response. */
export const chatHeaders = z.object({
  'X-Ignored-Fields': z.string().optional().meta({
    description:
      'Names of the fields of the request that were ignored, because they are not known here.',
    example: 'plugins, provider.order',
  }),
});

const answered = (schema: z.ZodType): AnswerParts => ({
  description: 'The answer; with `stream: true`, as server-sent events that end with `[DONE]`.',
  headers: chatHeaders,
  schema,
  event: z.object({ event: z.string().optional(), data: z.string() }),
});
/** Size limit of a chat request in bytes. It is large because images are part of the request. */
export const chatBodyBytesMax = 20 * 1024 * 1024;

/** Error codes of chats. */
export const chatErrors = [
  'UNKNOWN_MODEL',
  'UNSUPPORTED_PARAMETER',
  'CONFLICTING_FIELDS',
  'INVALID_INPUT_URL',
  'CONTEXT_LENGTH_EXCEEDED',
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'INSUFFICIENT_CREDITS',
  'KEY_LIMIT_EXCEEDED',
  'ANSWER_NOT_KEPT',
  'PROVIDER_ERROR',
  'DEADLINE_EXCEEDED',
  'OUTCOME_UNKNOWN',
] as const;

const example = {
  model: 'gpt-5-mini',
  messages: [{ role: 'user', content: 'What lights a harbour?' }],
  max_tokens: 100,
};

const chatOperation = (parts: {
  path: `/${string}`;
  summary: string;
  description: string;
  body: z.ZodType<ChatRequest>;
  answer: z.ZodType;
  presentation: Presentation;
  errorShape?: 'openai';
}) =>
  defineEndpoint({
    route: `POST ${parts.path}`,
    scope: 'chat',
    ...(parts.errorShape && { errorShape: parts.errorShape }),
    summary: parts.summary,
    description: parts.description,
    request: {
      headers: idempotencyHeader,
      body: parts.body,
      bodyBytesMax: chatBodyBytesMax,
      example,
    },
    answer: ownAnswer,
    answers: { 200: answered(parts.answer) },
    errors: chatErrors,
    handle: (call, services) => answerChat(call, parts.presentation, services),
  });

const chatEstimate = z
  .object({
    model: z.string(),
    credits: z.number().meta({ description: 'Credits that the chat would reserve now.' }),
    least: z
      .number()
      .meta({ description: 'Smallest balance with which the chat is accepted, in credits.' }),
    most: z
      .number()
      .meta({ description: 'Highest possible charge in credits: the sum of `items`.' }),
    items: z.array(z.object({ unit: z.string(), quantity: z.int(), credits: z.number() })),
  })
  .meta({ id: 'ChatEstimate' });

const estimateOperation = (parts: { path: `/${string}`; body: z.ZodType<ChatRequest> }) =>
  defineEndpoint({
    route: `POST ${parts.path}/estimate`,
    scope: 'chat',
    summary: 'Estimate the price of a chat',
    description:
      'Accepts the body of the chat and returns the credits that it would reserve. ' +
      'Nothing is sent to the provider, reserved or charged. A chat is charged for the tokens used.',
    request: { body: parts.body, bodyBytesMax: chatBodyBytesMax, example },
    answer: dataSchema(chatEstimate),
    errors: [
      'UNKNOWN_MODEL',
      'UNSUPPORTED_PARAMETER',
      'CONFLICTING_FIELDS',
      'INVALID_INPUT_URL',
      'CONTEXT_LENGTH_EXCEEDED',
    ],
    async handle(call, services) {
      const estimate = await estimateChat(call, services);
      const { reserveMicro, leastMicro, mostMicro } = estimate;
      return toData({
        model: call.body.model,
        credits: creditsFromMicro(reserveMicro),
        least: creditsFromMicro(leastMicro),
        most: creditsFromMicro(mostMicro),
        items: estimate.parts.map(({ unit, tokens, amountMicro }) => ({
          unit,
          quantity: tokens,
          credits: creditsFromMicro(amountMicro),
        })),
      });
    },
  });

/** Chat in the service's format and in OpenAI's, and their estimates. */
export const chat = section('Chat', {
  chat: chatOperation({
    path: '/api/v1/chat',
    summary: 'Chat with a model',
    description:
      'Reserves credits for the input and for an answer of the expected length, then charges the tokens used.',
    body: chatRequest,
    answer: chatAnswer,
    presentation: servicePresentation,
  }),
  chatCompletions: chatOperation({
    path: '/api/v1/chat/completions',
    summary: 'Chat with a model (OpenAI-compatible)',
    description:
      'Set the base URL of an OpenAI SDK to `{base}/api/v1`. Tools and other fields are passed to the provider.',
    body: completionsRequest,
    answer: completionAnswer,
    presentation: completionsPresentation,
    errorShape: 'openai',
  }),
  chatEstimate: estimateOperation({ path: '/api/v1/chat', body: chatRequest }),
  chatCompletionsEstimate: estimateOperation({
    path: '/api/v1/chat/completions',
    body: completionsRequest,
  }),
});
