/**
 * `npm run dev -- check-compose`: Docker Compose reads docker-compose.yml with a .env that has every documented setting, and
 * each process must receive each of them. Compose is built from the Go module proxy, once; no engine is needed.
 */
import { execFile } from 'node:child_process';
import { cpSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { findGoProgram, lastErrorLine } from '../stack/tools.ts';
import { decidedByCompose, documentedSettings } from './settings.ts';

const project = join(import.meta.dirname, '..', '..');
const compose = {
  path: 'github.com/docker/compose/v2/cmd',
  module: 'github.com/docker/compose/v2',
  version: 'v2.40.3',
  program: 'docker-compose',
};
const processes = ['api-1', 'api-2', 'worker-1', 'worker-2', 'migrations', 'first-key'];

const resolved = z.object({
  services: z.record(
    z.string(),
    z.looseObject({ environment: z.record(z.string(), z.string()).optional() }),
  ),
});

/** Returns the configuration as Compose resolves it in a directory that has a .env. */
async function configure(executable: string, directory: string): Promise<z.infer<typeof resolved>> {
  const env = { PATH: process.env['PATH'], HOME: directory, COMPOSE_PROFILES: '*' };
  const { stdout, stderr } = await promisify(execFile)(executable, ['config', '--format', 'json'], {
    cwd: directory,
    env,
    maxBuffer: 16 * 1024 * 1024,
  });
  if (stderr !== '') throw new Error(stderr.trim());
  return resolved.parse(JSON.parse(stdout));
}

async function check(directory: string): Promise<void> {
  const executable = await findGoProgram(compose, (line) => process.stdout.write(`${line}\n`));
  for (const path of ['docker-compose.yml', 'deploy']) {
    cpSync(join(project, path), join(directory, path), { recursive: true });
  }
  await promisify(execFile)('sh', [join(directory, 'deploy', 'secrets.sh'), '--sandbox'], {
    cwd: directory,
  });
  await configure(executable, directory);
  const given = Object.fromEntries(documentedSettings().map((name) => [name, `set-${name}`]));
  const others = { POSTGRES_PASSWORD: 'password', GRAFANA_PASSWORD: 'password' };
  // A port that the load balancer publishes must be a number.
  given['API_PORT'] = '5000';
  const lines = Object.entries({ ...others, ...given }).map(([name, value]) => `${name}=${value}`);
  writeFileSync(join(directory, '.env'), lines.join('\n'));
  const { services } = await configure(executable, directory);
  for (const name of processes) {
    const received = services[name]?.environment ?? {};
    const missing = Object.keys(given).filter(
      (setting) => received[setting] !== given[setting] && !decidedByCompose.includes(setting),
    );
    if (missing.length > 0) throw new Error(`${name} does not receive ${missing.join(', ')}`);
  }
  process.stdout.write(
    `${Object.keys(given).length} settings reach ${processes.length} processes\n`,
  );
}

const directory = makeTemporaryDirectory('compose');
try {
  await check(directory);
} catch (error) {
  process.stderr.write(`${lastErrorLine(error)}\n`);
  process.exitCode = 1;
} finally {
  await rm(directory, { recursive: true, force: true });
}
