/**
 * Claude Code and Codex from npm, with their default settings, in an empty home: each writes a file with a tool, reads it
 * with another call, and answers with the result. They reach no other host than the gateway.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { installNpm } from '../../dev/stack/tools.ts';
import { untilAllSettled } from '../chat/chat-account.ts';
import { newFolder } from '../harness/folders.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { runFile } from '../harness/programs.ts';
import { installMs } from './installed.ts';

const gateway = useGateway();
let modules = '';
beforeAll(async () => {
  const dependencies = { '@anthropic-ai/claude-code': '2.1.197', '@openai/codex': '0.171.0' };
  modules = await installNpm('coding-agents', { dependencies });
}, installMs);

/** Environment of a program: an empty home, and a proxy that refuses every other host. */
const isolated = (home: string): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '',
  HOME: home,
  HTTPS_PROXY: 'http://127.0.0.1:9',
  HTTP_PROXY: 'http://127.0.0.1:9',
  NO_PROXY: '127.0.0.1',
});

interface Agent {
  caller: TestCaller;
  model: string;
  /** Folder in which the program works; its home is below. */
  folder: string;
}

/** Runs a program of npm in a folder, without an input, which both programs would wait for. */
function start(
  script: string,
  args: readonly string[],
  { folder, env }: { folder: string; env: Record<string, string> },
) {
  const command = ['-c', 'exec "$@" < /dev/null', 'sh', process.execPath, join(modules, script)];
  return runFile('sh', [...command, ...args], {
    cwd: folder,
    env: { ...isolated(join(folder, 'home')), ...env },
    timeout: 240_000,
  });
}

async function runClaudeCode(agent: Agent) {
  const { caller, model, folder } = agent;
  const file = `file_path=${folder}/note.txt`;
  const prompt = `[[tool:Write;${file};content=high water]] [[tool:Read;${file}]] note the tide`;
  const args = ['-p', prompt, '--model', model, '--allowedTools', 'Write,Read'];
  const env = {
    ANTHROPIC_BASE_URL: gateway.url,
    ANTHROPIC_AUTH_TOKEN: caller.key,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  };
  return start('@anthropic-ai/claude-code/cli-wrapper.cjs', args, { folder, env });
}

const writeCommand = 'echo high water > note.txt';
const readCommand = 'cat note.txt';
const inScript = (command: string) =>
  `exec;input=text((await tools.exec_command({cmd: "${command}"})).output)`;
const patch = '*** Begin Patch\n*** Add File: note.txt\n+high water\n*** End Patch';

/** Tools with which Codex writes and reads a file, and their input, by model. */
const codexTools: Readonly<Record<string, readonly string[]>> = {
  'gpt-5.5': [`apply_patch;input=${patch}`, `exec_command;cmd=${readCommand}`],
  'gpt-5.6-sol': [inScript(writeCommand), inScript(readCommand)],
};
const shellTools = [`exec_command;cmd=${writeCommand}`, `exec_command;cmd=${readCommand}`];

async function runCodex(agent: Agent) {
  const { caller, model, folder } = agent;
  const home = join(folder, 'home', '.codex');
  await mkdir(home, { recursive: true });
  const provider = `name = "Gateway"\nbase_url = "${gateway.url}/v1"\nenv_key = "KEY"\nwire_api = "responses"`;
  const config = `model = "${model}"\nmodel_provider = "gateway"\n[model_providers.gateway]\n${provider}\n`;
  await writeFile(join(home, 'config.toml'), config);
  const calls = (codexTools[model] ?? shellTools).map((call) => `[[tool:${call}]]`);
  const args = ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'];
  const prompt = `${calls.join(' ')} note the tide`;
  return start('@openai/codex/bin/codex.js', [...args, prompt], {
    folder,
    env: { KEY: caller.key },
  });
}

describe.each([
  [
    'Claude Code',
    runClaudeCode,
    [
      'claude-sonnet-5',
      'claude-opus-5',
      'gpt-5-mini',
      'grok-4.7',
      'gemini-3.5-flash',
      'mistral-medium-latest',
      // A model that does not reason.
      'gpt-4.1-mini',
    ],
  ],
  [
    'Codex',
    runCodex,
    [
      'gpt-5-mini',
      'gpt-5.5',
      'gpt-5.6-sol',
      'claude-sonnet-5',
      'mistral-medium-latest',
      'gpt-4.1-mini',
    ],
  ],
] as const)('%s', (_name, run, models) => {
  it.for<string>(models)(
    'writes and reads a file with tools, and answers (%s)',
    { timeout: 300_000 },
    async (model) => {
      const agent = {
        model,
        folder: newFolder(),
        caller: await gateway.newCaller({ credits: 1000 }),
      };
      const { status, stdout, stderr } = await run(agent);
      expect({ status, stdout, stderr: status === 0 ? '' : stderr }).toMatchObject({
        status: 0,
        stdout: expect.stringMatching(/The tool said:[^]*high water/),
        stderr: '',
      });
      expect(await readFile(join(agent.folder, 'note.txt'), 'utf8')).toMatch(/^high water\n?$/);
      const chats = await untilAllSettled(gateway, agent.caller);
      expect(chats.length).toBeGreaterThanOrEqual(3);
      expect(new Set(chats.map(({ state }) => state))).toEqual(new Set(['charged']));
    },
  );
});
