/**
 * Docker engine with Compose for `check-image`: the machine's own, or else Debian's, which is installed and started with a
 * data directory of its own, which needs root.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, symlinkSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { commandSucceeds, dieWithParent, launch, untilReady } from '../stack/running.ts';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { findGoProgram } from '../stack/tools.ts';

const composeProgram = {
  path: 'github.com/docker/compose/v2/cmd',
  module: 'github.com/docker/compose/v2',
  version: 'v2.40.3',
  program: 'docker-compose',
};
const debianPackages = ['docker.io', 'containerd', 'runc', 'iptables', 'debootstrap'];

/** Receives a line about each slow step. */
export type Report = (line: string) => void;

/** Builds Docker Compose once from the Go module proxy, and returns the path of its executable. */
export const findCompose = (report: Report): Promise<string> =>
  findGoProgram(composeProgram, report);

/** Engine that `docker` reaches with the variables in `env`. */
export interface Engine {
  env: NodeJS.ProcessEnv;
  /** False if it was started here and reaches no registry; its images must then be made here. */
  hasRegistry: boolean;
  /** `Docker 20.10.24, Compose 2.40.3` */
  description: string;
  stop: () => Promise<void>;
}

/**
 * Runs a command and returns its output.
 * @throws Error with the end of the output if the exit status is not 0
 */
export async function runCommand(
  [command = '', ...args]: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv; input?: string } = {},
): Promise<string> {
  const { input, ...rest } = options;
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], ...rest });
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  if (code === 0) return stdout;
  const end = `${stdout}${stderr}`.trimEnd().split('\n').slice(-15).join('\n');
  throw new Error(`${[command, ...args].join(' ')}: exit status ${String(code)}\n${end}`);
}

/**
 * Finds or starts an engine.
 * @param data directory for the images of an engine that is started here
 * @throws Error if the machine has none and none can be installed
 */
export async function findEngine(data: string, report: Report): Promise<Engine> {
  const isRunning = commandSucceeds(['docker', 'info']);
  const { env, stop } = isRunning
    ? { env: process.env, stop: () => Promise.resolve() }
    : await startEngine(data, report);
  try {
    await ensureCompose(env, report);
    const format = (command: string[]) => runCommand(['docker', ...command], { env });
    const docker = await format(['version', '--format', '{{.Server.Version}}']);
    const compose = await format(['compose', 'version', '--short']);
    const description = `Docker ${docker.trim()}, Compose ${compose.trim()}`;
    const pulled = runCommand(['docker', 'pull', '--quiet', 'busybox:1.37.0'], { env });
    const hasRegistry =
      isRunning ||
      (await pulled.then(
        () => true,
        () => false,
      ));
    return { env, hasRegistry, description, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Installs Debian's engine and starts it; its socket and configuration are in a temporary directory. */
async function startEngine(data: string, report: Report): Promise<Pick<Engine, 'env' | 'stop'>> {
  if (process.getuid?.() !== 0 || !commandSucceeds(['apt-get', '--version']))
    throw new Error('there is no Docker engine; start one, or run this as root on Debian');
  if (!commandSucceeds(['dockerd', '--version']) || !commandSucceeds(['which', 'debootstrap'])) {
    report(`installing ${debianPackages.join(', ')}`);
    await runCommand(['apt-get', 'update', '-qq']);
    const flags = ['install', '-qq', '-y', '--no-install-recommends'];
    await runCommand(['apt-get', ...flags, ...debianPackages]);
  }
  const directory = makeTemporaryDirectory('engine');
  mkdirSync(data, { recursive: true });
  const logPath = join(directory, 'dockerd.log');
  const socket = `unix://${join(directory, 'docker.sock')}`;
  const places = ['--data-root', data, '--exec-root', join(directory, 'exec')];
  const flags = [...places, '--pidfile', join(directory, 'pid'), '--host', socket];
  const [command = '', ...args] = [...dieWithParent('SIGTERM'), 'dockerd', ...flags];
  const daemon = await launch({ command, args, logPath, stopGraceMs: 60_000 });
  // Debian's engine has no buildx, so that images are built with the older builder.
  const config = { DOCKER_CONFIG: join(directory, 'config'), DOCKER_BUILDKIT: '0' };
  const env = { ...process.env, ...config, DOCKER_HOST: socket };
  const probe = () => runCommand(['docker', 'info'], { env });
  await untilReady(daemon, probe, { name: 'dockerd', logPath });
  const stop = async (): Promise<void> => {
    await daemon.stop();
    await rm(directory, { recursive: true, force: true });
  };
  return { env, stop };
}

/** Adds Compose to Docker's plugins, unless it is one of them. */
async function ensureCompose(env: NodeJS.ProcessEnv, report: Report): Promise<void> {
  const installed = runCommand(['docker', 'compose', 'version'], { env });
  const isInstalled = await installed.then(
    () => true,
    () => false,
  );
  if (isInstalled) return;
  if (env['DOCKER_CONFIG'] === undefined)
    throw new Error('Docker has no plugin `compose`; install it');
  const plugins = join(env['DOCKER_CONFIG'], 'cli-plugins');
  mkdirSync(plugins, { recursive: true });
  symlinkSync(await findCompose(report), join(plugins, 'docker-compose'));
}
