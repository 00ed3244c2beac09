/** A provider of chats that records the bytes of each request, and answers with given bytes. */
import type { ServerResponse } from 'node:http';
import { afterAll } from 'vitest';
import { startHttpServer } from '../harness/http-server.ts';

/** Response of the provider: JSON, or the events of a stream. */
interface GivenResponse {
  status?: number;
  body: string;
}

/** Doors of the API for chats with tools. */
export const doors = ['/chat/completions', '/responses', '/messages'] as const;
export type Door = (typeof doors)[number];

/** Starts the provider, and returns settings of a gateway that calls it. */
export async function startRecordingProvider() {
  const received: string[] = [];
  let respond: (request: string) => GivenResponse = () => ({ body: '{}' });
  const send = (response: ServerResponse, { status = 200, body }: GivenResponse): void => {
    const type = body.startsWith('{') ? 'application/json' : 'text/event-stream';
    response.writeHead(status, { 'content-type': type }).end(body);
  };
  const server = await startHttpServer((request, response) => {
    const chunks: Buffer[] = [];
    request
      .on('data', (chunk: Buffer) => chunks.push(chunk))
      .once('end', () => {
        const text = Buffer.concat(chunks).toString();
        received.push(text);
        send(response, respond(text));
      });
  });
  afterAll(() => server.close());
  const names = ['OPENAI', 'ANTHROPIC', 'GOOGLE', 'MISTRAL'];
  return {
    env: Object.fromEntries(
      names.flatMap((name) => [
        [`${name}_API_KEY`, 'key'],
        [`${name}_BASE_URL`, server.url],
      ]),
    ),
    /** Sets the response to the next requests. */
    answer(given: GivenResponse | ((request: string) => GivenResponse)): void {
      respond = typeof given === 'function' ? given : () => given;
    },
    /** Returns the text of the last request. */
    last: (): string => received.at(-1) ?? '',
  };
}

/** Formats events of a stream. */
const toEvents = (events: readonly unknown[]): string =>
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');

/** Call of a tool in an earlier answer. */
interface Called {
  name: string;
  /** Arguments as JSON. */
  json: string;
}

/** Returns the JSON of a request with a tool that was called before, at a door. */
export function formatToolLoop(
  door: Door,
  { model, name, json, stream }: Called & { model: string; stream: boolean },
): string {
  const schema = '{"type":"object","properties":{"id":{"maximum":18446744073709551615}}}';
  const text = JSON.stringify(json);
  const head = `"model":"${model}","stream":${stream}`;
  if (door === '/chat/completions') {
    return `{${head},"temperature":1.0,"messages":[{"role":"user","content":"q"},
      {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"${name}","arguments":${text}}}]},
      {"role":"tool","tool_call_id":"c1","content":"r"}],
      "tools":[{"type":"function","function":{"name":"${name}","parameters":${schema}}}],
      "tool_choice":{"type":"function","function":{"name":"${name}"}}}`;
  }
  if (door === '/responses') {
    return `{${head},"temperature":1.0,"input":[{"role":"user","content":"q"},
      {"type":"function_call","call_id":"c1","name":"${name}","arguments":${text}},
      {"type":"function_call_output","call_id":"c1","output":"r"}],
      "tools":[{"type":"function","name":"${name}","parameters":${schema}}],
      "tool_choice":{"type":"function","name":"${name}"}}`;
  }
  return `{${head},"max_tokens":200.0,"messages":[{"role":"user","content":"q"},
    {"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"${name}","input":${json}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"}]}],
    "tools":[{"name":"${name}","input_schema":${schema}}],"tool_choice":{"type":"tool","name":"${name}"}}`;
}

/** Formats a provider's answer with one call of a tool, whole or as a stream. */
export function formatCall(
  protocol: 'openai' | 'anthropic',
  { name, json }: Called,
  stream: boolean,
): string {
  if (protocol === 'openai') {
    const call = { id: 'c9', type: 'function', function: { name, arguments: json } };
    const head = { id: 'x', object: 'chat.completion', created: 1, model: 'm' };
    const usage = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 };
    const end = { index: 0, finish_reason: 'tool_calls' };
    if (!stream) {
      const message = { role: 'assistant', content: null, tool_calls: [call] };
      return JSON.stringify({ ...head, choices: [{ ...end, message }], usage });
    }
    const tool_calls = [{ index: 0, ...call }];
    return `${toEvents([
      { ...head, choices: [{ index: 0, delta: { role: 'assistant', tool_calls } }] },
      { ...head, choices: [{ ...end, delta: {} }], usage },
    ])}data: [DONE]\n\n`;
  }
  const usage = { input_tokens: 5, output_tokens: 5 };
  const head = '"id":"m","type":"message","role":"assistant","model":"m"';
  const block = `{"type":"tool_use","id":"u1","name":"${name}","input":${json}}`;
  if (!stream) {
    return `{${head},"content":[${block}],"stop_reason":"tool_use","usage":${JSON.stringify(usage)}}`;
  }
  const partial = { type: 'input_json_delta', partial_json: json };
  const content_block = { type: 'tool_use', id: 'u1', name, input: {} };
  return toEvents([
    { type: 'message_start', message: { id: 'm', model: 'm', usage } },
    { type: 'content_block_start', index: 0, content_block },
    { type: 'content_block_delta', index: 0, delta: partial },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage },
    { type: 'message_stop' },
  ]);
}
