/** What the benchmarks compare with, installed on demand beside the project: no dependencies of it. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const cache = join(import.meta.dirname, '../../.cache/bench-peers');
const lockfile = 'package-lock.json';

/**
 * Installs a peer where its lockfile has changed.
 * @returns the folder that holds its manifest and its packages
 * @throws Error when npm cannot install it
 */
export function installPeer(name: 'dbos' | 'portkey'): string {
  const wanted = join(import.meta.dirname, name);
  const installed = join(cache, name);
  const isInstalled = existsSync(join(installed, 'node_modules', '.package-lock.json'));
  if (isInstalled && read(join(installed, lockfile)) === read(join(wanted, lockfile))) {
    return installed;
  }
  mkdirSync(installed, { recursive: true });
  for (const file of ['package.json', lockfile]) {
    copyFileSync(join(wanted, file), join(installed, file));
  }
  execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: installed,
    // npm would leave its compiled code among our temporary files.
    env: { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return installed;
}

function read(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
}
