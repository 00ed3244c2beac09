/**
 * Answers of providers that differ from their documentation, at each chat endpoint, whole and
 * streamed: one row per answer of the sandbox. The vendors' clients read the responses.
 */
import { APIError as AnthropicError } from '@anthropic-ai/sdk';
import type { MessageStreamEvent } from '@anthropic-ai/sdk/resources/messages';
import { APIError } from 'openai';
import { describe, expect, it } from 'vitest';
import { oddAnthropicAnswers } from '../../dev/sandbox/chat/odd-anthropic-answers.ts';
import { oddOpenaiAnswers } from '../../dev/sandbox/chat/odd-openai-answers.ts';
import { asText } from '../../domain/json.ts';
import { useGateway } from '../harness/gateway.ts';
import { untilSettled } from './chat-account.ts';
import { makeClients, say, type ChatClients } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';

const gateway = useGateway({ settled: 'last' });

interface Expected {
  /** Text; `hello` unless there are calls or an error. */
  text?: string;
  /** Name and arguments of each call. */
  calls?: [name: string, input: object][];
  /** Finish reason in OpenAI's terms; `stop` or `tool_calls` by default. */
  finish?: string;
  /** Error of the response; nothing is charged. */
  error?: [status: number, code: string];
  /** Code of the error that ends a stream after output, which is charged. */
  breaks?: string;
  /** Charged tokens of the input and the output, as the provider reported them. */
  tokens?: [input: number, output: number];
  /** Blocks of a message in order, if they matter. */
  blocks?: string[];
  isRefusal?: true;
}

const a: [string, object] = ['a', { x: 'aa' }];
const c: [string, object] = ['a', { x: 'cc' }];
const b: [string, object] = ['b', { y: 'bb' }];
const both: Expected = { calls: [a, b], tokens: [7, 3] };
const one: Expected = { calls: [a], tokens: [7, 3] };
const hello: Expected = { tokens: [7, 3] };
const failed: Expected = { error: [500, 'PROVIDER_ERROR'] };
const busy: Expected = { error: [503, 'SERVICE_UNAVAILABLE'] };
const tooLong: Expected = { error: [400, 'CONTEXT_LENGTH_EXCEEDED'] };
const rejected: Expected = { error: [400, 'PROVIDER_REJECTED_INPUT'] };
const broken: Expected = { breaks: 'PROVIDER_ERROR' };

