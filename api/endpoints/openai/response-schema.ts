/** Schema of a response of OpenAI's Responses API. */
import { z } from 'zod';
import { creditsConsumed } from '../chat-endpoint.ts';

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
/** Schema of a response. */
export const responseResource = z.looseObject({
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int(),
  status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']).meta({
    description: 'Without `background: true`, always `completed` or `incomplete`.',
  }),
  incomplete_details: z
    .object({ reason: z.enum(['max_output_tokens', 'content_filter']) })
    .nullable(),
  model: z.string(),
  output: z.array(outputItem),
  usage: z
    .object({
      input_tokens: z.int(),
      input_tokens_details: z.object({ cached_tokens: z.int(), cache_write_tokens: z.int() }),
      output_tokens: z.int(),
      output_tokens_details: z.object({ reasoning_tokens: z.int() }),
      total_tokens: z.int(),
    })
    .nullable()
    .meta({ description: 'Null before the response has ended.' }),
  creditsConsumed: creditsConsumed.optional(),
});
