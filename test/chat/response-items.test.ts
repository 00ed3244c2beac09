/** Items of responses and blocks of messages, for chunks that the sandbox does not send. */
import { expect, it } from 'vitest';
import { MessageEvents } from '../../api/chat/message-events.ts';
import { ResponseItems } from '../../api/chat/response-items.ts';

const makeChunk = (delta: object) => ({ choices: [{ index: 0, delta }] });
const callPiece = (index: number, piece: string, head: object = {}) =>
  makeChunk({
    tool_calls: [{ index, ...head, function: { name: `f${index}`, arguments: piece } }],
  });

const alternating = [
  makeChunk({ content: 'Both:' }),
  callPiece(0, '{"a"', { id: 'c0' }),
  callPiece(1, '{"b"', { id: 'c1' }),
  callPiece(0, ':1}'),
  callPiece(1, ':2}'),
];

it('the arguments of parallel tool calls stay apart when their chunks alternate', () => {
  const items = new ResponseItems('chat_1');
  const events = alternating.flatMap((chunk) => items.add(chunk));
  events.push(...items.end('completed'));
  expect(items.output('completed')).toMatchObject([
    { type: 'message', content: [{ type: 'output_text', text: 'Both:' }] },
    { type: 'function_call', call_id: 'c0', name: 'f0', arguments: '{"a":1}' },
    { type: 'function_call', call_id: 'c1', name: 'f1', arguments: '{"b":2}' },
  ]);
  const done = events.filter(({ type }) => type === 'response.output_item.done');
  expect(done.map((event) => event['output_index'])).toEqual([0, 1, 2]);
  const deltas = events.filter(({ type }) => type === 'response.function_call_arguments.delta');
  expect(deltas.map((event) => [event['output_index'], event['delta']])).toEqual([
    [1, '{"a"'],
    [2, '{"b"'],
    [1, ':1}'],
    [2, ':2}'],
  ]);
});

it('the pieces of parallel tool calls belong to their own blocks of a message', () => {
  const message = new MessageEvents();
  const text = alternating.map((chunk) => message.convert(chunk)).join('');
  const indexes = text.matchAll(/"index":(\d),"delta":\{"type":"input_json_delta"/g);
  expect([...indexes].map(([, index]) => index)).toEqual(['1', '2', '1', '2']);
});

it('a refusal is announced as a separate part, after the text before it', () => {
  const items = new ResponseItems('chat_1');
  const events = [
    ...items.add(makeChunk({ content: 'Well. ' })),
    ...items.add(makeChunk({ refusal: 'No.' })),
    ...items.end('completed'),
  ];
  expect(events.map(({ type }) => type)).toEqual([
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    'response.content_part.added',
    'response.refusal.delta',
    'response.refusal.done',
    'response.content_part.done',
    'response.output_item.done',
  ]);
  expect(events[7]).toMatchObject({ content_index: 1, refusal: 'No.' });
  expect(items.output('completed')).toMatchObject([
    {
      content: [
        { type: 'output_text', text: 'Well. ' },
        { type: 'refusal', refusal: 'No.' },
      ],
    },
  ]);
});
