/** Declares the endpoints that answer chats: each is a request format and a presentation. */
import { z } from 'zod';
import { answerChat } from '../chat/chat-answers.ts';
import type { Presentation } from '../chat/chat-presentation.ts';
import type { ChatRequest } from '../chat/chat-request.ts';
import { idempotencyHeader } from '../idempotency/idempotency-key.ts';
import type { EndpointDescription } from './description.ts';
import { defineEndpoint, ownAnswer, type Endpoint } from './endpoint.ts';
import { withRenamedFields } from './openai/field-names.ts';

const chatHeaders = z.object({
  'X-Ignored-Fields': z.string().optional().meta({
    description:
      'Names of the fields of the request that were ignored, because they are not known here.',
    example: 'plugins, provider.order',
  }),
});

/** Size limit of a chat request in bytes. It is large because images are part of the request. */
export const chatBodyBytesMax = 20 * 1024 * 1024;

/** Example of a request. */
export const chatExample = {
  model: 'gpt-5-mini',
  messages: [{ role: 'user', content: 'What lights a harbour?' }],
  max_tokens: 100,
};

interface ChatEndpoint extends Pick<
  EndpointDescription,
  'errorShape' | 'takesXApiKey' | 'summary' | 'description'
> {
  path: `/${string}`;
  body: z.ZodType<ChatRequest>;
  example: object;
  response: { description: string; schema: z.ZodType; event: z.ZodType };
  /** Makes the presentation of one chat. */
  presentation: () => Presentation;
  /** Returns the endpoint's name of a field of the internal request, for errors. */
  rename?: (path: string) => string;
}

/** Declares an endpoint that answers chats. */
export function chatEndpoint({
  path,
  body,
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
    request: { headers: idempotencyHeader, body, bodyBytesMax: chatBodyBytesMax, example },
    answer: ownAnswer,
    answers: { 200: { headers: chatHeaders, ...response } },
    errors: [
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
    ],
    handle: (call, services) =>
      withRenamedFields(() => answerChat(call, presentation(), services), rename),
  });
}
