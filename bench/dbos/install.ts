/** DBOS Transact, installed on demand beside the project: it is no dependency of it. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const wanted = join(import.meta.dirname, '../peers/dbos');
const installed = join(import.meta.dirname, '../../.cache/bench-peers/dbos');
const lockfile = 'package-lock.json';

/**
 * Installs it where its lockfile has changed.
 * @returns the manifest to resolve the package from
 * @throws Error when npm cannot install it
 */
export function installDbos(): string {
  const manifest = join(installed, 'package.json');
  const isInstalled = existsSync(join(installed, 'node_modules', '.package-lock.json'));
  if (isInstalled && read(join(installed, lockfile)) === read(join(wanted, lockfile))) {
    return manifest;
  }
  mkdirSync(installed, { recursive: true });
  for (const name of ['package.json', lockfile]) {
    copyFileSync(join(wanted, name), join(installed, name));
  }
  execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: installed,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return manifest;
}

function read(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
}
