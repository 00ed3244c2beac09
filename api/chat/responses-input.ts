/**
 * The `input` of OpenAI's Responses API: its items, translated to messages of a chat.
 *
 * Source: the types of the `openai` client, `ResponseInputItem`.
 */
import { z } from 'zod';
import type { ChatMessage, ContentPart } from '../../chat/chat-body.ts';
import { dataMax, given, name, notTaken, text } from './chat-messages.ts';

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
  file_url: notTaken('send the document as a data URI in file_data'),
  file_data: z.string().max(dataMax).startsWith('data:', 'must be a data URI'),
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
    z.array(z.discriminatedUnion('type', [inputText, inputImage, inputFile])).max(partsMax),
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
    z.array(z.discriminatedUnion('type', [outputText, refusal, inputText])).max(partsMax),
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
  output: z.union(
    [text, z.array(inputText).max(partsMax)],
    'must be a string or an array of input_text parts: other outputs are not supported',
  ),
});
/** Reasoning of an earlier response. Another model cannot read it, so it is dropped. */
const reasoningItem = z.object({ type: z.literal('reasoning') });
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

/** Converts items to messages. A text of the assistant and the calls after it become one message. */
export function toMessages(items: Input): ChatMessage[] {
  if (typeof items === 'string') return [{ role: 'user', content: items }];
  const messages: ChatMessage[] = [];
  for (const item of items) {
    if ('role' in item) messages.push(messageOf(item));
    else if (item.type === 'function_call') addCall(messages, item);
    else if (item.type === 'function_call_output') {
      messages.push({ role: 'tool', tool_call_id: item.call_id, content: plain(item.output) });
    }
  }
  return messages;
}

function addCall(messages: ChatMessage[], item: z.infer<typeof functionCall>): void {
  let turn = messages.at(-1);
  if (turn?.role !== 'assistant') {
    turn = { role: 'assistant', content: null };
    messages.push(turn);
  }
  turn.tool_calls ??= [];
  turn.tool_calls.push({
    id: item.call_id,
    type: 'function',
    function: { name: item.name, arguments: item.arguments },
  });
}

function messageOf(item: Extract<Item, { role: string }>): ChatMessage {
  if (item.role === 'user') {
    const { content } = item;
    return {
      role: 'user',
      content: typeof content === 'string' ? content : content.map(partOf),
    };
  }
  if (item.role === 'assistant') return { role: 'assistant', content: plain(item.content) };
  return { role: 'system', content: plain(item.content) };
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
  const { file_data, filename } = part;
  return { type: 'file', file: { file_data, ...given({ filename }) } };
}
