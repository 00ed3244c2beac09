/** Runs tool loops with the official clients, which send back each answer unchanged. */
import type { MessageParam } from '@anthropic-ai/sdk/resources/messages';
import type { ChatCompletionMessageParam } from 'openai/resources';
import type { ResponseInputItem } from 'openai/resources/responses/responses';
import { say, type ChatClients } from './chat-clients.ts';

/** The tool of the loops, with constraints that the providers reject in strict schemas. */
const lookUp = {
  name: 'look_up',
  parameters: {
    type: 'object' as const,
    properties: { place: { type: 'string' }, days: { type: 'integer', minimum: 2 } },
    required: ['place', 'days'],
  },
};
/** The same tool of chat completions. */
export const lookUpFunction = { type: 'function' as const, function: lookUp };

interface Loop {
  model: string;
  question: string;
  stream: boolean;
  /** Whether reasoning is requested. */
  reasons?: boolean;
}

/** The loops by endpoint. Each returns the whole conversation, the last answer included. */
export const toolLoops = {
  async completions(
    { complete }: ChatClients,
    { model, question, stream, reasons }: Loop,
  ): Promise<ChatCompletionMessageParam[]> {
    const messages: ChatCompletionMessageParam[] = say(question);
    const request = { model, messages, tools: [lookUpFunction] };
    const extra = reasons ? { reasoning_effort: 'low' as const } : {};
    for (;;) {
      const [choice] = (await complete({ ...request, ...extra }, stream)).choices;
      if (!choice) throw new Error('the completion has no choice');
      messages.push(choice.message);
      if (choice.finish_reason === 'stop') return messages;
      for (const { id } of choice.message.tool_calls ?? [])
        messages.push({ role: 'tool', tool_call_id: id, content: 'deep' });
    }
  },

  async responses(
    { respond }: ChatClients,
    { model, question, stream, reasons }: Loop,
  ): Promise<ResponseInputItem[]> {
    const input: ResponseInputItem[] = say(question);
    const tools = [{ type: 'function' as const, strict: false, ...lookUp }];
    const request = { model, input, tools, store: false };
    const extra = reasons ? { reasoning: { effort: 'low' as const } } : {};
    for (;;) {
      const { output } = await respond({ ...request, ...extra }, stream);
      input.push(...(output as ResponseInputItem[]));
      const calls = output.filter((item) => item.type === 'function_call');
      if (calls.length === 0) return input;
      for (const { call_id } of calls)
        input.push({ type: 'function_call_output', call_id, output: 'deep' });
    }
  },

  async messages(
    { message }: ChatClients,
    { model, question, stream, reasons }: Loop,
  ): Promise<MessageParam[]> {
    const messages: MessageParam[] = say(question);
    const tools = [{ name: lookUp.name, input_schema: lookUp.parameters }];
    const request = { model, max_tokens: 4000, messages, tools };
    const thinking = { type: 'enabled' as const, budget_tokens: 2000 };
    for (;;) {
      const { content } = await message({ ...request, ...(reasons && { thinking }) }, stream);
      messages.push({ role: 'assistant', content });
      const calls = content.filter((block) => block.type === 'tool_use');
      if (calls.length === 0) return messages;
      const results = calls.map(({ id }) => ({
        type: 'tool_result' as const,
        tool_use_id: id,
        content: [{ type: 'text' as const, text: 'deep' }],
      }));
      messages.push({ role: 'user', content: results });
    }
  },
};

/** The loops, whole and streamed. */
export const everyLoop = (Object.keys(toolLoops) as (keyof typeof toolLoops)[]).flatMap(
  (endpoint) => [false, true].map((stream) => [endpoint, stream] as const),
);
