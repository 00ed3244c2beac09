/** Translates messages of OpenAI's Chat Completions API to messages of the internal request. */
import { z } from 'zod';
import type { ChatMessage } from '../../chat/chat-body.ts';
import { anyJsonObject } from '../http/body-schema.ts';
import { assistantContentSchema, textContentSchema, userContentSchema } from './content-parts.ts';
import { cacheControlField, nameSchema, textSchema, withoutNulls } from './field-schemas.ts';

const toolCall = z.object({
  id: nameSchema,
  type: z.literal('function'),
  function: z.object({ name: nameSchema, arguments: textSchema }),
  extra_content: anyJsonObject.nullish(),
  ...cacheControlField,
});
const systemFields = { content: textContentSchema, name: nameSchema.nullish() };
const systemMessage = z.object({ role: z.literal('system'), ...systemFields });
const developerMessage = z.object({ role: z.literal('developer'), ...systemFields });
const userMessage = z.object({
  role: z.literal('user'),
  content: userContentSchema,
  name: nameSchema.nullish(),
});
const assistantMessage = z
  .object({
    role: z.literal('assistant'),
    content: assistantContentSchema.nullish(),
    name: nameSchema.nullish(),
    refusal: textSchema.nullish(),
    // An empty list is allowed, because some providers return one in answers without tool calls,
    // and callers send these answers back.
    tool_calls: z.array(toolCall).max(256).nullish(),
    // Answers contain these fields, and callers may send an answer back unchanged. Other fields of
    // answers are dropped.
    reasoning: textSchema.nullish(),
    reasoning_content: textSchema.nullish(),
    reasoning_details: z.array(anyJsonObject).max(1024).nullish(),
    extra_content: anyJsonObject.nullish(),
  })
  .refine(({ content, refusal, tool_calls: calls }) => (content ?? refusal ?? calls?.[0]) != null, {
    path: ['content'],
    message: 'is required unless there are tool_calls',
  });
const toolMessage = z.object({
  role: z.literal('tool'),
  content: textContentSchema,
  tool_call_id: nameSchema,
  ...cacheControlField,
});

const createMessagesSchema = <Message extends z.ZodType<WireMessage>>(message: Message) =>
  z.array(message.transform(toMessage)).min(1, 'must contain at least one message').max(4096);

/** Messages of POST /api/v1/chat. */
export const serviceMessagesSchema = createMessagesSchema(
  z.discriminatedUnion('role', [systemMessage, userMessage, assistantMessage], {
    error: 'must be one of system, user, assistant',
  }),
);
/** Messages of POST /api/v1/chat/completions. */
export const completionsMessagesSchema = createMessagesSchema(
  z.discriminatedUnion(
    'role',
    [systemMessage, developerMessage, userMessage, assistantMessage, toolMessage],
    { error: 'must be one of system, developer, user, assistant, tool' },
  ),
);

interface WireMessage {
  role: string;
  reasoning?: string | null | undefined;
  reasoning_content?: string | null | undefined;
  tool_calls?: unknown[] | null | undefined;
}

/**
 * Converts a parsed message to an internal message: drops null fields, changes the role `developer`
 * to `system`, and uses `reasoning` as `reasoning_content` if the latter is missing.
 */
function toMessage({ reasoning, tool_calls: calls, ...wire }: WireMessage): ChatMessage {
  const fields = {
    ...wire,
    tool_calls: calls?.length ? calls : null,
    role: wire.role === 'developer' ? 'system' : wire.role,
    reasoning_content: wire.reasoning_content ?? reasoning,
  };
  // oxlint-disable-next-line no-unsafe-type-assertion -- the schemas have validated the message
  return withoutNulls(fields) as ChatMessage;
}