const openaiRows: Record<keyof typeof oddOpenaiAnswers, Expected> = {
  'calls-at-index-zero': both,
  'calls-without-index': both,
  'calls-with-index-as-text': both,
  'calls-interleaved': { ...both, text: 'Both:' },
  'calls-in-pieces-at-index-zero': both,
  'calls-without-id': both,
  'calls-of-one-tool-without-id': { calls: [a, c] },
  'calls-with-one-id': { calls: [a, c] },
  'call-id-later': one,
  'call-name-later': one,
  'call-id-in-each-piece': one,
  'call-with-new-id-in-each-piece': one,
  'call-at-two-indexes': one,
  'call-with-null-fields': one,
  'arguments-from-the-beginning': both,
  'arguments-repeated-at-the-end': one,
  'arguments-that-look-repeated': { calls: [['a', { x: { x: 1 } }]] },
  'arguments-as-object': one,
  'arguments-after-a-placeholder': one,
  'arguments-missing': { calls: [['a', {}]] },
  'arguments-null': {
    calls: [
      ['a', {}],
      ['b', {}],
    ],
  },
  'calls-as-object': one,
  'function-call': one,
  'text-after-a-call': { ...one, text: '\n', blocks: ['tool_use', 'text'] },
  'text-inside-a-call': { ...one, text: 'hello', blocks: ['tool_use', 'text'] },
  'piece-of-no-call': broken,
  'two-objects-in-one-call': broken,
  'stop-beside-a-call': {},
  'function-call-beside-a-call': {},
  'no-finish-beside-a-call': {},
  'no-finish': {},
  'tool-calls-without-a-call': hello,
  'call-cut-off': { calls: [['a', expect.anything()]], finish: 'length' },
  'empty-finish-in-each-chunk': hello,
  'finish-before-the-end': hello,
  'finish-twice': one,
  'finish-max-tokens': { ...hello, finish: 'length' },
  'finish-end-turn': hello,
  'finish-sensitive': { ...hello, finish: 'content_filter' },
  'finish-filtered-without-output': { ...hello, text: '', finish: 'content_filter' },
  refusal: { text: 'I will not', isRefusal: true, tokens: [7, 3] },
  'reasoning-in-other-fields': hello,
  'odd-frames': hello,
  'after-the-end': hello,
  'open-after-the-end': hello,
  'crlf-and-byte-order-mark': hello,
  'data-on-several-lines': hello,
  'no-end-mark': hello,
  'no-blank-line-at-the-end': hello,
  'no-choices': hello,
  'repeated-roles': hello,
  'few-fields': {},
  gzip: hello,
  'other-way-round': hello,
  'message-beside-deltas': hello,
  'half-a-frame': broken,
  'usage-in-the-choice': hello,
  'usage-in-x-groq': hello,
  'usage-in-two-chunks': hello,
  'usage-in-each-chunk': hello,
  'only-the-end-mark': failed,
  nothing: failed,
  'only-a-role': failed,
  'only-usage': failed,
  'error-event': failed,
  'error-event-as-text': failed,
  'finish-error': failed,
  'finish-network-error': failed,
  'error-in-the-choice': failed,
  'html-page': failed,
  'half-a-document': failed,
  'context-length-exceeded': tooLong,
  'too-long-by-its-message': tooLong,
  'code-429': busy,
  'rate-limit-exceeded': busy,
  'code-503': busy,
  overloaded: busy,
  'content-filter': { error: [400, 'CONTENT_POLICY'] },
  'invalid-request': rejected,
  'error-in-a-list': busy,
  'error-object': rejected,
  'error-as-text': busy,
  'error-detail': failed,
  'error-after-the-role': tooLong,
  'error-without-events': busy,
  'error-after-output': { breaks: 'SERVICE_UNAVAILABLE' },
  'finish-error-after-output': broken,
};
// Answers in which the whole and the streamed variant differ in the number of calls.
const wholeRows: Record<string, Expected> = {
  'stop-beside-a-call': both,
  'function-call-beside-a-call': both,
  'no-finish-beside-a-call': both,
};
const streamedRows: Record<string, Expected> = {
  'stop-beside-a-call': { ...one, text: 'hello' },
  'function-call-beside-a-call': one,
  'no-finish-beside-a-call': { calls: [a] },
};

const anthropicRows: Record<keyof typeof oddAnthropicAnswers, Expected> = {
  'input-at-the-start': one,
  'input-at-the-start-and-in-pieces': one,
  'input-missing': {
    calls: [
      ['a', {}],
      ['b', {}],
    ],
  },
  'end-turn-beside-a-call': { ...one, text: 'hello' },
  'no-reason-beside-a-call': one,
  'tool-use-without-a-call': hello,
  'no-message-delta': {},
  'no-message-stop': hello,
  'end-mark-instead-of-message-stop': hello,
  'end-mark-after-message-stop': hello,
  'odd-frames': hello,
  'no-starts': hello,
  'calls-interleaved': both,
  'calls-at-index-zero': both,
  'calls-without-index': both,
  'json-of-no-call': broken,
  'json-after-the-stop': broken,
  'thoughts-between-calls': {
    ...both,
    blocks: ['thinking one S1', 'tool_use', 'thinking two S2', 'tool_use'],
  },
  'signature-in-pieces': { ...hello, blocks: ['thinking one S1', 'text'] },
  'signature-at-the-start': { ...hello, blocks: ['thinking one S1', 'text'] },
  'unsigned-thought-first': { ...hello, blocks: ['thinking zero ', 'thinking one S1', 'text'] },
  'other-way-round': hello,
  'start-and-stop': failed,
  'nothing-to-say': { ...hello, text: '' },
  'overloaded-first': busy,
  'rate-limit-after-the-start': busy,
  'prompt-too-long': tooLong,
  'api-error': failed,
  'error-after-output': { breaks: 'SERVICE_UNAVAILABLE' },
};

