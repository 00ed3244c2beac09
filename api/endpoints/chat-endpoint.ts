/** Declares chat endpoints. Each has its own request format and response format. */
import { z } from 'zod';
import { answerChat } from './chat-answer.ts';
import type { Presentation } from '../../chat/formats/completions-answer.ts';
import { repairAnswers, type ChatRequest } from '../../chat/formats/chat-request.ts';
import { idempotencyHeader } from '../http/idempotency-key.ts';
import type { EndpointDescription } from './description.ts';
import { defineEndpoint, rawResponse, type Endpoint } from './endpoint.ts';
import { withRenamedFields } from './openai/field-names.ts';

const chatHeaders = z.object({
  'X-Ignored-Fields': z.string().optional().meta({
    description:
      'Names of request fields that were ignored, because the API or the model’s provider does not know them.',
    example: 'plugins, provider.order',
  }),
});

/** Maximum size of a chat request in bytes. It is large because requests may contain images. */
export const chatBodyBytesMax = 20 * 1024 * 1024;

/** Field of a chat response with the charged credits. */
export const creditsConsumed = z.number().nullable().meta({
  description:
    'Charged credits. Null if the charge is not confirmed within some seconds; GET /api/v1/chats/{id} shows it later.',
});

/** Example of a chat request. */
export const chatExample = {
  model: 'gpt-5-mini',
  messages: [{ role: 'user', content: 'What lights a harbour?' }],
  max_tokens: 100,
};

/** Error codes of requests that are rejected before credits are reserved. */
export const chatRequestErrors = [
  'UNKNOWN_MODEL',
  'UNSUPPORTED_PARAMETER',
  'CONFLICTING_FIELDS',
  'INVALID_INPUT_URL',
  'CONTEXT_LENGTH_EXCEEDED',
] as const;

interface ChatEndpoint extends Pick<
  EndpointDescription,
  'errorFormat' | 'acceptsXApiKey' | 'summary' | 'description'
> {
  path: `/${string}`;
  body: z.ZodType<ChatRequest>;
  /** Limits of the body; by default those of a chat. */
  bodyBytesMax?: number;
  bodyValuesMax?: number;
  example: object;
  response: { description: string; schema: z.ZodType; event?: z.ZodType };
  /** Creates the object that formats the response of one chat. */
  presentation: () => Presentation;
  /** Converts a field name of the internal request to the endpoint's own, which errors contain. */
  rename?: (path: string) => string;
}

/** Declares a chat endpoint. */
export function defineChatEndpoint({
  path,
  body,
  bodyBytesMax = chatBodyBytesMax,
  bodyValuesMax,
  example,
  response,
  presentation,
  rename = (field) => field,
  ...description
}: ChatEndpoint): Endpoint {
  return defineEndpoint({
    ...description,
    route: `POST ${path}`,
    scope: 'chat',
    request: {
      headers: idempotencyHeader,
      body,
      bodyBytesMax,
      ...(bodyValuesMax && { bodyValuesMax }),
      repair: repairAnswers,
      example,
    },
    answer: rawResponse,
    answers: { 200: { headers: chatHeaders, ...response } },
    errors: [
      ...chatRequestErrors,
      'PROVIDER_REJECTED_INPUT',
      'CONTENT_POLICY',
      'INSUFFICIENT_CREDITS',
      'KEY_LIMIT_EXCEEDED',
      'ANSWER_NOT_KEPT',
      'PROVIDER_ERROR',
      'DEADLINE_EXCEEDED',
      'OUTCOME_UNKNOWN',
    ],
    handle: (call, services) =>
      withRenamedFields(
        () => answerChat(call, { presentation: presentation(), rename }, services),
        rename,
      ),
  });
}
