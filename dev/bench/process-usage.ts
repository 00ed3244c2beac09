/** CPU time and memory of processes, from /proc (Linux). */
import { readdirSync, readFileSync } from 'node:fs';

/** CPU time and current memory of a process and its descendants. */
export interface Usage {
  cpuMs: number;
  /** Resident bytes; pages that the processes share (files, shared memory) count once. */
  residentBytes: number;
}

/** Unit of CPU times in /proc (USER_HZ). */
const tickMs = 10;

interface Stat {
  parent: number;
  /** utime + stime + cutime + cstime, which include children that have ended. */
  ticks: number;
}

/** Reads the usage of process trees by their names; a process that has ended counts as zero. */
export function readUsage(roots: Record<string, number>): Record<string, Usage> {
  const stats = readStats();
  return Object.fromEntries(
    Object.entries(roots).map(([name, pid]) => [name, usageOf(treeOf(pid, stats), stats)]),
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

function treeOf(root: number, stats: Map<number, Stat>): number[] {
  const tree = [root];
  for (const pid of tree) {
    for (const [child, stat] of stats) if (stat.parent === pid) tree.push(child);
  }
  return tree;
}

function usageOf(tree: number[], stats: Map<number, Stat>): Usage {
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

function sum(numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
