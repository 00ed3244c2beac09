/** POST /api/v1/responses: a chat with any model, in the format of OpenAI's Responses API. */
import { z } from 'zod';
import { createResponsesPresentation } from '../../../chat/formats/responses-answer.ts';
import { responsesRequestSchema } from '../../../chat/formats/responses-request.ts';
import { defineChatEndpoint } from '../chat-endpoint.ts';
import { responseResource } from './response-schema.ts';

/** Field names in the Responses API, keyed by the field name in the internal chat request. */
const responsesNames: Readonly<Record<string, string>> = {
  max_tokens: 'max_output_tokens',
  reasoning_effort: 'reasoning.effort',
  response_format: 'text.format',
  verbosity: 'text.verbosity',
};

/** Returns the Responses API name of a field. */
function toResponsesName(path: string): string {
  if (path === 'messages') return 'input';
  return (
    responsesNames[path] ??
    path.replace(/\.image_url\.url$/, '.image_url').replace(/\.file\.(file_\w+)$/, '.$1')
  );
}

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
