/**
 * Tool calls pass through every chat endpoint without a change: the digits of numbers, names that a
 * provider does not accept, and no fields beside name and arguments.
 */
import { describe, expect, it } from 'vitest';
import { asRecord } from '../../domain/json.ts';
import { useGateway } from '../harness/gateway.ts';
import {
  doors,
  formatCall,
  formatToolLoop,
  startRecordingProvider,
  type Door,
} from './recording-provider.ts';

const provider = await startRecordingProvider();
const gateway = useGateway({ settled: 'last', env: provider.env });

async function post(door: string, body: string): Promise<string> {
  const response = await fetch(`${gateway.url}/api/v1${door}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.caller.key}`, 'content-type': 'application/json' },
    body,
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return text;
}

const protocols = { 'gpt-4.1-mini': 'openai', 'claude-sonnet-5': 'anthropic' } as const;
type Model = keyof typeof protocols;
const models = Object.keys(protocols) as Model[];
const cases = doors.flatMap((door) =>
  models.flatMap((model) =>
    [false, true].map((stream): [Door, Model, boolean] => [door, model, stream]),
  ),
);

describe('numbers in tool calls', () => {
  it.each(cases)('keep their digits at %s with %s (streamed: %s)', async (door, model, stream) => {
    const json = '{"id":1234567890123456789,"x":1.0,"y":1e400,"z":[-0]}';
    const protocol = protocols[model];
    provider.answer({ body: formatCall(protocol, { name: 't', json }, stream) });
    const answer = await post(door, formatToolLoop(door, { model, name: 't', json, stream }));
    const isText = protocol === 'openai';
    const sent = provider.last();
    expect(sent).toContain(isText ? JSON.stringify(json) : json);
    expect(sent).toContain('18446744073709551615');
    const isObject = door === '/messages' && !stream;
    expect(answer).toContain(isObject ? json : JSON.stringify(json).slice(1, -1));
  });

  it.each(['{"id":1234567890123456789,"half":"\\ud83d"}'])(
    'keep their digits beside a text that must be repaired: %s',
    async (json) => {
      provider.answer({ body: formatCall('anthropic', { name: 't', json }, false) });
      const model = 'claude-sonnet-5';
      const loop = { model, name: 't', json: '{}', stream: false };
      expect(await post('/messages', formatToolLoop('/messages', loop))).toContain(
        '1234567890123456789',
      );
    },
  );
});

describe('names of tools', () => {
  const long = 'mcp__plugin_chrome-devtools-mcp_chrome-devtools__get_console_message';
  it.each(cases)('are shortened at %s with %s (streamed: %s)', async (door, model, stream) => {
    for (const name of ['files.read', `${long}_b`, 'm'.repeat(128)]) {
      const protocol = protocols[model];
      provider.answer((request) => {
        const { tools } = JSON.parse(request) as { tools: Record<string, unknown>[] };
        const [tool = {}] = tools;
        const sent = String(asRecord(tool['function'])['name'] ?? tool['name']);
        return { body: formatCall(protocol, { name: sent, json: '{}' }, stream) };
      });
      const answer = await post(door, formatToolLoop(door, { model, name, json: '{}', stream }));
      const sent = provider.last();
      const isAccepted = model === 'claude-sonnet-5' && !name.includes('.');
      const names = [...sent.matchAll(/"name":"([^"]+)"/g)].map(([, found]) => found ?? '');
      expect(names).toHaveLength(3);
      expect(new Set(names).size).toBe(1);
      if (isAccepted) expect(names[0]).toBe(name);
      else expect(names[0]).toMatch(/^[a-zA-Z][\w-]{0,63}$/);
      expect(answer).toContain(`"name":"${name}"`);
      if (!isAccepted) expect(answer).not.toContain(names[0]);
    }
  });

  it('that begin alike stay different, and begin with a letter for Gemini', async () => {
    const tool = (name: string) => ({ type: 'function', function: { name } });
    const tools = [tool(long), tool(`${long}_b`), tool('7zip')];
    provider.answer({ body: formatCall('openai', { name: 'x', json: '{}' }, false) });
    const messages = [{ role: 'user', content: 'q' }];
    await post('/chat/completions', JSON.stringify({ model: 'gemini-3.8-flash', messages, tools }));
    const names = [...provider.last().matchAll(/"name":"([^"]+)"/g)].map(([, found]) => found);
    expect(new Set(names).size).toBe(3);
    for (const name of names) expect(name).toMatch(/^[a-zA-Z_][\w-]{0,63}$/);
  });
});

it.each(models)('a whole call of %s has a name and arguments, and nothing else', async (model) => {
  for (const json of ['{}', '{"a":1}']) {
    provider.answer({ body: formatCall(protocols[model], { name: 't', json }, false) });
    const loop = { model, name: 't', json: '{}', stream: false };
    const answer = await post('/chat/completions', formatToolLoop('/chat/completions', loop));
    const { choices } = JSON.parse(answer) as {
      choices: { message: { tool_calls: { function: object }[] } }[];
    };
    expect(choices[0]?.message.tool_calls[0]?.function).toEqual({ name: 't', arguments: json });
  }
});
