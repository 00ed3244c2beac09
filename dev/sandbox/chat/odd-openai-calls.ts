/**
 * Answers in the format of OpenAI's chat completions whose tool calls are numbered, named or repeated in other ways than
 * documented, and functions that build such answers.
 */
import { event, type OddAnswer } from './odd-answers.ts';

export const done = 'data: [DONE]\n\n';
export const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };

export function chunk(delta: unknown, reason: string | null = null, fields: object = {}): string {
  const choice = { index: 0, delta, logprobs: null, finish_reason: reason };
  const head = {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1_700_000_000,
    model: 'odd',
  };
  return event({ ...head, choices: [choice], ...fields });
}

export const end = (reason: string): string => chunk({}, reason, { usage }) + done;
export const text = (content: string): string => chunk({ content });
export const hello = text('hel') + text('lo');

/** Formats a chunk with a piece of a tool call; undefined fields are missing. */
export const piece = (fields: object, name?: string | null, json?: unknown): string =>
  chunk({ tool_calls: [{ ...fields, function: { name, arguments: json } }] });
export const callA = (fields: object): string =>
  piece({ type: 'function', ...fields }, 'a', '{"x":"aa"}');
const callB = (fields: object): string => piece({ type: 'function', ...fields }, 'b', '{"y":"bb"}');

export function whole(message: object | null, reason: string | null, fields: object = {}): string {
  const choices = [{ index: 0, message, finish_reason: reason }];
  return JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'odd',
    choices,
    usage,
    ...fields,
  });
}
export const wholeCall = (fields: object, name: string, json?: unknown) => ({
  type: 'function',
  ...fields,
  function: { name, arguments: json },
});
export const wholeCalls = (calls: unknown, reason: string | null = 'tool_calls'): string =>
  whole({ role: 'assistant', content: null, tool_calls: calls }, reason);
export const both = [
  wholeCall({ id: 'c0' }, 'a', '{"x":"aa"}'),
  wholeCall({ id: 'c1' }, 'b', '{"y":"bb"}'),
];

