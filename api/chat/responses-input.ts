/**
 * The `input` of OpenAI's Responses API: its items, translated to messages of a chat.
 *
 * Source: the types of the `openai` client, `ResponseInputItem`.
 */
import { z } from 'zod';
import type { ChatMessage, ContentPart } from '../../chat/chat-body.ts';
import type { JsonObject } from '../../domain/json.ts';
import { dataMax, given, name, notTaken, text } from './chat-messages.ts';
import { unsealed } from './thoughts.ts';

const itemsMax = 4096;
const partsMax = 1024;
/** Reason for rejecting a reference to an earlier response. */
export const resend =
  'nothing is stored here; send the whole conversation in input (an SDK may need store: false for that)';
const noFileId = notTaken('send the file itself');

const inputText = z.object({ type: z.literal('input_text'), text });
const inputImage = z.object({
  type: z.literal('input_image'),
  file_id: noFileId,
  image_url: z.string().min(1).max(dataMax),
  detail: z.enum(['auto', 'low', 'high', 'original']).nullish(),
});
const inputFile = z.object({
  type: z.literal('input_file'),
  file_id: noFileId,
  file_url: z.string().min(1).max(dataMax).nullish(),
  file_data: z.string().max(dataMax).startsWith('data:', 'must be a data URI').nullish(),
  filename: z.string().max(255).nullish(),
});
const outputText = z.object({ type: z.literal('output_text'), text });
const refusal = z.object({ type: z.literal('refusal'), refusal: text });

const message = { type: z.literal('message').optional() };
const inputMessage = z.object({
  ...message,
  role: z.literal('user'),
  content: z.union([
    text,
    z
      .array(
        z.discriminatedUnion('type', [inputText, inputImage, inputFile], {
          error: 'must be one of input_text, input_image, input_file',
        }),
      )
      .max(partsMax),
  ]),
});
const systemMessage = z.object({
  ...message,
  role: z.enum(['system', 'developer']),
  content: z.union([text, z.array(inputText).max(partsMax)]),
});
const outputMessage = z.object({
  ...message,
  role: z.literal('assistant'),
  content: z.union([
    text,
    z
      .array(
        z.discriminatedUnion('type', [outputText, refusal, inputText], {
          error: 'must be one of output_text, refusal, input_text',
        }),
      )
      .max(partsMax),
  ]),
});
const functionCall = z.object({
  type: z.literal('function_call'),
  call_id: name,
  name,
  arguments: text,
});
const functionCallOutput = z.object({
  type: z.literal('function_call_output'),
  call_id: name,
  output: z.union([
    text,
    z
      .array(
        z.discriminatedUnion('type', [inputText, inputImage], {
          error: 'must be one of input_text, input_image',
        }),
      )
      .max(partsMax),
  ]),
});
const reasoningItem = z.object({
  type: z.literal('reasoning'),
  summary: z
    .array(z.object({ text: text.optional() }))
    .max(partsMax)
    .nullish(),
  encrypted_content: text.nullish(),
});
const itemTypes = 'must be one of message, function_call, function_call_output, reasoning';
const inputItem = z.discriminatedUnion(
  'type',
  [
    z.discriminatedUnion('role', [inputMessage, systemMessage, outputMessage], {
      error: 'must be one of user, system, developer, assistant',
    }),
    functionCall,
    functionCallOutput,
    reasoningItem,
  ],
  {
    error: ({ input }) =>
      isItemReference(input) ? `item_reference is not supported: ${resend}` : itemTypes,
  },
);

function isItemReference(input: unknown): boolean {
  return (
    typeof input === 'object' &&
    input !== null &&
    'type' in input &&
    input.type === 'item_reference'
  );
}

/** Schema of the `input` field. */
export const input = z.union([
  text,
  z.array(inputItem).min(1, 'must contain at least one item').max(itemsMax),
]);
type Input = z.infer<typeof input>;
type Item = Exclude<Input, string>[number];

/**
 * Converts items to messages. Reasoning, a text of the assistant and the calls after it become one
 * message.
 */
