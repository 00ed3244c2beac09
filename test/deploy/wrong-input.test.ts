/** Commands of operators with wrong input end in one sentence that names it. */
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));
const audit = ['dev/stack/audit.ts'];
const migrate = ['platform/migrate.ts'];
const replay = ['dev/replay/replay.ts'];
const away = 'postgres://gateway:secret@127.0.0.1:1/gateway';

it.each<[string[], Record<string, string>, string, number]>([
  [audit, {}, 'no stack is running in /none, and DATABASE_URL is not set', 2],
  [audit, { DATABASE_URL: away }, 'configuration: TEMPORAL_ADDRESS is required; ', 2],
  [migrate, {}, 'configuration: DATABASE_URL is required', 78],
  [migrate, { DATABASE_URL: 'gateway' }, 'configuration: DATABASE_URL is wrong: not a URL', 78],
  [migrate, { DATABASE_URL: away }, 'migrate: Postgres at 127.0.0.1:1 cannot be reached: ', 1],
  [[...migrate, '--nope'], {}, 'migrate: the only option is --plan', 64],
  [replay, {}, 'replay: specify a run, or --since, --type, --failed or --query', 2],
  [[...replay, 'job_1'], {}, 'replay: no stack runs in /none, and TEMPORAL_ADDRESS is not set', 2],
  [[...replay, '--since', 'noon'], {}, "error: option '--since <time>' argument 'noon' is ", 2],
  [['cli/main.ts', 'admin', 'jobs'], {}, 'studio: No operator key: set STUDIO_ADMIN_KEY, ', 1],
])('node %j with %j prints one sentence', async (args, env, sentence, status) => {
  const options = { cwd: root, env: { PATH: process.env['PATH'], DATA_DIR: '/none', ...env } };
  const printed = await run(process.execPath, args, options);
  expect(printed).toEqual({ status, out: expect.stringContaining(sentence) });
  expect(printed.out.trim().split('\n')).toHaveLength(1);
});

it('deploy/upgrade.sh without .env names what is missing', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'upgrade-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  cpSync(join(root, 'deploy', 'upgrade.sh'), join(directory, 'deploy', 'upgrade.sh'));
  const { out, status } = await run('sh', [join(directory, 'deploy', 'upgrade.sh')], {});
  expect({ out, status }).toEqual({
    out: 'upgrade: there is no .env; run sh deploy/secrets.sh first\n',
    status: 1,
  });
});

function run(command: string, args: string[], options: object) {
  return new Promise<{ status: number; out: string }>((resolve) => {
    execFile(command, args, { ...options, encoding: 'utf8' }, (error, stdout, stderr) => {
      resolve({ status: Number(error?.code ?? 0), out: stdout + stderr });
    });
  });
}
