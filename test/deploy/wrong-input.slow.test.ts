/** Commands of operators with wrong input end in one sentence that names it. */
import { spawnSync } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { newFolder } from '../harness/folders.ts';
import { runProgram } from '../harness/programs.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const audit = 'dev/stack/audit.ts';
const migrate = 'platform/migrate.ts';
const replay = 'dev/replay/replay.ts';
const temporal = 'dev/stack/temporal-command.ts workflow list';
const away = 'postgres://gateway:hunter2@127.0.0.1:1/gateway';

it.each<[string, Record<string, string>, string, number]>([
  [audit, {}, 'no stack is running in /none, and DATABASE_URL is not set', 2],
  [audit, { DATABASE_URL: away }, 'configuration: TEMPORAL_ADDRESS is required; ', 2],
  [migrate, {}, 'configuration: DATABASE_URL is required', 78],
  [
    migrate,
    { DATABASE_URL: 'gateway' },
    'configuration: DATABASE_URL is wrong: must be postgres',
    78,
  ],
  [migrate, { DATABASE_URL: 'postgres://u:p@hunter2#w@h/d' }, 'write # as %23', 78],
  [
    migrate,
    { DATABASE_URL: away },
    'migrate: Postgres at 127.0.0.1:1 (DATABASE_URL) cannot be reached: ',
    1,
  ],
  [`${migrate} --nope`, {}, 'migrate: the only option is --plan', 64],
  [replay, {}, 'replay: specify a run, or --since, --type, --failed or --query', 2],
  [`${replay} job_1`, {}, 'replay: no stack runs in /none, and TEMPORAL_ADDRESS is not set', 2],
  [`${replay} --since noon`, {}, "error: option '--since <time>' argument 'noon' is ", 2],
  [temporal, { TEMPORAL_ADDRESS: 'x' }, 'temporal: invalid settings: TEMPORAL_ADDRESS', 2],
  ['clients/cli/main.ts admin jobs', {}, 'studio: No operator key: set STUDIO_ADMIN_KEY, ', 1],
])('node %s with %j prints one sentence', async (line, env, sentence, status) => {
  const [program = '', ...args] = line.split(' ');
  const ended = await runProgram(program, args, { DATA_DIR: '/none', ...env });
  const lines = (ended.stdout + ended.stderr).trim().split('\n');
  expect([ended.status, lines]).toEqual([status, [expect.stringContaining(sentence)]]);
  // The password of DATABASE_URL.
  expect(lines[0]).not.toContain('hunter2');
});

it('deploy/upgrade.sh without .env names what is missing', () => {
  const script = join(newFolder(), 'deploy', 'upgrade.sh');
  cpSync(join(root, 'deploy', 'upgrade.sh'), script);
  const { status, stdout, stderr } = spawnSync('sh', [script], { encoding: 'utf8' });
  const sentence = 'upgrade: there is no .env; run sh deploy/secrets.sh first\n';
  expect([status, stdout + stderr]).toEqual([1, sentence]);
});
