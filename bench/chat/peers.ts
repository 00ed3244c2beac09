/** Gateways of others, installed on demand beside the project: they are no dependencies of it. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const project = join(import.meta.dirname, '../..');
const wanted = join(import.meta.dirname, '../peers');
const installed = join(project, '.cache/bench-peers');

/** Installs the peers where their lockfile has changed. @returns Portkey's start script */
export function installPeers(): string {
  const lockfile = 'package-lock.json';
  const stamp = join(installed, 'node_modules', '.package-lock.json');
  const known = join(installed, lockfile);
  const current =
    existsSync(stamp) &&
    existsSync(known) &&
    readFileSync(known, 'utf8') === readFileSync(join(wanted, lockfile), 'utf8');
  if (!current) {
    mkdirSync(installed, { recursive: true });
    for (const name of ['package.json', lockfile]) {
      copyFileSync(join(wanted, name), join(installed, name));
    }
    execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
      cwd: installed,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  }
  return join(installed, 'node_modules/@portkey-ai/gateway/build/start-server.js');
}
