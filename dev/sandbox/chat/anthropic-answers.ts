/** Builds responses in the format of Anthropic's Messages API, complete and streamed. */
import { randomUUID } from 'node:crypto';
import type { Conversation, Script, StreamEvents } from './script.ts';

const stopReasons = {
  end: 'end_turn',
  sequence: 'stop_sequence',
  length: 'max_tokens',
  tool: 'tool_use',
} as const;

/** Signs a thinking text; like Anthropic, the sandbox accepts only its own signatures in later requests. */
function sign(thinking: string): string {
  return `sig_${Buffer.from(thinking).toString('base64url').slice(0, 40)}`;
}

function buildToolUses({ toolCalls }: Script) {
  return toolCalls.map(({ name, input }) => ({
    type: 'tool_use' as const,
    id: `toolu_${randomUUID().replaceAll('-', '').slice(0, 24)}`,
    name,
    input,
  }));
}

/** Splits the input tokens by price: read from the cache, written to it, and neither. */
function buildInputUsage({ input, read, write }: NonNullable<Script['usage']>) {
  return {
    input_tokens: input - read - write,
    cache_read_input_tokens: read,
    cache_creation_input_tokens: write,
  };
}

function buildMessage(conversation: Conversation, fields: object) {
  return {
    id: `msg_${randomUUID()}`,
    type: 'message',
    role: 'assistant',
    model: conversation.model,
    stop_sequence: null,
    ...fields,
  };
}

/** Builds the complete response. */
export function buildResponse(conversation: Conversation, script: Script) {
  const text = script.pieces.join('');
  const { reasoning, usage } = script;
  return buildMessage(conversation, {
    content: [
      ...buildThinking(conversation, reasoning),
      ...(text === '' && script.toolCalls.length > 0 ? [] : [{ type: 'text', text }]),
      ...buildToolUses(script),
    ],
    stop_reason: stopReasons[script.stop],
    stop_sequence: script.stopSequence,
    ...(usage && { usage: { ...buildInputUsage(usage), output_tokens: usage.output } }),
  });
}

/** Returns the thinking block; its text is empty if the request did not ask for visible thinking. */
function buildThinking({ reasons }: Conversation, reasoning: string) {
  if (reasons === 'no') return [];
  return [{ type: 'thinking', thinking: reasoning, signature: sign(reasoning) }];
}

function event(data: { type: string; [field: string]: unknown }): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}

interface Block {
  start: object;
  deltas: object[];
}

function buildBlocks(conversation: Conversation, script: Script): Block[] {
  const { reasoning } = script;
  const thinking = buildThinking(conversation, reasoning).map(({ signature }) => ({
    start: { type: 'thinking', thinking: '', signature: '' },
    deltas: [
      ...(reasoning === '' ? [] : [{ type: 'thinking_delta', thinking: reasoning }]),
      { type: 'signature_delta', signature },
    ],
  }));
  const text = {
    start: { type: 'text', text: '' },
    deltas: script.pieces.map((piece) => ({ type: 'text_delta', text: piece })),
  };
  const calls = buildToolUses(script).map((toolUse) => {
    const json = JSON.stringify(toolUse.input);
    return {
      start: { ...toolUse, input: {} },
      deltas: [json.slice(0, 5), json.slice(5)].map((piece) => ({
        type: 'input_json_delta',
        partial_json: piece,
      })),
    };
  });
  const hasText = script.pieces.length > 0 || (thinking.length === 0 && calls.length === 0);
  return [...thinking, ...(hasText ? [text] : []), ...calls];
}

/** Builds the events of a streamed response. */
export function buildEvents(conversation: Conversation, script: Script): StreamEvents {
  const { usage } = script;
  const blocks = buildBlocks(conversation, script);
  const begun = (index: number): string => {
    const block = blocks[index];
    if (!block) return '';
    const start = event({ type: 'content_block_start', index, content_block: block.start });
    return index === 0
      ? start + event({ type: 'ping' })
      : event({ type: 'content_block_stop', index: index - 1 }) + start;
  };
  const message = buildMessage(conversation, {
    content: [],
    stop_reason: null,
    ...(usage && { usage: { ...buildInputUsage(usage), output_tokens: 1 } }),
  });
  const chunks = blocks.flatMap(({ deltas }, index) =>
    deltas.map((delta, position) => {
      const start = position === 0 && index > 0 ? begun(index) : '';
      return start + event({ type: 'content_block_delta', index, delta });
    }),
  );
  return {
    start: event({ type: 'message_start', message }) + begun(0),
    chunks,
    end:
      event({ type: 'content_block_stop', index: blocks.length - 1 }) +
      event({
        type: 'message_delta',
        delta: { stop_reason: stopReasons[script.stop], stop_sequence: script.stopSequence },
        ...(usage && { usage: { output_tokens: usage.output } }),
      }) +
      event({ type: 'message_stop' }),
    error: event({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }),
  };
}
