/** Errors for frequent mistakes: each names the mistake and the correct request. */
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
const chat = (model: string) => ({ model, messages: [{ role: 'user', content: 'x' }] });

it('a missing key is named in the error, and an invalid key is not described', async () => {
  const missing = await gateway.call('/v1/chat/completions', { key: null, body: chat('gpt-4o') });
  expect([missing.status, missing.body.message]).toEqual([
    401,
    'The request has no API key. Send the header Authorization: Bearer <key>.',
  ]);
  const messages = await gateway.call<{ error: { message: string } }>('/v1/messages', {
    key: null,
    body: { ...chat('gpt-4o'), max_tokens: 5 },
  });
  expect(messages.body.error.message).toContain('or x-api-key: <key>');
  const wrong = await gateway.call('/v1/chat/completions', { key: 'wrong', body: chat('gpt-4o') });
  expect([wrong.status, wrong.body.message]).toEqual([401, 'Missing or invalid API key.']);
  const own = await gateway.call('/api/v1/chat', { key: null, body: chat('gpt-4o') });
  expect(own.body).toEqual({ error: 'Unauthorized' });
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
    expect([status, body.message]).toEqual([
      400,
      `model "${model}" is not a chat model; use ${endpoint}`,
    ]);
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
