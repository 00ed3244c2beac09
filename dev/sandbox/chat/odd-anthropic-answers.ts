/**
 * Answers in the format of Anthropic's Messages API that differ from Anthropic's documentation, as public bug reports show
 * them. A prompt plays one with `[[answer:name]]`.
 */
import type { OddAnswer } from './odd-answers.ts';

function event(data: { type: string; [field: string]: unknown }): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}

const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'odd' };
const usage = { input_tokens: 7, output_tokens: 3 };
const start = event({
  type: 'message_start',
  message: { ...message, content: [], usage: { ...usage, output_tokens: 1 } },
});
const begin = (index: number | undefined, content_block: object): string =>
  event({ type: 'content_block_start', index, content_block });
const delta = (index: number | undefined, fields: object): string =>
  event({ type: 'content_block_delta', index, delta: fields });
const json = (index: number | undefined, partial_json: string): string =>
  delta(index, { type: 'input_json_delta', partial_json });
const stop = (index: number | undefined): string => event({ type: 'content_block_stop', index });
const ended = event({ type: 'message_stop' });
const end = (reason: string | null): string =>
  event({ type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage }) +
  ended;
const text = (index: number, words: string): string =>
  begin(index, { type: 'text', text: '' }) +
  delta(index, { type: 'text_delta', text: words }) +
  stop(index);
const use = (id: string, name: string, input: unknown = {}) => ({
  type: 'tool_use',
  id,
  name,
  input,
});
const callA = (index: number | undefined): string =>
  begin(index, use('c0', 'a')) + json(index, '{"x":') + json(index, '"aa"}');
const callB = (index: number | undefined): string =>
  begin(index, use('c1', 'b')) + json(index, '{"y":"bb"}');
const sign = (index: number, signature: string): string =>
  delta(index, { type: 'signature_delta', signature });
const think = (index: number, thinking: string): string =>
  delta(index, { type: 'thinking_delta', thinking });
const thinking = { type: 'thinking', thinking: '', signature: '' };
const thought = (index: number, words: string, signature: string): string =>
  begin(index, thinking) + think(index, words) + sign(index, signature) + stop(index);

const whole = (content: unknown, reason: string | null, fields: object = {}): string =>
  JSON.stringify({
    ...message,
    content,
    stop_reason: reason,
    stop_sequence: null,
    usage,
    ...fields,
  });
const hello = [{ type: 'text', text: 'hello' }];
const error = (fields: object): string =>
  event({ type: 'error', error: { message: 'Odd failure', ...fields } });
const wholeError = (fields: object): string =>
  JSON.stringify({ type: 'error', error: { message: 'Odd failure', ...fields } });

