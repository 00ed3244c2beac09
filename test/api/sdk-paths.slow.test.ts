/**
 * What OpenAI's and Anthropic's clients receive for every path below `/v1`, with base URLs in the spellings of their
 * users, and with errors.
 */
import Anthropic, {
  APIError as AnthropicError,
  NotFoundError as AnthropicNotFound,
} from '@anthropic-ai/sdk';
import OpenAI, { APIError, NotFoundError, RateLimitError } from 'openai';
import { describe, expect, it } from 'vitest';
import { callerEndpoints } from '../harness/endpoints.ts';
import { catchFailure } from '../harness/failures.ts';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
const message = { role: 'user' as const, content: 'x' };

const openai = (base: string, apiKey = gateway.caller.key) =>
  new OpenAI({ baseURL: `${gateway.url}${base}`, apiKey, maxRetries: 0 });
const anthropic = (base: string, apiKey = gateway.caller.key) =>
  new Anthropic({ baseURL: `${gateway.url}${base}`, apiKey, maxRetries: 0 });
const openaiError = (error: object) => ({
  error: { message: expect.stringMatching(/\w/), type: expect.any(String), param: null, ...error },
  message: expect.stringMatching(/\w/),
  requestId: expect.stringMatching(/^req_/),
});
const anthropicError = (error: object) => ({
  type: 'error',
  error: { message: expect.stringMatching(/\w/), ...error },
  request_id: expect.stringMatching(/^req_/),
});

/** Ends of base URLs that users set. */
const spellings = ['/v1', '/v1/', '', '/', '/v1/v1', '/api/v1', '/api/v1/', '/api', '//v1'];

describe('errors below /v1', () => {
  const endpoints = callerEndpoints.filter(({ path }) => path.startsWith('/api/v1/'));
  it.each([
    ['no key', null, 'The request has no API key'],
    ['an unknown key', 'gk_live_unknown', 'Missing or invalid API key.'],
  ])('have the shape of the client for %s at every endpoint', async (_name, key, text) => {
    const answers = endpoints.map(async ({ method, requestPath, takesBody, path }) => {
      const { status, body } = await gateway.call(requestPath.replace('/api/v1/', '/v1/'), {
        method,
        key,
        ...(takesBody && { body: {} }),
      });
      return { path, status, body };
    });
    const said = { message: expect.stringContaining(text), type: 'authentication_error' };
    for (const { path, status, body } of await Promise.all(answers)) {
      const isAnthropic = path.startsWith('/api/v1/messages');
      expect({ path, status, body }).toMatchObject({
        status: 401,
        body: isAnthropic
          ? anthropicError(said)
          : openaiError({ ...said, code: 'invalid_api_key' }),
      });
    }
  });

  it.each(['/v1', '/v1/', '/v1/nothing', '/v1/engines/x', '/completions', '/v1/v1/nothing'])(
    'of the unknown path %s name the base URL',
    async (path) => {
      expect(await gateway.call(path, { body: {} })).toMatchObject({
        status: 404,
        body: openaiError({
          code: 'NOT_FOUND',
          message: expect.stringContaining(`base URL of clients of OpenAI is ${gateway.url}/v1;`),
        }),
      });
      const headers = { 'anthropic-version': '2023-06-01' };
      expect(await gateway.call(path, { body: {}, headers })).toMatchObject({
        status: 404,
        body: anthropicError({
          type: 'not_found_error',
          message: expect.stringContaining(`base URL of clients of Anthropic is ${gateway.url};`),
        }),
      });
    },
  );

  it('leave the body of the specification below /api/v1', async () => {
    const ask = (path: string, key?: null) => gateway.call(path, { ...(key === null && { key }) });
    expect((await ask('/api/v1/models', null)).body).toEqual({ error: 'Unauthorized' });
    expect(await ask('/api/v1/models?limit=0')).toMatchObject({
      status: 400,
      body: { error: 'INVALID_REQUEST' },
    });
    expect(await ask('/api/v1/nothing')).toMatchObject({
      status: 404,
      body: { error: 'NOT_FOUND' },
    });
    expect((await ask('/api/v1/models/nope')).body).toEqual({
      type: 'error',
      error: { type: 'not_found_error', message: 'model: nope' },
    });
  });

  it('reach the programs of OpenAI’s client with their text', async () => {
    const list = await catchFailure(openai('/v1', 'sk-wrong').models.list(), APIError);
    expect(list).toMatchObject({ status: 401, code: 'invalid_api_key' });
    expect(list.message).toBe('401 Missing or invalid API key.');
    const page = await catchFailure(openai('/v1').get('/models?limit=0'), APIError);
    expect(page).toMatchObject({ status: 400, code: 'INVALID_REQUEST', param: 'limit' });
    const unknown = await catchFailure(openai('/v1').models.retrieve('gpt-4o-nano'), NotFoundError);
    expect(unknown).toMatchObject({ code: 'model_not_found', param: 'model' });
    expect(unknown.message).toContain('did you mean gpt-4o');
    const method = await catchFailure(openai('/v1').get('/responses'), APIError);
    expect(method).toMatchObject({ status: 405, code: 'METHOD_NOT_ALLOWED' });
  });

  it('reach the programs of Anthropic’s client with their type', async () => {
    const list = await catchFailure(anthropic('', 'sk-wrong').models.list(), AnthropicError);
    expect(list).toMatchObject({ status: 401, type: 'authentication_error' });
    const unknown = await catchFailure(anthropic('').models.retrieve('claude'), AnthropicNotFound);
    expect(unknown).toMatchObject({ type: 'not_found_error', error: { type: 'error' } });
  });

  it('say that the rate is too high', async () => {
    const { key, keyId } = await gateway.newKey();
    const body = { rateLimit: 1 };
    const limit = await gateway.call(`/api/v1/api-keys/${keyId}/limit`, { method: 'PUT', body });
    expect(limit.status, JSON.stringify(limit.body)).toBe(200);
    // The new key continues the window of the key that made it.
    const limited = await catchFailure(openai('/v1', key).models.list(), RateLimitError);
    expect(limited).toMatchObject({ code: 'rate_limit_exceeded', type: 'rate_limit_error' });
  });
});

