/** Chat and its models, described (spec §4.1, §4.2, design §6). */
import { z } from 'zod';
import { chatRequest, completionsRequest } from '../chat/chat-schema.ts';
import { idempotencyHeader } from '../middleware/idempotency-key.ts';
import { paging } from '../routes/models.ts';
import type { AnswerDescription, Operation } from './operation.ts';

const tag = 'Chat';

const usage = z
  .object({ inputTokens: z.int(), outputTokens: z.int(), totalTokens: z.int() })
  .meta({ id: 'TokenUsage' });
const chatAnswer = z.object({
  id: z.string(),
  model: z.string(),
  content: z.string(),
  finishReason: z.string().nullable(),
  usage,
  creditsConsumed: z.number(),
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
    inputTokens: z.int(),
    outputTokens: z.int(),
    totalTokens: z.int(),
  }),
  content: z.string(),
  creditsConsumed: z.number(),
});

const answer = (schema: z.ZodType, example?: unknown): AnswerDescription => ({
  description: 'The answer; with `stream: true` the same as server-sent events, ended by `[DONE]`.',
  content: { type: 'application/json', schema, ...(example !== undefined && { example }) },
  event: z.object({ event: z.string().optional(), data: z.string() }),
});
const errors = [
  'INVALID_REQUEST',
  'UNKNOWN_MODEL',
  'UNSUPPORTED_PARAMETER',
  'CONFLICTING_FIELDS',
  'INVALID_INPUT_URL',
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'INSUFFICIENT_CREDITS',
  'TOO_MANY_ABANDONED_CHATS',
  'PAYLOAD_TOO_LARGE',
  'UNSUPPORTED_MEDIA_TYPE',
  'REQUEST_TIMEOUT',
  'REQUEST_IN_PROGRESS',
  'ANSWER_NOT_KEPT',
  'IDEMPOTENCY_KEY_REUSED',
  'PROVIDER_ERROR',
  'OUTCOME_UNKNOWN',
] as const;
const example = {
  model: 'gpt-5-mini',
  messages: [{ role: 'user', content: 'What lights a harbour?' }],
  max_tokens: 100,
};

const modelEntry = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.string(),
    type: z.literal('model'),
    display_name: z.string(),
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'Model', description: 'One entry, in OpenAI’s and in Anthropic’s shape at once.' });
const legacyModel = z.object({
  id: z.string(),
  name: z.string(),
  cost: z.looseObject({ input: z.number(), output: z.number() }),
  limit: z.object({ context: z.int(), output: z.int() }),
  reasoning: z.literal(true).optional(),
  supportsImages: z.literal(true).optional(),
  supportsVideo: z.literal(true).optional(),
  supportsAudio: z.literal(true).optional(),
  description: z.string().optional(),
});

/** Both chat paths, the list of models and one model. */
export const chatOperations: readonly Operation[] = [
  {
    method: 'post',
    path: '/api/v1/chat',
    id: 'chat',
    tag,
    summary: 'Chat with a model',
    description:
      'Credits for the most that the answer may cost are reserved first; the tokens used are charged.',
    scope: 'chat',
    headers: z.object(idempotencyHeader),
    body: { required: true, content: { 'application/json': { schema: chatRequest, example } } },
    answers: { 200: answer(chatAnswer) },
    errors,
  },
  {
    method: 'post',
    path: '/api/v1/chat/completions',
    id: 'chatCompletions',
    tag,
    summary: 'Chat, as OpenAI’s SDK speaks',
    description: 'Point an OpenAI SDK at `{base}/api/v1`. Tools and the other fields pass through.',
    scope: 'chat',
    headers: z.object(idempotencyHeader),
    body: {
      required: true,
      content: { 'application/json': { schema: completionsRequest, example } },
    },
    answers: { 200: answer(completionAnswer) },
    errors,
  },
  {
    method: 'get',
    path: '/api/v1/models',
    id: 'listModels',
    tag,
    summary: 'List the chat models',
    scope: 'models:read',
    query: paging,
    answers: {
      200: {
        description: 'All models, or the page that was asked for.',
        content: {
          type: 'application/json',
          schema: z.object({
            object: z.literal('list'),
            data: z.array(modelEntry),
            has_more: z.boolean(),
            first_id: z.string().nullable(),
            last_id: z.string().nullable(),
            models: z.array(legacyModel),
          }),
        },
      },
    },
    errors: ['INVALID_REQUEST', 'CONFLICTING_FIELDS'],
  },
  {
    method: 'get',
    path: '/api/v1/models/{id}',
    id: 'getModel',
    tag,
    summary: 'One chat model',
    description: 'Ids may hold slashes, as they are or encoded.',
    scope: 'models:read',
    params: z.object({ id: z.string() }),
    answers: {
      200: {
        description: 'The model.',
        content: { type: 'application/json', schema: modelEntry },
      },
      404: {
        description: 'No such model.',
        content: {
          type: 'application/json',
          schema: z.object({
            type: z.literal('error'),
            error: z.object({ type: z.literal('not_found_error'), message: z.string() }),
          }),
        },
      },
    },
    errors: [],
  },
];
