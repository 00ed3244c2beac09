/** Tool loops of Python's clients, on a model of each protocol; loops.py is the program. */
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { root, run } from '../../dev/clients/tools.ts';
import { untilAllSettled } from '../chat/chat-account.ts';
import { useGateway } from '../harness/gateway.ts';
import { installing, installMs, installPythonFrameworks } from './installed.ts';

const gateway = useGateway();
let python = '';
let missing: string | null;
beforeAll(async () => {
  ({ missing } = await installing(async () => (python = await installPythonFrameworks())));
}, installMs);

const toolAnswer = 'The tool said: high at high at how is the tide';

it.for(['gemini-3.5-flash', 'claude-sonnet-5', 'gpt-5-mini'])(
  'run to their answers with %s, and are charged for each turn',
  { timeout: 300_000 },
  async (model, { skip }) => {
    if (missing !== null) skip(missing);
    const caller = await gateway.newCaller({ credits: 1000 });
    const program = join(root, 'test', 'clients', 'loops.py');
    const { stdout } = await run(python, [program, gateway.url, caller.key, model]);
    const answers: Record<string, unknown> = JSON.parse(stdout);
    expect(answers).toEqual({
      openai: toolAnswer,
      'openai, Responses API': toolAnswer,
      anthropic: toolAnswer,
      'litellm, openai/': toolAnswer,
      'litellm, anthropic/': toolAnswer,
      'instructor, TOOLS': 'the tide',
      'instructor, JSON_SCHEMA': 'the tide',
      'openai-agents': toolAnswer,
      'openai-agents, chat completions': toolAnswer,
      vectors: { openai: 3072, 'openai, tokens': 1536, litellm: 1024, langchain: 3072 },
    });
    const chats = await untilAllSettled(gateway, caller);
    expect(chats.map(({ state }) => state)).toEqual(
      Array.from({ length: 7 * 3 + 2 + 4 }, () => 'charged'),
    );
  },
);
