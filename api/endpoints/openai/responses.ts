/** POST /api/v1/responses: a chat with any model, in the format of OpenAI's Responses API. */
import { z } from 'zod';
import { createResponsesPresentation } from '../../../chat/formats/responses-answer.ts';
import { responsesRequestSchema } from '../../../chat/formats/responses-request.ts';
import { creditsConsumed, defineChatEndpoint } from '../chat-endpoint.ts';

const outputItem = z.discriminatedUnion('type', [
  z.looseObject({
    type: z.literal('message'),
    id: z.string(),
    role: z.literal('assistant'),
    status: z.string(),
    content: z.array(z.looseObject({ type: z.enum(['output_text', 'refusal']) })),
  }),
  z.looseObject({
    type: z.literal('function_call'),
    id: z.string(),
    call_id: z.string(),
    name: z.string(),
    arguments: z.string(),
    status: z.string(),
  }),
  z.looseObject({
    type: z.literal('custom_tool_call'),
    id: z.string(),
    call_id: z.string(),
    name: z.string(),
    input: z.string(),
    status: z.string(),
  }),
  z.looseObject({
    type: z.literal('tool_search_call'),
    id: z.string(),
    call_id: z.string(),
    execution: z.literal('client'),
    arguments: z.looseObject({}),
    status: z.string(),
  }),
  z.looseObject({
    type: z.literal('reasoning'),
    id: z.string(),
    summary: z.array(z.object({ type: z.literal('summary_text'), text: z.string() })),
    encrypted_content: z.string().nullable(),
  }),
]);
const responseResource = z.looseObject({
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int(),
  status: z.enum(['completed', 'incomplete']),
  incomplete_details: z
    .object({ reason: z.enum(['max_output_tokens', 'content_filter']) })
    .nullable(),
  model: z.string(),
  output: z.array(outputItem),
  usage: z.object({
    input_tokens: z.int(),
    input_tokens_details: z.object({ cached_tokens: z.int(), cache_write_tokens: z.int() }),
    output_tokens: z.int(),
    output_tokens_details: z.object({ reasoning_tokens: z.int() }),
    total_tokens: z.int(),
  }),
  creditsConsumed,
});

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
    'Accepts every chat model. OpenAI SDKs call this endpoint as `responses`. No response is stored: send the whole conversation in ' +
    '`input`. Only tools that run at the caller are supported. Fields that are not listed here are ignored.',
  body: responsesRequestSchema,
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
