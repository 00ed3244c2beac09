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

it('run to their answers, and are charged for each turn', { timeout: 600_000 }, async () => {
  const caller = await gateway.newCaller({ credits: 1000 });
  const expected = {
    // Its protocol is the one that the frameworks do not speak themselves.
    'claude-sonnet-5': { ...ofClients, ...ofFrameworks },
    'gemini-3.5-flash': ofClients,
    'gpt-5-mini': ofClients,
  };
  const program = join(root, 'test', 'clients', 'loops.py');
  const words = [program, gateway.url, caller.key, ...Object.keys(expected)];
  const { stdout } = await run(python, words);
  expect(JSON.parse(stdout)).toEqual(expected);
  const chats = await untilAllSettled(gateway, caller);
  // Three clients with three turns each for a model; of the frameworks four loops, two answers and four lists of vectors.
  const count = 3 * 3 * 3 + 4 * 3 + 2 + 4;
  expect(chats.map(({ state }) => state)).toEqual(Array.from({ length: count }, () => 'charged'));
});

it('pass the standard tests of LangChain, with clients of OpenAI and Anthropic', async () => {
  const { key } = await gateway.newCaller({ credits: 1000 });
  const env = { ...process.env, GATEWAY_URL: gateway.url, GATEWAY_KEY: key };
  const settings = ['-o', 'asyncio_mode=auto', '--benchmark-disable', '-p', 'no:cacheprovider'];
  // The model of the sandbox chooses no tools by itself.
  const chosen = ['-k', 'not tool_calling', join(root, 'test', 'clients', 'langchain_standard.py')];
  const { stdout } = await run(python, ['-m', 'pytest', '-q', ...settings, ...chosen], { env });
  expect(stdout).toMatch(/^68 passed, 24 skipped, 8 deselected/m);
});
