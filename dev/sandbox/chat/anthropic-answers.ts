/** Answers of Anthropic's Messages API in the sandbox, whole and streamed. */
import { randomUUID } from 'node:crypto';
import type { Conversation, Script, Wording } from './script.ts';

const stopReasons = {
  end: 'end_turn',
  sequence: 'stop_sequence',
  length: 'max_tokens',
  tool: 'tool_use',
} as const;

/** Signature of the thinking of a text; the API accepts only its own signatures. */
function signatureOf(thinking: string): string {
  return `sig_${Buffer.from(thinking).toString('base64url').slice(0, 40)}`;
}

function toolUsesOf({ toolCalls }: Script) {
  return toolCalls.map(({ name, input }) => ({
    type: 'tool_use' as const,
    id: `toolu_${randomUUID().replaceAll('-', '').slice(0, 24)}`,
    name,
    input,
  }));
}

/** Returns the input tokens by their price: read from the cache, written to it, and neither. */
function inputUsageOf({ input, read, write }: NonNullable<Script['usage']>) {
  return {
    input_tokens: input - read - write,
    cache_read_input_tokens: read,
    cache_creation_input_tokens: write,
  };
}

function messageOf(talk: Conversation, fields: object) {
  return {
    id: `msg_${randomUUID()}`,
    type: 'message',
    role: 'assistant',
    model: talk.model,
    stop_sequence: null,
    ...fields,
  };
}

/** Makes the whole answer. */
export function responseSchema(talk: Conversation, script: Script) {
  const text = script.pieces.join('');
  const { reasoning, usage } = script;
  return messageOf(talk, {
    content: [
      ...thinkingOf(talk, reasoning),
      ...(text === '' && script.toolCalls.length > 0 ? [] : [{ type: 'text', text }]),
      ...toolUsesOf(script),
    ],
    stop_reason: stopReasons[script.stop],
    stop_sequence: script.stopSequence,
    ...(usage && { usage: { ...inputUsageOf(usage), output_tokens: usage.output } }),
  });
}

/** Returns the thinking block; its text is empty if the request does not ask to show it. */
function thinkingOf({ reasons }: Conversation, reasoning: string) {
  if (reasons === 'no') return [];
  return [{ type: 'thinking', thinking: reasoning, signature: signatureOf(reasoning) }];
}

function event(data: { type: string; [field: string]: unknown }): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}

interface Block {
  start: object;
  deltas: object[];
}

function blocksOf(talk: Conversation, script: Script): Block[] {
  const { reasoning } = script;
  const thinking = thinkingOf(talk, reasoning).map(({ signature }) => ({
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
  const calls = toolUsesOf(script).map((toolUse) => {
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

/** Makes the events of the answer as a stream. */
export function wordingOf(talk: Conversation, script: Script): Wording {
  const { usage } = script;
  const blocks = blocksOf(talk, script);
  const begun = (index: number): string => {
    const block = blocks[index];
    if (!block) return '';
    const start = event({ type: 'content_block_start', index, content_block: block.start });
    return index === 0
      ? start + event({ type: 'ping' })
      : event({ type: 'content_block_stop', index: index - 1 }) + start;
  };
  const message = messageOf(talk, {
    content: [],
    stop_reason: null,
    ...(usage && { usage: { ...inputUsageOf(usage), output_tokens: 1 } }),
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
