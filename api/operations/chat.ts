/** POST /api/v1/chat and /api/v1/chat/completions (spec §4.1). */
import { z } from 'zod';
import { creditsFromMicro } from '../../domain/credits.ts';
import { answerChat, estimateChat } from '../chat/chat-answers.ts';
import { chatRequest, completionsRequest, type ChatRequest } from '../chat/chat-schema.ts';
import {
  completionsPresentation,
  servicePresentation,
  type Presentation,
} from '../chat/chat-presentation.ts';
import { idempotencyHeader } from '../idempotency/claims.ts';
import { found, oneOf } from './fields.ts';
import { defineOperation, ownAnswer, section, type AnswerParts } from './operation.ts';

const tokenUsage = z
  .object({ inputTokens: z.int(), outputTokens: z.int(), totalTokens: z.int() })
  .meta({ id: 'TokenUsage' });
const tried = z
  .array(z.object({ model: z.string(), error: z.string() }))
  .optional()
  .meta({ description: 'Models of `models` that failed before the one that answered, and why.' });
const chatAnswer = z.object({
  id: z.string(),
  model: z.string(),
  content: z.string(),
  finishReason: z.string().nullable(),
  usage: tokenUsage,
  creditsConsumed: z.number(),
  tried,
});
/** OpenAI's envelope with the service's own fields beside them. */
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

const answered = (schema: z.ZodType): AnswerParts => ({
  description: 'The answer; with `stream: true` the same as server-sent events, ended by `[DONE]`.',
  schema,
  event: z.object({ event: z.string().optional(), data: z.string() }),
});
/** Pictures travel inside the request. */
export const chatBodyBytesMax = 20 * 1024 * 1024;

/** How a chat can be refused or fail. */
export const chatErrors = [
  'UNKNOWN_MODEL',
  'UNSUPPORTED_PARAMETER',
  'CONFLICTING_FIELDS',
  'INVALID_INPUT_URL',
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

const chatOperation = (told: {
  path: `/${string}`;
  summary: string;
  description: string;
  body: z.ZodType<ChatRequest>;
  answer: z.ZodType;
  presentation: Presentation;
  errorShape?: 'openai';
}) =>
  defineOperation({
    route: `POST ${told.path}`,
    scope: 'chat',
    ...(told.errorShape && { errorShape: told.errorShape }),
    summary: told.summary,
    description: told.description,
    request: {
      headers: idempotencyHeader,
      body: told.body,
      bodyBytesMax: chatBodyBytesMax,
      example,
    },
    answer: ownAnswer,
    answers: { 200: answered(told.answer) },
    errors: chatErrors,
    handle: (call, services) => answerChat(call, told.presentation, services),
  });

const chatEstimate = z
  .object({
    model: z.string(),
    credits: z.number().meta({ description: 'Credits that the chat would reserve now.' }),
    least: z.number().meta({ description: 'Credits without which the chat is rejected.' }),
    most: z.number().meta({ description: 'Highest possible charge: the sum of `items`.' }),
    items: z.array(z.object({ unit: z.string(), quantity: z.int(), credits: z.number() })),
  })
  .meta({ id: 'ChatEstimate' });

const estimateOperation = (told: { path: `/${string}`; body: z.ZodType<ChatRequest> }) =>
  defineOperation({
    route: `POST ${told.path}/estimate`,
    scope: 'chat',
    summary: 'Price of a chat',
    description:
      'Takes the same body and returns the credits that the chat would reserve. ' +
      'Nothing is sent, reserved or charged. A chat is charged for the tokens used.',
    request: { body: told.body, bodyBytesMax: chatBodyBytesMax, example },
    answer: oneOf(chatEstimate),
    errors: ['UNKNOWN_MODEL', 'UNSUPPORTED_PARAMETER', 'CONFLICTING_FIELDS', 'INVALID_INPUT_URL'],
    async handle(call, services) {
      const { reserveMicro, leastMicro, mostMicro, parts } = await estimateChat(call, services);
      return found({
        model: call.body.model,
        credits: creditsFromMicro(reserveMicro),
        least: creditsFromMicro(leastMicro),
        most: creditsFromMicro(mostMicro),
        items: parts.map(({ unit, tokens, amountMicro }) => ({
          unit,
          quantity: tokens,
          credits: creditsFromMicro(amountMicro),
        })),
      });
    },
  });

/** Both paths. */
export const chat = section('Chat', {
  chat: chatOperation({
    path: '/api/v1/chat',
    summary: 'Chat with a model',
    description:
      'Credits for the input and for an answer of the expected length are reserved first; then the tokens used are charged.',
    body: chatRequest,
    answer: chatAnswer,
    presentation: servicePresentation,
  }),
  chatCompletions: chatOperation({
    path: '/api/v1/chat/completions',
    summary: 'Chat with a model (OpenAI-compatible)',
    description: 'Point an OpenAI SDK at `{base}/api/v1`. Tools and the other fields pass through.',
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
