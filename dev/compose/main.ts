/**
 * `npm run dev -- check-compose`: checks that Docker Compose passes every documented setting in .env to every process.
 * Compose is built once from the Go module proxy; no Docker engine is needed.
 */
import { execFile } from 'node:child_process';
import { cpSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { z } from 'zod';
import { composeFile, project } from '../cluster/compose.ts';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { lastErrorLine } from '../stack/tools.ts';
import { findCompose } from './engine.ts';
import { fixedInCompose, documentedSettings } from './settings.ts';

const processes = ['api-1', 'api-2', 'worker-1', 'worker-2', 'migrations', 'first-key'];

/** Returns the configuration that Compose reads from a directory with a .env file. */
async function resolveConfig(
  executable: string,
  directory: string,
  profiles = '*',
): Promise<z.infer<typeof composeFile>> {
  const env = { PATH: process.env['PATH'], HOME: directory, COMPOSE_PROFILES: profiles };
  const { stdout, stderr } = await promisify(execFile)(executable, ['config', '--format', 'json'], {
    cwd: directory,
    env,
    maxBuffer: 16 * 1024 * 1024,
  });
  if (stderr !== '') throw new Error(stderr.trim());
  return composeFile.parse(JSON.parse(stdout));
}

async function check(directory: string): Promise<void> {
  const executable = await findCompose((line) => process.stdout.write(`${line}\n`));
  for (const path of ['docker-compose.yml', 'deploy']) {
    cpSync(join(project, path), join(directory, path), { recursive: true });
  }
  await promisify(execFile)('sh', [join(directory, 'deploy', 'secrets.sh'), '--sandbox'], {
    cwd: directory,
  });
  await resolveConfig(executable, directory);
  const settings = Object.fromEntries(documentedSettings().map((name) => [name, `set-${name}`]));
  const others = { POSTGRES_PASSWORD: 'password', GRAFANA_PASSWORD: 'password' };
  // The load balancer publishes this port, so it must be a number.
  settings['API_PORT'] = '5000';
  const lines = Object.entries({ ...others, ...settings }).map(
    ([name, value]) => `${name}=${value}`,
  );
  writeFileSync(join(directory, '.env'), lines.join('\n'));
  const { services } = await resolveConfig(executable, directory);
  for (const name of processes) {
    const received = services[name]?.environment ?? {};
    const missing = Object.keys(settings).filter(
      (setting) => received[setting] !== settings[setting] && !fixedInCompose.includes(setting),
    );
    if (missing.length > 0) throw new Error(`${name} does not receive ${missing.join(', ')}`);
  }
  // These settings name other servers, so none of the bundled ones may start (deploy/bundled.yml).
  const started = Object.keys((await resolveConfig(executable, directory, '')).services);
  const expected = [...processes, 'load-balancer'];
  if (started.toSorted().join() !== expected.toSorted().join())
    throw new Error(`with servers of your own, ${started.join(', ')} start`);
  process.stdout.write(
    `${Object.keys(settings).length} settings reach ${processes.length} processes\n`,
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
