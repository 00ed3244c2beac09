/**
 * Tools of the Responses API that run at the caller, as Codex sends them: namespaces, custom tools, tool search, tools in
 * the input. Providers receive functions; the caller receives, and sends back, calls of its own tools.
 */
import { createHash } from 'node:crypto';
import type {
  Response,
  ResponseCreateParamsStreaming,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);
const parameters = { type: 'object', properties: { text: { type: 'string' } } };
const patch = '*** Begin Patch\n+"high" \\ water\n*** End Patch';
const grammar = { type: 'grammar', syntax: 'lark', definition: 'start: begin_patch' };
const custom = { type: 'custom', name: 'apply_patch', description: 'Edits.', format: grammar };
const close = {
  type: 'function',
  name: 'close_agent',
  description: 'Closes.',
  parameters,
  strict: false,
};
const search = { type: 'tool_search', execution: 'client', description: 'Searches.', parameters };
const namespace = (name: string, ...tools: object[]) => ({
  type: 'namespace',
  name,
  description: '',
  tools,
});
const long = 'a'.repeat(60);
const digest = createHash('sha256').update(`${long}__close_agent`).digest('hex').slice(0, 8);

interface Row {
  tools: object[];
  /** Name of the function that the provider receives, and fields with which the model calls it. */
  called: string;
  fields: string;
  /** Call that the caller receives. */
  call: object;
  /** Fields of the result that the caller sends back. */
  result: object;
  /** Events that report the input of the call. */
  events: string[];
}
const functionResult = { type: 'function_call_output', output: 'written' };
const customResult = { type: 'custom_tool_call_output', output: 'written' };
const functionEvents = [
  'response.function_call_arguments.delta',
  'response.function_call_arguments.done',
];
const customEvents = [
  'response.custom_tool_call_input.delta',
  'response.custom_tool_call_input.done',
];
const rows: [string, Row][] = [
  [
    'a custom tool',
    {
      tools: [close, custom],
      called: 'apply_patch',
      fields: `input=${patch}`,
      call: { type: 'custom_tool_call', name: 'apply_patch', input: patch },
      result: customResult,
      events: customEvents,
    },
  ],
  [
    'a tool of a namespace',
    {
      tools: [namespace('multi_agent_v1', close)],
      called: 'multi_agent_v1__close_agent',
      fields: 'text=now',
      call: { type: 'function_call', name: 'close_agent', namespace: 'multi_agent_v1' },
      result: functionResult,
      events: functionEvents,
    },
  ],
  [
    'a custom tool of the default namespace',
    {
      tools: [namespace('functions', custom, close)],
      called: 'apply_patch',
      fields: 'input=text(1)',
      call: {
        type: 'custom_tool_call',
        name: 'apply_patch',
        namespace: 'functions',
        input: 'text(1)',
      },
      result: { ...customResult, output: [{ type: 'input_text', text: 'written' }] },
      events: customEvents,
    },
  ],
  [
    'a tool with a long name',
    {
      tools: [namespace(long, close)],
      called: `${long.slice(0, 55)}_${digest}`,
      fields: 'text=now',
      call: { type: 'function_call', name: 'close_agent', namespace: long },
      result: functionResult,
      events: functionEvents,
    },
  ],
  [
    'a search for tools',
    {
      tools: [close, search],
      called: 'tool_search',
      fields: 'text=tide',
      call: { type: 'tool_search_call', execution: 'client', arguments: { text: 'tide' } },
      result: { type: 'tool_search_output', tools: [{ ...close, name: 'written' }] },
      events: [],
    },
  ],
];

const respond = (body: object) =>
  gateway.call<Response>('/v1/responses', {
    key: clients.caller.key,
    body: { store: false, ...body },
  });

async function stream(body: object): Promise<ResponseStreamEvent[]> {
  const events: ResponseStreamEvent[] = [];
  const request = { store: false, ...body, stream: true } as ResponseCreateParamsStreaming;
  for await (const event of await clients.openai.responses.create(request)) events.push(event);
  return events;
}

