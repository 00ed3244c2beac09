/** Tool loops of Python's clients, on a model of each protocol (loops.py), and LangChain's own tests of chat models. */
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { root, run } from '../../dev/clients/tools.ts';
import { untilAllSettled } from '../chat/chat-account.ts';
import { useGateway } from '../harness/gateway.ts';
import { installMs, installPythonFrameworks } from './installed.ts';

const gateway = useGateway();
let python = '';
beforeAll(async () => {
  python = await installPythonFrameworks();
}, installMs);

const toolAnswer = 'The tool said: high at high at how is the tide';

const ofClients = {
  openai: toolAnswer,
  'openai, Responses API': toolAnswer,
  anthropic: toolAnswer,
};
const ofFrameworks = {
  'litellm, openai/': toolAnswer,
  'litellm, anthropic/': toolAnswer,
  'instructor, TOOLS': 'the tide',
  'instructor, JSON_SCHEMA': 'the tide',
  'openai-agents': toolAnswer,
  'openai-agents, chat completions': toolAnswer,
  vectors: { openai: 3072, 'openai, tokens': 1536, litellm: 1024, langchain: 3072 },
};

it.concurrent.for([
  { model: 'gemini-3.5-flash', options: [], expected: ofClients, chats: 3 * 3 },
  { model: 'gpt-5-mini', options: [], expected: ofClients, chats: 3 * 3 },
  {
    // Its protocol is the one that the frameworks do not speak themselves.
    model: 'claude-sonnet-5',
    options: ['frameworks'],
    expected: { ...ofClients, ...ofFrameworks },
    chats: 7 * 3 + 2 + 4,
  },
])(
  'run to their answers with $model $options, and are charged for each turn',
  { timeout: 600_000 },
  async ({ model, options, expected, chats: count }) => {
    const caller = await gateway.newCaller({ credits: 1000 });
    const program = join(root, 'test', 'clients', 'loops.py');
    const { stdout } = await run(python, [program, gateway.url, caller.key, model, ...options]);
    expect(JSON.parse(stdout)).toEqual(expected);
    const chats = await untilAllSettled(gateway, caller);
    expect(chats.map(({ state }) => state)).toEqual(Array.from({ length: count }, () => 'charged'));
  },
);

it('pass the standard tests of LangChain, with clients of OpenAI and Anthropic', async () => {
  const { key } = await gateway.newCaller({ credits: 1000 });
  const env = { ...process.env, GATEWAY_URL: gateway.url, GATEWAY_KEY: key };
  const settings = ['-o', 'asyncio_mode=auto', '--benchmark-disable', '-p', 'no:cacheprovider'];
  // The model of the sandbox chooses no tools by itself.
  const chosen = ['-k', 'not tool_calling', join(root, 'test', 'clients', 'langchain_standard.py')];
  const { stdout } = await run(python, ['-m', 'pytest', '-q', ...settings, ...chosen], { env });
  expect(stdout).toMatch(/^68 passed, 24 skipped, 8 deselected/m);
});
