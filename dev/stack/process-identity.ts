import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Whether a process with this id exists (whoever it belongs to) and is not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
  // A zombie has no command line; it is waiting for its parent, not running.
  return process.platform !== 'linux' || commandLine(pid) !== '';
}

/** The arguments of a live process, separated by spaces; empty when it is gone or unreadable. */
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
 * Ends a process that an earlier run left behind, but only when its command line contains `mark`
 * (a path of ours): process ids are reused, and a file on disk is no proof.
 * @returns whether such a process was found and ended.
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
