/** CPU time and memory of processes, from /proc (Linux). */
import { readdirSync, readFileSync } from 'node:fs';

import { sum } from './load.ts';

/** CPU time and current memory of a process and its descendants. */
export interface Usage {
  cpuMs: number;
  /** Resident memory in bytes; pages that processes share (files, shared memory) are counted once. */
  residentBytes: number;
}

/** Milliseconds in the time unit of /proc (USER_HZ). */
const tickMs = 10;

interface Stat {
  parent: number;
  /** utime + stime + cutime + cstime, which include children that have ended. */
  ticks: number;
}

/** Reads the usage of each process and its descendants; zero if it has ended. */
export function readUsage(roots: Record<string, number>): Record<string, Usage> {
  const stats = readStats();
  return Object.fromEntries(
    Object.entries(roots).map(([name, pid]) => [
      name,
      readTreeUsage(findDescendants(pid, stats), stats),
    ]),
  );
}

function readStats(): Map<number, Stat> {
  const stats = new Map<number, Stat>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const text = readOrEmpty(`/proc/${name}/stat`);
    // The command in parentheses may contain spaces; state and parent follow it (proc(5)).
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const field = (index: number): number => Number(fields[index - 3] ?? 0);
    if (text)
      stats.set(Number(name), { parent: field(4), ticks: sum([14, 15, 16, 17].map(field)) });
  }
  return stats;
}

function findDescendants(root: number, stats: Map<number, Stat>): number[] {
  const tree = [root];
  for (const pid of tree) {
    for (const [child, stat] of stats) if (stat.parent === pid) tree.push(child);
  }
  return tree;
}

function readTreeUsage(tree: number[], stats: Map<number, Stat>): Usage {
  const memory = tree.map((pid) => readOrEmpty(`/proc/${pid}/status`));
  const kilobytes = (field: string): number[] =>
    memory.map((text) => Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0));
  return {
    cpuMs: sum(tree.map((pid) => stats.get(pid)?.ticks ?? 0)) * tickMs,
    residentBytes:
      1024 *
      (sum(kilobytes('RssAnon')) +
        Math.max(...kilobytes('RssFile')) +
        Math.max(...kilobytes('RssShmem'))),
  };
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