export function toMessages(items: Input): ChatMessage[] {
  if (typeof items === 'string') return [{ role: 'user', content: items }];
  const messages: ChatMessage[] = [];
  /** Data of a provider that belongs to the next call. */
  let pending: JsonObject | undefined;
  for (const item of items) {
    if ('role' in item) addMessage(messages, item);
    else if (item.type === 'reasoning') pending = addReasoning(messages, item) ?? pending;
    else if (item.type === 'function_call') {
      addCall(messages, item, pending);
      pending = undefined;
    } else {
      const content = typeof item.output === 'string' ? item.output : outputOf(item.output);
      messages.push({ role: 'tool', tool_call_id: item.call_id, content });
    }
  }
  return messages.filter(({ role, content, tool_calls: calls }) => {
    // Reasoning without an answer after it is dropped, because a model does not use it.
    return role !== 'assistant' || content !== null || calls;
  });
}

/**
 * Returns the last message if it is from the assistant and `accepts` returns true; otherwise adds a
 * new message of the assistant and returns it.
 */
function turnOf(
  messages: ChatMessage[],
  accepts: (turn: ChatMessage) => boolean = () => true,
): ChatMessage {
  const last = messages.at(-1);
  if (last?.role === 'assistant' && accepts(last)) return last;
  const turn: ChatMessage = { role: 'assistant', content: null };
  messages.push(turn);
  return turn;
}

/** Returns whether a message has only reasoning so far. */
function isThought({ content, tool_calls: calls }: ChatMessage): boolean {
  return content === null && !calls;
}

function addReasoning(
  messages: ChatMessage[],
  { summary, encrypted_content: encrypted }: z.infer<typeof reasoningItem>,
): JsonObject | undefined {
  const thoughts = (summary ?? []).map((part) => part.text ?? '').join('\n');
  const { details = [], extraContent } = unsealed(encrypted ?? '') ?? {};
  if (thoughts === '' && details.length === 0) return extraContent;
  const turn = turnOf(messages, isThought);
  if (thoughts !== '') turn.reasoning_content = (turn.reasoning_content ?? '') + thoughts;
  if (details.length > 0) turn.reasoning_details = [...(turn.reasoning_details ?? []), ...details];
  return extraContent;
}

function addCall(
  messages: ChatMessage[],
  item: z.infer<typeof functionCall>,
  extra: JsonObject | undefined,
): void {
  const turn = turnOf(messages);
  turn.tool_calls ??= [];
  turn.tool_calls.push({
    id: item.call_id,
    type: 'function',
    function: { name: item.name, arguments: item.arguments },
    ...(extra && { extra_content: extra }),
  });
}

function addMessage(messages: ChatMessage[], item: Extract<Item, { role: string }>): void {
  const { role, content } = item;
  if (role === 'user') {
    const parts = typeof content === 'string' ? content : content.map(partOf);
    messages.push({ role, content: parts });
  } else if (role === 'assistant') {
    turnOf(messages, isThought).content = plain(content);
  } else messages.push({ role: 'system', content: plain(content) });
}

type Output = Exclude<z.infer<typeof functionCallOutput>['output'], string>;

function outputOf(parts: Output): string | ContentPart[] {
  if (parts.some(({ type }) => type === 'input_image')) return parts.map(partOf);
  return parts.map((part) => (part.type === 'input_text' ? part.text : '')).join('\n');
}

type Plain = string | readonly ({ text: string } | { refusal: string })[];

function plain(content: Plain): string {
  if (typeof content === 'string') return content;
  return content.map((part) => ('text' in part ? part.text : part.refusal)).join('\n');
}

type UserPart = z.infer<typeof inputText> | z.infer<typeof inputImage> | z.infer<typeof inputFile>;

function partOf(part: UserPart): ContentPart {
  if (part.type === 'input_text') return { type: 'text', text: part.text };
  if (part.type === 'input_image') {
    const { image_url: url, detail } = part;
    return { type: 'image_url', image_url: { url, ...given({ detail }) } };
  }
  const { file_data, file_url, filename } = part;
  return { type: 'file', file: given({ file_data, file_url, filename }) };
}