/** Response of an endpoint, in terms that all endpoints share. */
type Result =
  | { text: string; calls: [string, unknown][]; finish: string | null; blocks?: string[] }
  | { code: string; status: number | undefined };

type Ask = (clients: ChatClients, request: Request) => Promise<Result>;
interface Request {
  model: string;
  messages: ReturnType<typeof say>;
  stream: boolean;
}

const parameters = { type: 'object' as const, properties: {} };
const tools = ['a', 'b'].map((name) => ({
  type: 'function' as const,
  function: { name, parameters },
}));
const parse = (json: string): unknown => (json === '{"x":"a' ? {} : JSON.parse(json));

const askChat: Ask = async ({ caller }, request) => {
  const body = { ...request, max_tokens: 100 };
  const response = await postChat(gateway, caller, { body });
  const sent = await response.text();
  const events =
    request.stream && response.ok
      ? [...sent.matchAll(/^data: (\{.*\})$/gm)].map(([, data = '']) => JSON.parse(data) as Fields)
      : [JSON.parse(sent) as Fields];
  const last = events.at(-1) ?? {};
  if (typeof last['error'] === 'string') {
    return { code: last['error'], status: response.ok ? undefined : response.status };
  }
  const pieces = events.map(({ delta, content }) => asText(delta) + asText(content));
  return { text: pieces.join(''), calls: [], finish: String(last['finishReason']) };
};
type Fields = Record<string, unknown>;

const askCompletions: Ask = async ({ complete }, { stream, ...request }) => {
  const { choices } = await complete({ ...request, max_tokens: 100, tools }, stream);
  const [choice] = choices;
  const { content, refusal, tool_calls: calls = [] } = choice?.message ?? {};
  const functions = calls.flatMap((call) => (call.type === 'function' ? [call] : []));
  expect(new Set(functions.map(({ id }) => id || 'none')).size).toBe(functions.length);
  return {
    text: (content ?? '') + (refusal ?? ''),
    calls: functions.map((call) => [call.function.name, parse(call.function.arguments)]),
    finish: choice?.finish_reason ?? null,
  };
};

const askResponses: Ask = async ({ respond }, { stream, model, messages }) => {
  const flatTools = tools.map(({ type, function: tool }) => ({ type, strict: null, ...tool }));
  const request = { model, input: messages, max_output_tokens: 100, tools: flatTools };
  const { output, incomplete_details: incomplete } = await respond(request, stream);
  const calls = output.flatMap((item) => (item.type === 'function_call' ? [item] : []));
  const parts = output.flatMap((item) => (item.type === 'message' ? item.content : []));
  const reason = incomplete?.reason === 'max_output_tokens' ? 'length' : incomplete?.reason;
  return {
    text: parts.map((part) => (part.type === 'refusal' ? part.refusal : part.text)).join(''),
    calls: calls.map((call) => [call.name, parse(call.arguments)]),
    finish: reason ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
  };
};

const finishReasons: Record<string, string> = {
  end_turn: 'stop',
  max_tokens: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
};

const askMessages: Ask = async ({ anthropic }, { stream, model, messages }) => {
  const request = {
    model,
    messages,
    max_tokens: 100,
    tools: tools.map(({ function: { name } }) => ({ name, input_schema: parameters })),
  };
  const events: MessageStreamEvent[] = [];
  const { content, stop_reason: reason } = stream
    ? await anthropic.messages
        .stream(request)
        .on('streamEvent', (event) => events.push(event))
        .finalMessage()
    : await anthropic.messages.create(request);
  expectBlocksInOrder(events);
  const text = content.flatMap((block) => (block.type === 'text' ? [block.text] : []));
  return {
    text: text.join(''),
    calls: content.flatMap((block): [string, unknown][] =>
      block.type === 'tool_use' ? [[block.name, block.input]] : [],
    ),
    finish: finishReasons[reason ?? ''] ?? reason,
    blocks: content.map((block) =>
      block.type === 'thinking' ? `thinking ${block.thinking} ${block.signature}` : block.type,
    ),
  };
};

