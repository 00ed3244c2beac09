/**
 * Measures each test file: a setup file, which vitest runs before it loads the test file. CPU is that of the worker
 * process and of the processes below it (sandbox, API and worker processes, browsers), from before the file is loaded
 * until its last hook has run. Not counted: Postgres and Temporal, which all files share; the start of vitest and of its
 * workers; a child process whose parent ended first. A gateway that files share counts for the file that starts it.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { afterAll } from 'vitest';

/** The cost of one test file, milliseconds. */
export interface FileCost {
  cpuMs: number;
  wallMs: number;
}

declare module 'vitest' {
  interface TaskMeta {
    cost?: FileCost;
  }
}

/** The length of a clock tick in /proc, milliseconds: Linux reports 100 ticks a second on every architecture. */
const tickMs = 10;

interface ProcessTimes {
  pid: number;
  parent: number;
  /** CPU of the process itself. */
  ownMs: number;
  /** CPU of its ended children and theirs. */
  endedMs: number;
}

/** Reads one process; an ended one has no file. */
function readTimes(pid: number): ProcessTimes[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the program, in brackets, may contain spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [parent = 0, user = 0, system = 0, endedUser = 0, endedSystem = 0] = [1, 11, 12, 13, 14]
      .map((index) => fields[index])
      .map(Number);
    return [
      { pid, parent, ownMs: (user + system) * tickMs, endedMs: (endedUser + endedSystem) * tickMs },
    ];
  } catch {
    return [];
  }
}

/** Returns the CPU that this process and all below it have used, milliseconds; without /proc, this process alone. */
function treeCpuMs(): number {
  const pids = readTimes(process.pid).length === 0 ? [] : readdirSync('/proc').map(Number);
  const processes = pids.filter((pid) => pid > 0).flatMap(readTimes);
  const below = (pid: number): number =>
    processes
      .filter(({ parent }) => parent === pid)
      .reduce((sum, child) => sum + child.ownMs + child.endedMs + below(child.pid), 0);
  const { user, system } = process.cpuUsage();
  const ended = processes.find(({ pid }) => pid === process.pid)?.endedMs ?? 0;
  return (user + system) / 1000 + ended + below(process.pid);
}

const startCpuMs = treeCpuMs();
const startMs = performance.now();

// Hooks of this kind run from the last registered to the first, so this one runs after the file has closed its gateway.
// oxlint-disable-next-line no-empty-pattern -- vitest reads the pattern of the first argument to see which fixtures the hook uses
afterAll(({}, { meta }) => {
  meta.cost = {
    cpuMs: Math.max(0, Math.round(treeCpuMs() - startCpuMs)),
    wallMs: Math.round(performance.now() - startMs),
  };
});
