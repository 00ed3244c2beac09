/** The result as text. */
import type { Cell } from './measurement.ts';

/** Lines of a table with one row per cell, CPU also against the bare workflow of the same run and rate. */
export function renderCells(cells: readonly Cell[]): string {
  const head = [
    'column',
    'jobs/s',
    'jobs',
    'CPU ms/job',
    '÷ bare',
    'to creation p50 ms',
    'p95',
    'beyond the provider p50 ms',
    'p95',
    'p99',
  ];
  const rows = cells.map((cell) => {
    const bare = cells.find(({ column, rate }) => column === 'bare' && rate === cell.rate);
    const { jobs, refused, lost, untilCreatedMs, beyondMs } = cell;
    return [
      cell.column,
      String(cell.rate),
      `${jobs}${refused > 0 ? ` (${refused} refused)` : ''}${lost > 0 ? ` (${lost} lost)` : ''}`,
      cell.cpuMsPerJob.toFixed(1),
      bare ? (cell.cpuMsPerJob / bare.cpuMsPerJob).toFixed(2) : '–',
      ...[untilCreatedMs.p50, untilCreatedMs.p95].map(whole),
      ...[beyondMs.p50, beyondMs.p95, beyondMs.p99].map(whole),
    ];
  });
  return renderTable([head, ...rows]);
}

/** What each process of a cell took. */
export function renderProcesses(cells: readonly Cell[]): string {
  return renderTable([
    ['column', 'jobs/s', 'CPU ms/job by process', 'of each round', 'resident MB at most'],
    ...cells.map((cell) => [
      cell.column,
      String(cell.rate),
      byProcess(cell.cpuMsPerJobByProcess, (ms) => ms.toFixed(1)),
      cell.roundsCpuMsPerJob.map((ms) => ms.toFixed(1)).join(' '),
      byProcess(cell.peakBytesByProcess, (bytes) => whole(bytes / 1024 / 1024)),
    ]),
  ]);
}

function byProcess(values: Record<string, number>, show: (value: number) => string): string {
  return Object.entries(values)
    .map(([name, value]) => `${name} ${show(value)}`)
    .join(', ');
}

function whole(value: number): string {
  return value.toFixed(0);
}

/** Rows as text, in columns. */
export function renderTable(rows: readonly string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (row: string[]): string =>
    row
      .map((text, column) => text.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return rows.map(line).join('\n');
}
