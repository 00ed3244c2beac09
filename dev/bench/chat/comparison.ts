/** Ways of a chat against the upstream alone, inside one run. */
import type { Cell } from './measurement.ts';
import { renderTable } from '../table.ts';

/** A cell beside the upstream alone, at the same concurrency and in the same mode. */
export interface ComparedChat extends Cell {
  /** p50 beyond the upstream's own: of the whole answer, or of a stream's first token. */
  addedP50Ms: number | null;
}

/** Compares all cells. */
export function compareChats(cells: readonly Cell[]): ComparedChat[] {
  return cells.map((cell) => {
    const direct = cells.find(
      (other) =>
        other.scenario === 'direct' &&
        other.kind === cell.kind &&
        other.concurrency === cell.concurrency,
    );
    return { ...cell, addedP50Ms: direct ? cell.p50Ms - direct.p50Ms : null };
  });
}

/** A table with one row per cell. Of streams, the times are those to the first token. */
export function renderChats(cells: readonly ComparedChat[]): string {
  const head = [
    'way',
    'mode',
    'callers',
    'chats',
    'chats/s',
    'p50 ms',
    'p95',
    'p99',
    'added p50 ms',
    'CPU µs/chat',
    'by process',
  ];
  const rows = cells
    .toSorted((a, b) => a.kind.localeCompare(b.kind) * -1 || a.concurrency - b.concurrency)
    .map((cell) => [
      cell.scenario,
      cell.kind,
      String(cell.concurrency),
      `${cell.jobs}${cell.failures > 0 ? ` (${cell.failures} failed)` : ''}`,
      cell.jobsPerSecond.toFixed(0),
      ...[cell.p50Ms, cell.p95Ms, cell.p99Ms, cell.addedP50Ms ?? 0].map((ms) => ms.toFixed(2)),
      microseconds(cell.cpuMsPerJob),
      Object.entries(cell.cpuMsPerJobByProcess)
        .map(([name, ms]) => `${name} ${microseconds(ms)}`)
        .join(', '),
    ]);
  return renderTable([head, ...rows]);
}

function microseconds(ms: number): string {
  return (ms * 1000).toFixed(0);
}