/** Answers by name. */
export const oddAnthropicAnswers: Readonly<Record<string, OddAnswer>> = {
  'input-at-the-start': {
    stream: start + begin(0, use('c0', 'a', { x: 'aa' })) + stop(0) + end('tool_use'),
  },
  'input-at-the-start-and-in-pieces': {
    stream:
      start +
      begin(0, use('c0', 'a', { x: 'aa' })) +
      json(0, '{"x":') +
      json(0, '"aa"}') +
      stop(0) +
      end('tool_use'),
  },
  'input-missing': {
    stream:
      start +
      begin(0, use('c0', 'a')) +
      stop(0) +
      begin(1, use('c1', 'b', null)) +
      json(1, '') +
      stop(1) +
      end('tool_use'),
    whole: whole([use('c0', 'a', undefined), use('c1', 'b', null)], 'tool_use'),
  },
  'end-turn-beside-a-call': {
    stream: start + text(0, 'hello') + callA(1) + stop(1) + end('end_turn'),
    whole: whole([...hello, use('c0', 'a', { x: 'aa' })], 'end_turn'),
  },
  'no-reason-beside-a-call': {
    stream: start + callA(0) + stop(0) + end(null),
    whole: whole([use('c0', 'a', { x: 'aa' })], null),
  },
  'tool-use-without-a-call': {
    stream: start + text(0, 'hello') + end('tool_use'),
    whole: whole(hello, 'tool_use'),
  },
  'no-message-delta': { stream: start + text(0, 'hello') + ended },
  'no-message-stop': { stream: start + text(0, 'hello') + end('end_turn').replace(ended, '') },
  'end-mark-instead-of-message-stop': {
    stream: start + text(0, 'hello') + end('end_turn').replace(ended, 'data: [DONE]\n\n'),
  },
  'end-mark-after-message-stop': {
    stream:
      start +
      text(0, 'hello') +
      end('end_turn') +
      'data: [DONE]\n\ndata: {broken\n\n' +
      error({ type: 'api_error' }),
  },
  'odd-frames': {
    stream:
      start +
      event({ type: 'ping' }) +
      'data:\n\ndata: null\n\ndata: : ping\n\n: comment\n\n' +
      text(0, 'hello') +
      event({ type: 'vendor_event' }) +
      end('end_turn'),
  },
  'no-starts': { stream: delta(0, { type: 'text_delta', text: 'hello' }) + end('end_turn') },
  'calls-interleaved': {
    stream:
      start +
      begin(0, use('c0', 'a')) +
      begin(1, use('c1', 'b')) +
      json(0, '{"x":') +
      json(1, '{"y":') +
      json(0, '"aa"}') +
      json(1, '"bb"}') +
      stop(0) +
      stop(1) +
      end('tool_use'),
  },
  'calls-at-index-zero': {
    stream: start + callA(0) + stop(0) + callB(0) + stop(0) + end('tool_use'),
  },
  'calls-without-index': {
    stream:
      start +
      callA(undefined) +
      stop(undefined) +
      callB(undefined) +
      stop(undefined) +
      end('tool_use'),
  },
  'json-of-no-call': { stream: start + text(0, 'hello') + json(3, '{"x":"aa"}') + end('tool_use') },
  'json-after-the-stop': {
    stream:
      start +
      text(0, 'hello') +
      callA(1) +
      stop(1) +
      callB(2) +
      json(1, '{"z":1}') +
      end('tool_use'),
  },
  'thoughts-between-calls': {
    stream:
      start +
      thought(0, 'one', 'S1') +
      callA(1) +
      stop(1) +
      thought(2, 'two', 'S2') +
      callB(3) +
      stop(3) +
      end('tool_use'),
    whole: whole(
      [
        { ...thinking, thinking: 'one', signature: 'S1' },
        use('c0', 'a', { x: 'aa' }),
        { ...thinking, thinking: 'two', signature: 'S2' },
        use('c1', 'b', { y: 'bb' }),
      ],
      'tool_use',
    ),
  },
  'signature-in-pieces': {
    stream:
      start +
      begin(0, thinking) +
      think(0, 'one') +
      sign(0, 'S') +
      sign(0, '1') +
      stop(0) +
      text(1, 'hello') +
      end('end_turn'),
  },
  'signature-at-the-start': {
    stream:
      start +
      begin(0, { ...thinking, thinking: 'one', signature: 'S1' }) +
      stop(0) +
      text(1, 'hello') +
      end('end_turn'),
  },
  'unsigned-thought-first': {
    stream:
      start +
      begin(0, thinking) +
      think(0, 'zero') +
      stop(0) +
      thought(1, 'one', 'S1') +
      text(2, 'hello') +
      end('end_turn'),
  },
  'other-way-round': {
    stream: whole(hello, 'end_turn'),
    whole: start + text(0, 'hello') + end('end_turn'),
  },
  'start-and-stop': { stream: start + ended, whole: whole([], null) },
  'nothing-to-say': { stream: start + end('end_turn'), whole: whole([], 'end_turn') },
  'overloaded-first': {
    stream: error({ type: 'overloaded_error' }),
    whole: wholeError({ type: 'overloaded_error' }),
  },
  'rate-limit-after-the-start': { stream: start + error({ type: 'rate_limit_error' }) },
  'prompt-too-long': {
    stream: error({
      type: 'invalid_request_error',
      message: 'prompt is too long: 9 tokens > 8 maximum',
    }),
    whole: wholeError({
      type: 'invalid_request_error',
      message: 'prompt is too long: 9 tokens > 8 maximum',
    }),
  },
  'api-error': { stream: error({ type: 'api_error' }), whole: wholeError({ type: 'api_error' }) },
  'error-after-output': { stream: start + text(0, 'hello') + error({ type: 'overloaded_error' }) },
};