describe('an unknown model', () => {
  const requests = {
    'chat/completions': { messages: [message] },
    responses: { input: 'x' },
    embeddings: { input: 'x' },
    'images/generations': { prompt: 'a pier' },
    'audio/speech': { input: 'x', voice: 'rachel' },
    videos: { prompt: 'waves' },
  };
  it.each(Object.entries(requests))('is 404 model_not_found at /%s', async (path, body) => {
    for (const base of ['/v1', '/api/v1']) {
      const answer = await gateway.call(`${base}/${path}`, { body: { model: 'gpt-0', ...body } });
      // The specification has 400 at its own path of chat completions (spec §4.1).
      const isSpecified = base === '/api/v1' && path === 'chat/completions';
      expect(answer).toMatchObject({
        status: isSpecified ? 400 : 404,
        body: openaiError({
          type: 'invalid_request_error',
          code: 'model_not_found',
          param: 'model',
        }),
      });
    }
  });

  it('is the error for which programs choose another model', async () => {
    const create = { model: 'gpt-0', max_tokens: 5, messages: [message] };
    await catchFailure(anthropic('').messages.create(create), AnthropicNotFound);
    await catchFailure(openai('/v1').chat.completions.create(create), NotFoundError);
    const counted = anthropic('').messages.countTokens({ model: 'gpt-0', messages: [message] });
    expect(await catchFailure(counted, AnthropicNotFound)).toMatchObject({
      type: 'not_found_error',
    });
  });

  it('is 400 at the endpoint of the specification', async () => {
    const body = { model: 'gpt-0', messages: [message] };
    expect(await gateway.call('/api/v1/chat', { body })).toMatchObject({
      status: 400,
      body: { error: 'UNKNOWN_MODEL' },
    });
  });
});

describe('base URLs', () => {
  it.each(['/v1', '', '/v1/v1'])('of OpenAI’s client may end with "%s"', async (base) => {
    const client = openai(base);
    const model = 'gpt-4o-mini';
    const create = { model, messages: [message], max_tokens: 5 };
    const { choices } = await client.chat.completions.create(create);
    expect(choices[0]?.message.content).toContain('You said');
    const { output_text: text } = await client.responses.create({ model, input: 'x' });
    expect(text).toContain('You said');
    const { data } = await client.embeddings.create({ model: 'mistral-embed', input: 'x' });
    expect(data).toHaveLength(1);
    expect((await client.models.list()).data.length).toBeGreaterThan(100);
    expect(await client.models.retrieve('groq/openai/gpt-oss-120b')).toMatchObject({
      id: 'groq/openai/gpt-oss-120b',
    });
    expect((await client.videos.list()).data).toEqual([]);
  });

  it.each(spellings)('may end with "%s" for clients that join texts', async (base) => {
    const chat = { model: 'gpt-4o-mini', messages: [message], max_tokens: 5 };
    const requests = { 'chat/completions': chat, messages: chat, 'messages/count_tokens': chat };
    for (const [path, body] of Object.entries(requests)) {
      const answer = await gateway.call(`${base}/${path}`, { body });
      const text = JSON.stringify(answer.body);
      expect([path, answer.status, text]).toEqual([
        path,
        200,
        expect.stringMatching(/said|tokens/),
      ]);
    }
    expect((await gateway.call(`${base}/models/`)).body).toMatchObject({ object: 'list' });
    expect((await gateway.call(`${base}/models/gpt-4o-mini`)).body).toMatchObject({
      id: 'gpt-4o-mini',
    });
  });

  it.each(['', '/v1', '/api'])('of Anthropic’s client may end with "%s"', async (base) => {
    const client = anthropic(base);
    const create = { model: 'claude-sonnet-5', messages: [message], max_tokens: 5 };
    expect((await client.messages.create(create)).content).toMatchObject([
      { type: 'text', text: 'You said: x' },
    ]);
    const { model, messages } = create;
    expect(await client.messages.countTokens({ model, messages })).toMatchObject({
      input_tokens: expect.any(Number),
    });
    expect((await client.models.list({ limit: 3 })).data).toHaveLength(3);
  });

  it('do not open other paths', async () => {
    for (const path of ['/usage', '/api/usage', '/studio/models', '/api/v1//usage']) {
      expect((await gateway.call(path)).status, path).toBe(404);
    }
  });
});
