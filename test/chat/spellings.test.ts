/** A chat is the same request in every spelling of its path. */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

/** Sends a chat to a request target exactly as it is written. */
async function send(target: string, body: object, headers: object = {}) {
  const { hostname, port } = new URL(gateway.url);
  const sent = request({
    hostname,
    port,
    method: 'POST',
    path: target,
    headers: {
      authorization: `Bearer ${gateway.caller.key}`,
      'content-type': 'application/json',
      'x-request-id': 'the-same-every-time',
      ...headers,
    },
  }).end(JSON.stringify(body));
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  let text = '';
  for await (const bytes of answer) text += String(bytes);
  const repeated = Object.entries(answer.headersDistinct)
    .filter(([, values]) => (values?.length ?? 0) > 1)
    .map(([name]) => name);
  return { status: answer.statusCode, headers: answer.headers, repeated, text };
}

const path = '/api/v1/chat/completions';
const body = { model: 'gpt-4o', messages: [{ role: 'user', content: 'x' }], max_tokens: 5 };
/** Removes the fields that differ between two answers to the same request. */
const withoutIds = (text: string) => text.replaceAll(/chat_\w+|"created":\d+/g, '');
const ownHeaders = ['x-ratelimit-remaining', 'x-ratelimit-reset', 'date'];
const shared = (headers: IncomingMessage['headers']) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !ownHeaders.includes(name)));

describe.each([
  ['a whole answer', body, 200],
  ['a stream', { ...body, stream: true }, 200],
  ['a rejection', { ...body, model: 'nothing' }, 400],
])('%s', (_what, sent, status) => {
  it('is the same for every spelling of the path', async () => {
    const direct = await send(path, sent);
    expect(direct).toMatchObject({ status, repeated: [] });
    expect(direct.headers['x-request-id']).toBe('the-same-every-time');
    expect(direct.headers['x-ratelimit-limit']).toMatch(/^\d+$/);
    expect(direct.headers['content-security-policy']).toMatch(/default-src 'self'/);
    for (const target of [`${path}?x=1`, gateway.url + path]) {
      const other = await send(target, sent);
      expect(other).toMatchObject({ status, repeated: [] });
      expect(shared(other.headers)).toEqual(shared(direct.headers));
      expect(withoutIds(other.text)).toBe(withoutIds(direct.text));
    }
  });
});

describe('the content type of a body', () => {
  it.each([
    ['application/json', 200],
    ['Application/JSON; charset=utf-8', 200],
    ['application/vnd.chat+json', 200],
    ['application/jsonx', 415],
    ['text/plain', 415],
    ['text/plain; application/json', 415],
    ['', 415],
  ])('“%s” has the response status %i', async (type, status) => {
    const answer = await send(path, body, { 'content-type': type });
    expect(answer.status).toBe(status);
  });
});
