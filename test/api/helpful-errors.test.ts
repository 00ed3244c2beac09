/** Errors for frequent mistakes: each names the mistake and the correct request. */
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
const chat = (model: string) => ({ model, messages: [{ role: 'user', content: 'x' }] });

it('a missing key is named in the error, and an invalid key is not described', async () => {
  const ask = async (path: string, key: string | null, fields: object = {}) =>
    (await gateway.call(path, { key, body: { ...chat('gpt-4o'), ...fields } })).body;
  expect(await ask('/v1/chat/completions', null)).toMatchObject({
    message: 'The request has no API key. Send the header Authorization: Bearer <key>.',
  });
  expect(await ask('/v1/messages', null, { max_tokens: 5 })).toMatchObject({
    error: { message: expect.stringContaining('or x-api-key: <key>') },
  });
  expect((await ask('/v1/chat/completions', 'wrong')).message).toBe('Missing or invalid API key.');
  expect(await ask('/api/v1/chat', null)).toEqual({ error: 'Unauthorized' });
});

it.each([
  [
    '{\n  "model": "gpt-4o",\n  "messages": [}\n}',
    'must be JSON; the error is in line 3, column 16',
  ],
  ['{"model": "gpt-4o"', 'must be JSON; the error is in line 1, column 19'],
])('a syntax error in the JSON %j is reported with its position', async (text, message) => {
  const { status, body } = await gateway.call('/v1/chat/completions', { body: text });
  expect([status, body]).toMatchObject([400, { message }]);
});

it.each([
  ['alpha-image', 'POST /api/v1/studio/image/generate'],
  ['gpt-image-1', 'POST /api/v1/studio/image/generate'],
  ['veo', 'POST /api/v1/studio/video/generate'],
])(
  'the Studio model %s in a chat request gets an error that names its endpoint',
  async (model, endpoint) => {
    const { status, body } = await gateway.call('/v1/chat/completions', { body: chat(model) });
    const message = `model "${model}" is not a chat model; use ${endpoint}`;
    expect([status, body.message]).toEqual([404, message]);
  },
);

it.each([
  ['/v1/chat/completion', '/api/v1/chat/completions'],
  ['/v1/studio/images/generate', '/api/v1/studio/image/generate'],
  ['/v1/response', '/api/v1/responses'],
])('the unknown path %s gets an error that names the nearest path', async (path, nearest) => {
  const { status, body } = await gateway.call(path, { body: {} });
  expect([status, body]).toMatchObject([404, { error: { code: 'NOT_FOUND', param: null } }]);
  expect(body.message).toContain(`did you mean ${nearest}?`);
});
