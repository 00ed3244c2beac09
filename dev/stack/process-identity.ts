import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Returns true if a process with this id exists, of any user, and is not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
  // A zombie has exited, and has no command line.
  return process.platform !== 'linux' || commandLine(pid) !== '';
}

/**
 * Returns the arguments of a running process, separated by spaces; empty if it has exited or cannot
 * be read.
 */
export function commandLine(pid: number): string {
  if (process.platform === 'linux') {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
    } catch {
      return '';
    }
  }
  return spawnSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).stdout ?? '';
}

/**
 * Stops a process of an earlier run, but only if its command line contains `mark` (a path of this
 * stack), because process ids are reused.
 * @returns true if such a process was found and stopped
 */
export async function endLeftover(
  pid: number,
  { mark, signal }: { mark: string; signal: NodeJS.Signals },
): Promise<boolean> {
  if (!isAlive(pid) || !commandLine(pid).includes(mark)) return false;
  process.kill(pid, signal);
  const deadline = Date.now() + 15_000;
  while (isAlive(pid)) {
    if (Date.now() > deadline && commandLine(pid).includes(mark)) process.kill(pid, 'SIGKILL');
    await sleep(20);
  }
  return true;
}