/** Checks that each block has its deltas between its start and its stop, one block after the other. */
function expectBlocksInOrder(events: readonly MessageStreamEvent[]): void {
  let open = -1;
  let next = 0;
  for (const event of events) {
    if (event.type === 'content_block_start') {
      expect([open, event.index]).toEqual([-1, next]);
      open = event.index;
      next += 1;
    }
    if (event.type === 'content_block_delta') expect(event.index).toBe(open);
    if (event.type === 'content_block_stop') {
      expect(event.index).toBe(open);
      open = -1;
    }
  }
  expect(open).toBe(-1);
}

function toFailure(error: unknown): Result {
  if (error instanceof APIError) {
    const { status, code } = error;
    return { status, code: code === 'context_length_exceeded' ? code.toUpperCase() : String(code) };
  }
  if (!(error instanceof AnthropicError)) throw error;
  const body = error.error as { error?: { code?: string } } | undefined;
  return { status: error.status as number | undefined, code: String(body?.error?.code) };
}

const endpoints = {
  '/chat': askChat,
  '/chat/completions': askCompletions,
  '/responses': askResponses,
  '/messages': askMessages,
};

function toResult(path: string, expected: Expected): Result {
  const { error, breaks, calls = [], isRefusal, blocks } = expected;
  if (error) return { status: error[0], code: error[1] };
  if (breaks !== undefined) return { status: undefined, code: breaks };
  const text = expected.text ?? (calls.length > 0 ? '' : 'hello');
  const reason = expected.finish ?? (calls.length > 0 ? 'tool_calls' : 'stop');
  return {
    text,
    calls: path === '/chat' ? [] : calls,
    finish: isRefusal && path === '/messages' ? 'content_filter' : reason,
    ...(path === '/messages' && { blocks: blocks ?? expect.any(Array) }),
  };
}

describe.each([
  ['gpt-4o', oddOpenaiAnswers, openaiRows],
  ['claude-sonnet-5', oddAnthropicAnswers, anthropicRows],
] as const)('%s', (model, answers, rows) => {
  it('has an expectation for each answer of the sandbox', () => {
    expect(Object.keys(rows).toSorted()).toEqual(Object.keys(answers).toSorted());
  });

  const cases = Object.entries(answers).flatMap(([name, { stream, whole }]) => [
    ...(stream === undefined ? [] : [{ name, stream: true }]),
    ...(whole === undefined ? [] : [{ name, stream: false }]),
  ]);
  it.each(cases)('$name (streamed: $stream)', async ({ name, stream }) => {
    const own = (stream ? streamedRows : wholeRows)[model === 'gpt-4o' ? name : ''];
    const expected = own ?? rows[name] ?? {};
    const request = { model, messages: say(`[[answer:${name}]] x`), stream };
    const results = await Promise.all(
      Object.entries(endpoints).map(async ([path, ask]) => {
        const clients = makeClients(gateway, await gateway.newCaller({ credits: 100 }));
        const result = await ask(clients, request).catch(toFailure);
        const row = await untilSettled(gateway, clients.caller);
        return { path, result, row };
      }),
    );
    expect(Object.fromEntries(results.map(({ path, result }) => [path, result]))).toEqual(
      Object.fromEntries(results.map(({ path }) => [path, toResult(path, expected)])),
    );
    const { tokens, error } = expected;
    const charge = tokens && {
      counted_by: 'provider',
      input_tokens: tokens[0],
      output_tokens: tokens[1],
    };
    for (const { row, path } of results) {
      const state = error ? { state: 'released', charged: 0 } : { state: 'charged', ...charge };
      expect({ path, ...row }).toMatchObject({ path, ...state });
      if (!error) expect(row.charged).toBeGreaterThan(0);
    }
  });
});
