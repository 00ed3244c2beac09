import { dirname, resolve } from 'node:path';
import { describeExit, dieWithParent, launch, logTail, type Running } from './running.ts';
import type { Service } from './supervisor.ts';

const project = dirname(dirname(import.meta.dirname));

/** Environment that sets the folder of Node's compile cache, which saves a fifth of start time. */
export const compileCache = { NODE_COMPILE_CACHE: resolve(project, '.cache', 'compile') };

export interface NodeProgram {
  name: string;
  /** Path of the script, absolute or relative to the project. */
  script: string;
  env: NodeJS.ProcessEnv;
  logPath: string;
}

/** How long a program may take to become ready. It is long because a busy machine compiles slowly. */
const readyTimeoutMs = 60_000;

/**
 * Returns a service that runs a Node program of this project. The program is ready when it sends
 * `{type: 'ready'}` over IPC. It exits when the IPC channel closes, e.g. if the supervisor is killed.
 */
export function nodeService(program: NodeProgram): Service {
  return { name: program.name, start: () => startNode(program) };
}

async function startNode(program: NodeProgram): Promise<Running> {
  const ready = Promise.withResolvers<'ready'>();
  const running = await launchNode(program, (message) => {
    if (isReady(message)) ready.resolve('ready');
  });
  const timeout = Promise.withResolvers<string>();
  const timer = setTimeout(
    () => timeout.resolve(`was not ready after ${readyTimeoutMs / 1000} s`),
    readyTimeoutMs,
  );
  const outcome = await Promise.race([
    ready.promise,
    running.exited.then(describeExit),
    timeout.promise,
  ]);
  clearTimeout(timer);
  if (outcome === 'ready') return running;
  running.kill();
  throw new Error(`${program.name} ${outcome}\n${logTail(program.logPath)}`);
}

function isReady(message: unknown): boolean {
  return (
    typeof message === 'object' && message !== null && 'type' in message && message.type === 'ready'
  );
}

/**
 * Runs a Node program of this project until it exits.
 * @throws Error with the end of its log if the exit code is not 0
 */
export async function runNode(program: NodeProgram): Promise<void> {
  const running = await launchNode(program);
  const exit = await running.exited;
  if (exit.code === 0) return;
  throw new Error(`${program.name} ${describeExit(exit)}\n${logTail(program.logPath)}`);
}

async function launchNode(
  { script, env, logPath }: NodeProgram,
  onMessage?: (message: unknown) => void,
): Promise<Running> {
  const [command, ...args] = [
    // Without an IPC channel the program cannot notice that the supervisor was killed.
    ...(onMessage ? [] : dieWithParent('SIGTERM')),
    process.execPath,
    resolve(project, script),
  ];
  return await launch({
    command,
    args,
    env: { ...compileCache, ...env },
    logPath,
    cwd: project,
    ...(onMessage ? { onMessage } : {}),
  });
}