describe.each(['gpt-5-mini', 'claude-sonnet-5', 'gemini-3.5-flash'])('with %s', (model) => {
  it.each(rows)('%s is called, and call and result are sent back', async (_name, row) => {
    const { tools, called, fields, call, result, events: expected } = row;
    const input = [{ role: 'user', content: `[[tool:${called};${fields}]] note the tide` }];
    const { output } = (await respond({ model, tools, input })).body;
    const made = output.at(-1);
    expect(made).toMatchObject({ ...call, status: 'completed', call_id: expect.any(String) });

    const events = await stream({ model, tools, input });
    const types = [...new Set(events.map(({ type }) => type))];
    const items = events.flatMap((event) =>
      event.type === 'response.output_item.done' ? [event.item] : [],
    );
    expect(items.at(-1)).toMatchObject(call);
    const [last] = events.slice(-1);
    expect(last?.type === 'response.completed' && last.response.output).toEqual(items);
    expect(types.filter((type) => /arguments|tool_call_input/.test(type))).toEqual(expected);

    const call_id = made && 'call_id' in made ? made.call_id : '';
    const next = await respond({
      model,
      tools,
      input: [...input, ...output, { ...result, call_id }],
    });
    expect(next.body.output.at(-1)).toMatchObject({
      type: 'message',
      content: [{ text: expect.stringMatching(/^The tool said: .*written/) }],
    });
  });
});

describe('the tools of a request', () => {
  const model = 'gpt-5-mini';
  const names = async (match: string): Promise<string[]> => {
    const sent = await gateway.sandbox.chatRequests(match);
    const last = sent.at(-1) as { tools?: { function: { name: string } }[] };
    return (last.tools ?? []).map((tool) => tool.function.name);
  };

  it('may be items of the input; a later one of a name replaces an earlier one', async () => {
    const late = {
      type: 'additional_tools',
      role: 'developer',
      tools: [namespace('functions', close), search],
    };
    const input = [
      late,
      { role: 'user', content: 'late tools' },
      { ...late, tools: [close, custom] },
    ];
    expect((await respond({ model, input })).status).toBe(200);
    expect(await names('late tools')).toEqual(['close_agent', 'tool_search', 'apply_patch']);
  });

  it('leave out searches on the web, which are named', async () => {
    const web = { type: 'web_search', external_web_access: true };
    for (const tools of [[close, web], [web]]) {
      const { status, headers } = await respond({
        model,
        tools,
        input: 'no web',
        tool_choice: 'auto',
      });
      expect([status, headers.get('x-ignored-fields')]).toEqual([200, 'tools.web_search']);
      expect(await names('no web')).toEqual(tools.length === 2 ? ['close_agent'] : []);
    }
  });

  it('may be chosen by name', async () => {
    const choices = [
      { type: 'custom', name: 'apply_patch' },
      { type: 'function', name: 'close_agent', namespace: 'team' },
    ];
    for (const tool_choice of choices) {
      const tools = [search, custom, namespace('team', close)];
      const { body } = await respond({ model, tools, input: 'choose', tool_choice });
      expect(body.output.at(-1)).toMatchObject({ name: tool_choice.name });
    }
  });

  it.each([
    ['tools.0.execution', { tools: [{ ...search, execution: 'server' }] }],
    ['tools.0.type', { tools: [{ type: 'code_interpreter' }] }],
    ['tools.0.tools.0.type', { tools: [namespace('a', { type: 'web_search' })] }],
    ['tools.0.name', { tools: [{ type: 'custom', name: 'a b' }] }],
    ['tools.0.format.type', { tools: [{ ...custom, format: { type: 'xml' } }] }],
    ['input.0.input', { input: [{ type: 'custom_tool_call', call_id: 'c', name: 'a' }] }],
    ['input.0.tools.0.type', { input: [{ type: 'additional_tools', tools: [{ type: 'mcp' }] }] }],
  ])('are rejected by name: %s', async (param, fields) => {
    const { status, body } = await respond({ model, input: 'x', ...fields });
    expect([status, body.error]).toMatchObject([400, { param }]);
  });
});