/** Answers by name. */
export const oddCalls: Readonly<Record<string, OddAnswer>> = {
  'calls-at-index-zero': {
    stream: callA({ index: 0, id: 'c0' }) + callB({ index: 0, id: 'c1' }) + end('tool_calls'),
  },
  'calls-without-index': {
    stream: callA({ id: 'c0' }) + callB({ id: 'c1' }) + end('tool_calls'),
    whole: wholeCalls(both),
  },
  'calls-with-index-as-text': {
    stream:
      piece({ index: '0', id: 'c0' }, 'a', '') +
      piece({ index: '1', id: 'c1' }, 'b', '') +
      piece({ index: '0' }, undefined, '{"x":"aa"}') +
      piece({ index: '1' }, undefined, '{"y":"bb"}') +
      end('tool_calls'),
  },
  'calls-interleaved': {
    stream:
      text('Both:') +
      piece({ index: 0, id: 'c0' }, 'a', '{"x"') +
      piece({ index: 1, id: 'c1' }, 'b', '{"y"') +
      piece({ index: 0 }, undefined, ':"aa"}') +
      piece({ index: 1 }, undefined, ':"bb"}') +
      end('tool_calls'),
  },
  'calls-in-pieces-at-index-zero': {
    stream:
      piece({ index: 0, id: 'c0' }, 'a', '') +
      piece({ index: 0 }, undefined, '{"x":') +
      piece({ index: 0 }, undefined, '"aa"}') +
      piece({ index: 0, id: 'c1' }, 'b', '') +
      piece({ index: 0 }, undefined, '{"y":"b') +
      piece({ index: 0 }, undefined, 'b"}') +
      end('tool_calls'),
  },
  'calls-without-id': {
    stream: callA({ index: 0 }) + callB({ index: 0, id: '' }) + end('tool_calls'),
    whole: wholeCalls([wholeCall({}, 'a', '{"x":"aa"}'), wholeCall({ id: '' }, 'b', '{"y":"bb"}')]),
  },
  'calls-of-one-tool-without-id': {
    stream: callA({ index: 0 }) + piece({ index: 0 }, 'a', '{"x":"cc"}') + end('tool_calls'),
  },
  'calls-with-one-id': {
    stream:
      callA({ index: 0, id: 'a' }) +
      piece({ index: 1, id: 'a' }, 'a', '{"x":"cc"}') +
      end('tool_calls'),
    whole: wholeCalls([
      wholeCall({ id: 'a' }, 'a', '{"x":"aa"}'),
      wholeCall({ id: 'a' }, 'a', '{"x":"cc"}'),
    ]),
  },
  'call-id-later': {
    stream:
      piece({ index: 0 }, 'a', '') +
      piece({ index: 0, id: 'c0' }, undefined, '{"x":') +
      piece({ index: 0 }, undefined, '"aa"}') +
      end('tool_calls'),
  },
  'call-name-later': {
    stream:
      piece({ index: 0, id: 'c0' }, undefined, '{"x":') +
      piece({ index: 0 }, undefined, '"aa"}') +
      piece({ index: 0 }, 'a') +
      end('tool_calls'),
  },
  'call-id-in-each-piece': {
    stream:
      piece({ index: 0, id: 'c0' }, 'a', '{"x"') +
      piece({ index: 0, id: 'c0' }, 'a', ':"aa"') +
      piece({ index: 0, id: 'c0' }, '', '}') +
      end('tool_calls'),
  },
  'call-with-new-id-in-each-piece': {
    stream:
      piece({ index: 0, id: 'c0' }, 'a', '{"x"') +
      piece({ index: 0, id: 'c8' }, undefined, ':"aa"') +
      piece({ index: 0, id: 'c9' }, null, '}') +
      end('tool_calls'),
  },
  'call-at-two-indexes': {
    stream:
      piece({ index: 0, id: 'c0' }, 'a', '') +
      piece({ index: 1, id: 'c0' }, undefined, '{"x":"aa"}') +
      callA({ index: 2, id: 'c0' }) +
      end('tool_calls'),
  },
  'call-with-null-fields': {
    stream:
      chunk({
        role: 'assistant',
        content: null,
        function_call: null,
        refusal: null,
        tool_calls: [
          { index: 0, id: 'c0', type: 'function', function: { name: 'a', arguments: null } },
        ],
      }) +
      chunk({
        role: null,
        content: null,
        tool_calls: [
          { index: 0, id: null, type: null, function: { name: null, arguments: '{"x":"aa"}' } },
        ],
      }) +
      chunk({ tool_calls: null }) +
      chunk({ tool_calls: [] }) +
      chunk({ tool_calls: [{ index: 0, id: '', function: { name: '', arguments: '' } }] }) +
      end('tool_calls'),
  },
  'arguments-from-the-beginning': {
    stream:
      piece({ index: 0, id: 'c0' }, 'a', '{') +
      ['{"x"', '{"x":"a', '{"x":"aa"}']
        .map((json) => piece({ index: 0 }, undefined, json))
        .join('') +
      callB({ index: 1, id: 'c1' }) +
      end('tool_calls'),
  },
  'arguments-repeated-at-the-end': {
    stream:
      piece({ index: 0, id: 'c0' }, 'a', '') +
      piece({ index: 0 }, undefined, '{"x":') +
      piece({ index: 0 }, undefined, '"aa"}') +
      callA({ index: 0, id: 'c0' }) +
      end('tool_calls'),
  },
  'arguments-that-look-repeated': {
    stream:
      piece({ index: 0, id: 'c0' }, 'a', '{"x":') +
      piece({ index: 0 }, undefined, '{"x":1}') +
      piece({ index: 0 }, undefined, '}') +
      end('tool_calls'),
  },
  'arguments-as-object': {
    stream: piece({ index: 0, id: 'c0' }, 'a', { x: 'aa' }) + end('tool_calls'),
    whole: wholeCalls([wholeCall({ id: 'c0' }, 'a', { x: 'aa' })]),
  },
  'arguments-after-a-placeholder': {
    stream:
      piece({ index: 0, id: 'c0' }, 'a', '{}') +
      piece({ index: 0 }, undefined, '{"x":') +
      piece({ index: 0 }, undefined, '"aa"}') +
      end('tool_calls'),
  },
  'arguments-missing': {
    stream: piece({ index: 0, id: 'c0' }, 'a', '') + end('tool_calls'),
    whole: wholeCalls([wholeCall({ id: 'c0' }, 'a', '')]),
  },
  'arguments-null': {
    stream:
      piece({ index: 0, id: 'c0' }, 'a', null) +
      piece({ index: 1, id: 'c1' }, 'b', 'null') +
      end('tool_calls'),
    whole: wholeCalls([wholeCall({ id: 'c0' }, 'a', null), wholeCall({ id: 'c1' }, 'b', 'null')]),
  },
  'calls-as-object': {
    stream:
      chunk({
        tool_calls: { index: 0, id: 'c0', function: { name: 'a', arguments: '{"x":"aa"}' } },
      }) + end('tool_calls'),
    whole: wholeCalls(wholeCall({ id: 'c0' }, 'a', '{"x":"aa"}')),
  },
  'function-call': {
    stream:
      chunk({ function_call: { name: 'a', arguments: '{"x":' } }) +
      chunk({ function_call: { arguments: '"aa"}' } }) +
      end('function_call'),
    whole: whole(
      { role: 'assistant', content: null, function_call: { name: 'a', arguments: '{"x":"aa"}' } },
      'function_call',
    ),
  },
  'text-after-a-call': { stream: callA({ index: 0, id: 'c0' }) + text('\n') + end('tool_calls') },
  'text-inside-a-call': {
    stream:
      piece({ index: 0, id: 'c0' }, 'a', '{"x"') +
      text('hello') +
      piece({ index: 0 }, undefined, ':"aa"}') +
      end('tool_calls'),
  },
  'piece-of-no-call': {
    stream:
      text('hello') +
      piece({ index: 0, id: 'c0' }, 'a', '') +
      piece({ index: 1 }, undefined, '{"x":"aa"}') +
      end('tool_calls'),
  },
  'two-objects-in-one-call': {
    stream:
      text('hello') +
      callA({ index: 0, id: 'c0' }) +
      piece({ index: 0 }, undefined, '{"y":"bb"}') +
      end('tool_calls'),
  },
};
