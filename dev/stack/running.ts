import { spawn, spawnSync, type ChildProcess, type Serializable } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** How a process ended: exactly one of the two fields is set. */
export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** Child process. */
export interface Running {
  pid: number;
  /** Resolves when the process has exited for any reason; never rejects. */
  exited: Promise<Exit>;
  /** Sends the stop signal, then SIGKILL after `stopGraceMs`. Returns when the process has exited. */
  stop: () => Promise<void>;
  /** Sends SIGKILL. */
  kill: () => void;
}

export interface LaunchOptions {
  command: string;
  args: string[];
  /** File to which stdout and stderr are appended; null discards both. */
  logPath: string | null;
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  /** Signal for a clean stop. Defaults to SIGTERM. */
  stopSignal?: NodeJS.Signals;
  /** Milliseconds between the stop signal and SIGKILL. Defaults to 15,000. */
  stopGraceMs?: number;
  /** Receives the IPC messages of a Node child. The IPC channel is opened only if this is set. */
  onMessage?: (message: Serializable) => void;
}

const logBytesMax = 10 * 1024 * 1024;

/**
 * Starts a program. Its output goes to a file, so that none is lost when this process exits. It runs
 * in its own process group, so that Ctrl-C reaches only the supervisor, which then stops its
 * children in order.
 * @throws Error if the program cannot be started
 */
export async function launch(options: LaunchOptions): Promise<Running> {
  const { logPath, stopSignal = 'SIGTERM', stopGraceMs = 15_000, onMessage } = options;
  const output = logPath === null ? 'ignore' : openLog(logPath);
  const child = spawn(options.command, options.args, {
    env: options.env ?? process.env,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    stdio: ['ignore', output, output, ...(onMessage ? (['ipc'] as const) : [])],
    detached: true,
  });
  if (typeof output === 'number') closeSync(output);
  if (onMessage) child.on('message', onMessage);
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  const pid = await startedPid(child);
  return {
    pid,
    exited,
    kill: () => child.kill('SIGKILL'),
    stop: () => stopChild(child, { exited, stopSignal, stopGraceMs }),
  };
}

function startedPid(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('spawn', () => {
      if (child.pid === undefined) reject(new Error('the process has no pid'));
      else resolve(child.pid);
    });
  });
}

async function stopChild(
  child: ChildProcess,
  stopping: { exited: Promise<Exit>; stopSignal: NodeJS.Signals; stopGraceMs: number },
): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill(stopping.stopSignal);
  const timeout = new AbortController();
  const killAfterGrace = sleep(stopping.stopGraceMs, undefined, { signal: timeout.signal }).then(
    () => child.kill('SIGKILL'),
    () => undefined,
  );
  await stopping.exited;
  timeout.abort();
  await killAfterGrace;
}

function openLog(path: string): number {
  mkdirSync(dirname(path), { recursive: true });
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  // Only one older log is kept, so that logs cannot fill the disk.
  if (size > logBytesMax) renameSync(path, `${path}.1`);
  return openSync(path, 'a', 0o600);
}

/** Returns the last lines of a log file, for an error message. */
export function logTail(path: string, lines = 20): string {
  try {
    return readFileSync(path, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  } catch {
    return '(no log)';
  }
}

/** Describes how a process ended: `exited with code 1`, `was killed by SIGKILL`. */
export function describeExit({ code, signal }: Exit): string {
  return signal === null ? `exited with code ${code}` : `was killed by ${signal}`;
}

const readyTimeoutMs = 90_000; // After a crash, Postgres first replays its log.

/**
 * Repeats a check until it succeeds, that is, until the server is ready.
 * @throws Error with the end of the log if the server exits, or is not ready within 90 s; the server
 * is stopped then
 */
export async function untilReady(
  server: Running,
  check: () => Promise<unknown>,
  { name, logPath }: { name: string; logPath: string },
): Promise<void> {
  const ended = server.exited.then((exit) => new Error(`the server ${describeExit(exit)}`));
  const deadline = Date.now() + readyTimeoutMs;
  for (;;) {
    const failure = await check().then(
      () => null,
      (error: unknown) => error,
    );
    // The exit counts first: if the port was in use, the check may have reached another server.
    const end = await Promise.race([ended, sleep(failure === null ? 0 : 25, null)]);
    if (end === null && failure === null) return;
    if (end === null && Date.now() < deadline) continue;
    await server.stop();
    const reason = String(end ?? failure);
    throw new Error(`${name} did not start: ${reason}\n${logTail(logPath)}`, { cause: failure });
  }
}

let parentDeathSignalWorks: boolean | undefined;

/**
 * Returns a command prefix that makes the kernel send `signal` to the program when this process
 * exits, even by SIGKILL. A killed test runner then leaves no servers running. This works only on
 * Linux (`setpriv` of util-linux ≥ 2.33). Elsewhere the prefix is empty, and the next start stops
 * the remaining processes.
 */
export function dieWithParent(signal: 'SIGINT' | 'SIGTERM'): string[] {
  const prefix = ['setpriv', '--pdeathsig', signal.slice('SIG'.length), '--'];
  parentDeathSignalWorks ??= process.platform === 'linux' && commandSucceeds([...prefix, 'true']);
  return parentDeathSignalWorks ? prefix : [];
}

/** Runs a command without showing its output. Returns whether its exit code is 0. */
export function commandSucceeds([command = '', ...args]: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore', timeout: 10_000 }).status === 0;
}
