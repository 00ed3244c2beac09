/** POST /api/v1/responses: a chat with any model, in the format of OpenAI's Responses API. */
import { z } from 'zod';
import { createResponsesPresentation } from '../../../chat/formats/responses-answer.ts';
import {
  responsesRequestSchema,
  toResponsesName,
} from '../../../chat/formats/responses-request.ts';
import { defineChatEndpoint } from '../chat-endpoint.ts';
import { responseResource } from './response-schema.ts';

/** Endpoint POST /api/v1/responses. */
export const createResponse = defineChatEndpoint({
  path: '/api/v1/responses',
  errorFormat: 'openai',
  summary: 'Create a response (OpenAI-compatible)',
  description:
    'Accepts every chat model. OpenAI SDKs call this endpoint as `responses`. Only responses with `background: true` are stored, for a limited time: send the whole conversation in ' +
    '`input`. Only tools that run at the caller are supported. Fields that are not listed here are ignored.',
  body: responsesRequestSchema,
  format: 'responses',
  example: {
    model: 'gpt-5-mini',
    input: 'What lights a harbour?',
    max_output_tokens: 100,
  },
  response: {
    description: 'The response. With `stream: true` it is sent as server-sent events.',
    schema: responseResource,
    event: z.object({ event: z.string(), data: z.string() }),
  },
  presentation: createResponsesPresentation,
  rename: toResponsesName,
});
