/** Builds the image without a registry: Debian by debootstrap, the pinned Node, podman in a chroot. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { cp, copyFile, mkdir, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { project } from '../cluster/compose.ts';
import { commandSucceeds } from '../stack/running.ts';
import { lastingCache } from '../stack/tools.ts';

const run = promisify(execFile);
const release = 'bookworm';
const mirror = 'http://deb.debian.org/debian';
const name = 'localhost/studio-gateway:check';
const certificates = '/etc/ssl/certs/ca-certificates.crt';

/** What an image is. */
export interface BuiltImage {
  /** Its files, read-only. */
  root: string;
  /** `NAME=value`, of its configuration. */
  env: string[];
  /** `uid:gid`. */
  user: string;
  workingDirectory: string;
  labels: Record<string, string>;
}

/** Why this machine cannot do it, in one sentence; null when it can. */
export function whyNot(): string | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    return 'check:image needs root on Linux: it unpacks an image and changes root into it';
  }
  const missing = ['podman', 'debootstrap', 'unshare', 'chroot'].filter(
    (program) => !commandSucceeds(['sh', '-c', `command -v ${program}`]),
  );
  if (missing.length === 0) return null;
  return `check:image needs ${missing.join(', ')} (Debian: apt-get install podman debootstrap util-linux)`;
}

/** Ends the mounts below a directory, which an interrupted build leaves: it cannot be removed before. */
export async function unmountBelow(directory: string): Promise<void> {
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n');
  const places = mounts.map((line) => line.split(' ')[1] ?? '');
  // The innermost first.
  for (const place of places.filter((one) => one.startsWith(`${directory}/`)).toReversed()) {
    await run('umount', [place]);
  }
}

/** Builds and unpacks the image. `directory` holds the engine's storage. */
export async function buildImage(
  directory: string,
  report: (line: string) => void,
): Promise<BuiltImage> {
  const places = ['--root', join(directory, 'storage'), '--runroot', join(directory, 'run')];
  const alone = ['--cgroup-manager', 'cgroupfs', '--events-backend', 'file'];
  const podman = ['podman', ...places, ...alone];
  const ask = async (...args: string[]): Promise<string> => {
    const [command = '', ...first] = podman;
    return (await run(command, [...first, ...args])).stdout.trim();
  };
  const base = await makeBase(report);
  report('importing the base');
  const nodeVersion = process.versions.node;
  const tag = `docker.io/library/node:${nodeVersion}-${release}-slim`;
  const trusted = `ENV NODE_EXTRA_CA_CERTS=${certificates}`;
  await runShell('tar -C "$1" -c . | "${@:2}"', [
    base,
    ...podman,
    'import',
    '--change',
    trusted,
    '-',
    tag,
  ]);
  report('building (deploy/build-image.sh)');
  const flags = ['--isolation chroot --network host --pull=never'];
  const ignored = `--ignorefile ${join(project, 'deploy', 'Dockerfile.dockerignore')}`;
  const env = { CONTAINER_ENGINE: podman.join(' '), BUILD_FLAGS: [...flags, ignored].join(' ') };
  await runShell('exec sh deploy/build-image.sh "$1"', [name], { ...env, SANDBOX: 'false' });
  const root = await ask('image', 'mount', name);
  const [image] = inspected.parse(JSON.parse(await ask('image', 'inspect', name)));
  if (image === undefined) throw new Error('podman shows no image');
  const { Env: variables, User: user, WorkingDir: workingDirectory, Labels: labels } = image.Config;
  return {
    root,
    env: variables,
    user,
    workingDirectory,
    labels,
  };
}

const inspected = z.array(
  z.object({
    Config: z.object({
      Env: z.array(z.string()),
      User: z.string(),
      WorkingDir: z.string(),
      Labels: z.record(z.string(), z.string()),
    }),
  }),
);

/** Debian with Node and npm, as the base image has them; made once. */
async function makeBase(report: (line: string) => void): Promise<string> {
  const target = join(lastingCache, 'base', `${release}-node-${process.versions.node}`);
  if (existsSync(target)) return target;
  const draft = `${target}.new`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(dirname(draft), { recursive: true });
  report(`${release}: installing by debootstrap (minutes, once)`);
  const options = ['--variant=minbase', '--include=ca-certificates'];
  await run('debootstrap', [...options, release, draft, mirror], { maxBuffer: 64 * 1024 * 1024 });
  // Where a registry is reached by a certificate of this machine's own.
  await copyFile(certificates, join(draft, certificates));
  await copyFile(process.execPath, join(draft, 'usr', 'local', 'bin', 'node'));
  const npm = dirname(createRequire(await npmProgram()).resolve('../package.json'));
  await cp(npm, join(draft, 'usr', 'local', 'lib', 'node_modules', 'npm'), { recursive: true });
  const link = join(draft, 'usr', 'local', 'bin', 'npm');
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', link);
  for (const part of ['var/cache/apt/archives', 'var/lib/apt/lists']) {
    await rm(join(draft, part), { recursive: true, force: true });
  }
  await rename(draft, target);
  return target;
}

/** The npm that started this. */
async function npmProgram(): Promise<string> {
  const started = process.env['npm_execpath'];
  if (started?.endsWith('.js')) return started;
  return (await run('sh', ['-c', 'readlink -f "$(command -v npm)"'])).stdout.trim();
}

async function runShell(
  script: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<void> {
  const child = spawn('bash', ['-o', 'pipefail', '-c', script, 'bash', ...args], {
    cwd: project,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${script} exited with ${code}`);
}
