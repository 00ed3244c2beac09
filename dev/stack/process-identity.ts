import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Returns whether a process of any user has this id and is not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
  // A zombie has exited, and has no command line.
  return process.platform !== 'linux' || commandLine(pid) !== '';
}

/** Returns the command line of a process, or an empty string if it has exited or is not readable. */
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
 * Stops a process that an earlier start left running. Process ids are reused, so the command line
 * must contain `mark`, a path of this stack.
 * @returns true if the process was found and stopped
 */
export async function stopLeftover(
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
