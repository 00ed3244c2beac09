/** Fields of requests and responses that strict clients of /responses and the other SDK doors rely on. */
import type { Response } from 'openai/resources/responses/responses';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);
const model = 'gpt-4o';
const post = <Body = Response>(path: string, body: object) =>
  gateway.call<Body & { error: { code: string; message: string; param: string } }>(`/v1${path}`, {
    key: clients.caller.key,
    body,
  });

describe('a response', () => {
  it('has the fields that the types of OpenAI and Open Responses require', async () => {
    const tools = [{ type: 'function', name: 'look', parameters: { type: 'object' } }];
    const { body } = await post('/responses', { model, input: 'x', tools });
    expect(body).toMatchObject({
      presence_penalty: 0,
      frequency_penalty: 0,
      temperature: 1,
      top_p: 1,
      top_logprobs: 0,
      max_tool_calls: null,
      safety_identifier: null,
      prompt_cache_key: null,
      tools: [{ type: 'function', name: 'look', description: null, strict: null }],
      usage: { input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 } },
    });
    expect(body.completed_at).toBeGreaterThanOrEqual(body.created_at);
  });

  it('repeats the fields of the request, and the provider receives the penalties', async () => {
    const fields = {
      presence_penalty: 0.5,
      frequency_penalty: -0.5,
      temperature: 0,
      top_p: 0.5,
      safety_identifier: 's1',
      prompt_cache_key: 'p1',
    };
    const { body } = await post('/responses', { model, input: 'penalized', ...fields });
    expect(body).toMatchObject(fields);
    expect(await gateway.sandbox.chatRequests('penalized')).toMatchObject([fields]);
    const claude = { model: 'claude-sonnet-5', input: 'x', presence_penalty: 0.5 };
    expect(await post('/responses', claude)).toMatchObject({
      status: 400,
      body: { error: { code: 'UNSUPPORTED_PARAMETER', param: 'presence_penalty' } },
    });
  });

  it('has not completed in the first events of a stream, and when it is cut', async () => {
    const stream = await clients.openai.responses.create({ model, input: 'x', stream: true });
    for await (const event of stream) {
      if (event.type === 'response.created') expect(event.response.completed_at).toBeNull();
      if (event.type === 'response.completed')
        expect(event.response.completed_at).toBeGreaterThan(0);
    }
    const cut = { model, input: '[[words:50]] go', max_output_tokens: 7 };
    const { body } = await post('/responses', cut);
    expect(body).toMatchObject({ status: 'incomplete', completed_at: null });
  });

  it('that failed has a code of OpenAI’s list', async () => {
    const input = 'hi [[words:20]] [[stream-error:2]]';
    const stream = await fetch(`${gateway.url}/v1/responses`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${clients.caller.key}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ model, input, stream: true }),
    });
    const events = [...(await stream.text()).matchAll(/^data: (.+)$/gm)];
    const [error, failed] = events.slice(-2).map(([, json = '']) => JSON.parse(json));
    expect(error).toMatchObject({ type: 'error', code: 'PROVIDER_ERROR' });
    expect(failed).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'server_error' }, completed_at: null },
    });
  });

  it('ignores the values of `include` that belong to ignored tools, and names them', async () => {
    const include = ['web_search_call.action.sources', 'reasoning.encrypted_content'];
    const tools = [{ type: 'web_search' }];
    const { status, headers } = await post('/responses', { model, input: 'x', tools, include });
    expect([status, headers.get('x-ignored-fields')]).toEqual([
      200,
      'include.web_search_call.action.sources, tools.web_search',
    ]);
    const logprobs = { model, input: 'x', include: ['message.output_text.logprobs'] };
    expect(await post('/responses', logprobs)).toMatchObject({
      status: 400,
      body: { error: { param: 'include.0' } },
    });
  });
});

const names = ['look', 'listen', 'wait'];
const toFunction = (name: string) => ({ type: 'function', function: { name } });
const toTool = (name: string) => ({ type: 'function', name });

describe('allowed_tools', () => {
  const mode = 'required';
  const doors = {
    '/chat/completions': (prompt: string, allowed: string[]) => ({
      messages: [{ role: 'user', content: prompt }],
      tools: names.map(toFunction),
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode, tools: allowed.map(toFunction) },
      },
    }),
    '/responses': (prompt: string, allowed: string[]) => ({
      input: prompt,
      tools: [...names.map(toTool), { type: 'web_search' }],
      tool_choice: {
        type: 'allowed_tools',
        mode,
        tools: [...allowed.map(toTool), { type: 'web_search' }],
      },
    }),
  };
  it.each(Object.entries(doors))('sends only these tools (%s)', async (path, build) => {
    const prompt = `allowed at ${path}`;
    const { status, body } = await post(path, { model, ...build(prompt, ['listen', 'wait']) });
    expect(status, JSON.stringify(body)).toBe(200);
    const [sent] = await gateway.sandbox.chatRequests(prompt);
    expect(sent).toMatchObject({
      tools: [{ function: { name: 'listen' } }, { function: { name: 'wait' } }],
      tool_choice: 'required',
    });
    expect(await post(path, { model, ...build('x', ['look', 'jump']) })).toMatchObject({
      status: 400,
      body: { error: { param: expect.stringMatching(/^tool_choice\..*tools\.1\./) } },
    });
    expect(await post(path, { model, ...build('x', []) })).toMatchObject({
      status: 400,
      body: { error: { message: 'tool_choice: requires tools' } },
    });
  });
});

describe('a choice that demands a tool', () => {
  const messages = [{ role: 'user', content: 'x' }];
  it.each<[string, object, object]>([
    ['/chat/completions', { messages }, { tool_choice: 'required' }],
    ['/chat/completions', { messages }, { tool_choice: toFunction('look') }],
    ['/responses', { input: 'x' }, { tool_choice: 'required' }],
    ['/responses', { input: 'x', tools: [{ type: 'web_search' }] }, { tool_choice: 'required' }],
    ['/responses', { input: 'x' }, { tool_choice: toTool('look') }],
    ['/messages', { messages, max_tokens: 9 }, { tool_choice: { type: 'any' } }],
    ['/messages', { messages, max_tokens: 9 }, { tool_choice: { type: 'tool', name: 'look' } }],
  ])('is rejected without tools (%s %j %j)', async (path, fields, choice) => {
    const { status, body } = await post(path, { model, ...fields, ...choice });
    expect([status, body.error.message]).toEqual([
      400,
      expect.stringMatching(/^tool_choice: requires tools/),
    ]);
    const auto = path === '/messages' ? { type: 'auto' } : 'auto';
    expect((await post(path, { model, ...fields, tool_choice: auto })).status).toBe(200);
  });
});
