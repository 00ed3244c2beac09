/** Marks of the prompt cache, stop sequences and hints that only some models take, and line separators in answers. */
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { say, sendChat } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';
import { doors } from './recording-provider.ts';

const gateway = useGateway({ settled: 'last' });
const claude = 'claude-sonnet-5';

/** Sends a chat; returns its status, ignored fields and text. */
async function send(path: string, body: object) {
  const response = await postChat(gateway, gateway.caller, { path, body });
  const ignored = response.headers.get('x-ignored-fields');
  return { status: response.status, ignored, text: await response.text() };
}

describe('cache_control', () => {
  const mark = { cache_control: { type: 'ephemeral' } };
  const content = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ type: 'text', text: `part ${index}`, ...mark }));
  it.each(['/chat/completions', '/messages'])(
    'marks at most four parts of a request to Claude at %s',
    async (path) => {
      const request = { model: claude, max_tokens: 10 };
      const chat = (count: number, fields: object = {}) =>
        send(path, {
          ...request,
          messages: [{ role: 'user', content: content(count) }],
          ...fields,
        });
      expect(await chat(4)).toMatchObject({ status: 200 });
      for (const refused of [await chat(5), await chat(4, mark)]) {
        expect(refused.status).toBe(400);
        expect(refused.text).toContain('cache_control: at most 4 parts');
      }
      expect(await chat(5, { model: 'gpt-4o' })).toMatchObject({ status: 200 });
    },
  );
});

describe('stop sequences', () => {
  it.each([
    ['/chat', 'stop'],
    ['/chat/completions', 'stop'],
    ['/messages', 'stop_sequences'],
  ])('that are blank do not reach Claude from %s', async (path, field) => {
    for (const stop of [['\n'], [' ', 'END']]) {
      const chat = {
        model: claude,
        max_tokens: 10,
        messages: say(`blank ${field}`),
        [field]: stop,
      };
      expect(await send(path, chat)).toMatchObject({ status: 200, ignored: field });
      const sent = (await gateway.sandbox.chatRequests(`blank ${field}`)).at(-1);
      expect(sent?.['stop_sequences']).toEqual(stop.length === 1 ? undefined : ['END']);
    }
  });

  it('may be more than four for Claude, in the format of Anthropic', async () => {
    const stop_sequences = ['a1', 'b2', 'c3', 'd4', 'e5'];
    const chat = { model: claude, max_tokens: 10, messages: say('five'), stop_sequences };
    expect(await send('/messages', chat)).toMatchObject({ status: 200 });
    const refused = await send('/messages', { ...chat, model: 'gpt-4o' });
    expect(refused.status).toBe(400);
    expect(refused.text).toContain('stop_sequences: must have at most 4');
  });
});

it('verbosity reaches only the models that take it', async () => {
  const chat = { messages: say('verbose'), verbosity: 'low' };
  const { body } = await sendChat(
    gateway,
    gateway.caller,
    { ...chat, model: 'gpt-5-mini' },
    '/api/v1/chat/completions',
  );
  expect(body.content).toBe('You said: verbose');
  expect(await send('/chat/completions', { ...chat, model: 'gpt-4.1' })).toMatchObject({
    status: 200,
    ignored: 'verbosity',
  });
  const [taken, ignored] = await gateway.sandbox.chatRequests('verbose');
  expect([taken?.['verbosity'], ignored?.['verbosity']]).toEqual(['low', undefined]);
});

it.each([...doors, '/chat'])(
  'a stream of %s has no line separator that some readers split at',
  async (path) => {
    const separated = 'a\u2028b\u2029c\u0085d';
    const chat = {
      model: 'gpt-4o',
      max_tokens: 50,
      messages: say(separated),
      input: separated,
      stream: true,
    };
    const fields = {
      '/chat': { input: undefined },
      '/responses': { max_tokens: undefined, messages: undefined },
    };
    const { text } = await send(path, { ...chat, ...(fields as Record<string, object>)[path] });
    expect(text).not.toMatch(/[\u0085\u2028\u2029]/);
    for (const escaped of ['\\u2028', '\\u2029', '\\u0085']) expect(text).toContain(escaped);
  },
);

it('usage has every number that OpenAI reports', async () => {
  const chat = { model: 'gpt-4o', messages: say('usage') };
  const { text } = await send('/chat/completions', chat);
  expect(JSON.parse(text)).toMatchObject({
    usage: {
      prompt_tokens_details: { audio_tokens: 0, cached_tokens: 0 },
      completion_tokens_details: {
        reasoning_tokens: 0,
        audio_tokens: 0,
        accepted_prediction_tokens: 0,
        rejected_prediction_tokens: 0,
      },
    },
  });
});

describe('a key in a wrong form', () => {
  const call = async (headers: Record<string, string>, path = '/v1/chat/completions') => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'gpt-4o', messages: say('key'), max_tokens: 5 }),
    });
    return { status: response.status, text: await response.text() };
  };
  it.each([
    ['no key', () => ({ authorization: 'Bearer ' }), 'has no key'],
    ['no scheme', () => ({ authorization: gateway.caller.key }), 'does not begin with Bearer'],
    [
      'another scheme',
      () => ({ authorization: `Basic ${gateway.caller.key}` }),
      'does not begin with Bearer',
    ],
    ['a blank inside', () => ({ authorization: 'Bearer sk one' }), 'contains a blank'],
    ['another header', () => ({ 'x-api-key': gateway.caller.key }), 'does not read x-api-key'],
    ['nothing', () => ({}), 'has no API key'],
  ])('is described: %s', async (_form, headers, message) => {
    expect(await call(headers())).toMatchObject({
      status: 401,
      text: expect.stringContaining(message),
    });
  });

  it('is right with two blanks; a wrong key in the right form is only invalid', async () => {
    const authorization = `bearer  ${gateway.caller.key}`;
    expect(await call({ authorization })).toMatchObject({ status: 200 });
    const { text } = await call({ authorization: 'Bearer sk-wrong' });
    expect(text).toContain('Missing or invalid API key.');
    const service = await call({ authorization: 'Bearer ' }, '/api/v1/chat');
    expect(service).toEqual({ status: 401, text: '{"error":"Unauthorized"}' });
  });
});
