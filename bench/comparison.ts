/** Cells against each other: what was added to the provider's time, and ratios inside this run. */
import type { Cell } from './measurement.ts';

/** A cell with what it means beside the others of the same concurrency. */
export interface ComparedCell extends Cell {
  /** p50 beyond the provider's own time; null when that was not measured or is not part of it. */
  addedMs: number | null;
  /** Against the no-op workflow; null without one. */
  toNoop: Ratios | null;
  /** Against the bare workflow of four activities; null without one. */
  toBare: Ratios | null;
  /** Against the same steps in DBOS; null without it. */
  toDbos: Ratios | null;
}

/** Ours divided by theirs. */
interface Ratios {
  /** Added latency over added latency (a no-op adds all it takes). */
  added: number | null;
  jobsPerSecond: number;
  cpuMsPerJob: number;
}

/** Compares all cells. */
export function compare(cells: readonly Cell[]): ComparedCell[] {
  // The provider's own time is what one caller alone waits: at more, the callers wait for each other.
  const direct = cells
    .filter((cell) => cell.kind === 'direct')
    .toSorted((a, b) => a.concurrency - b.concurrency)[0];
  const addedOf = (cell: Cell): number | null => {
    if (cell.kind === 'noop') return cell.p50Ms;
    return direct ? cell.p50Ms - direct.p50Ms : null;
  };
  return cells.map((cell) => {
    const ratiosTo = (kind: 'noop' | 'bare' | 'dbos'): Ratios | null => {
      const base = cells.find(
        (other) => other.kind === kind && other.concurrency === cell.concurrency,
      );
      if (!base || base === cell || cell.kind === 'direct') return null;
      const [mine, theirs] = [addedOf(cell), addedOf(base)];
      return {
        added: mine !== null && theirs ? mine / theirs : null,
        jobsPerSecond: cell.jobsPerSecond / base.jobsPerSecond,
        cpuMsPerJob: cell.cpuMsPerJob / base.cpuMsPerJob,
      };
    };
    return {
      ...cell,
      addedMs: addedOf(cell),
      toNoop: ratiosTo('noop'),
      toBare: ratiosTo('bare'),
      toDbos: ratiosTo('dbos'),
    };
  });
}
