/** Formats benchmark results as text tables. */
import type { Cell } from './measurement.ts';

/** Formats two tables with one row per cell: times and CPU compared with the baseline, then CPU and memory by process. */
export function formatResults(cells: readonly Cell[], baseline: string): string {
  const times = Object.keys(cells[0]?.timesMs ?? {});
  const head = ['variant', 'load', 'jobs', 'jobs/s', 'CPU ms/job', `÷ ${baseline}`];
  const resultRows = cells.map((cell) => {
    const base = cells.find(({ variant, load }) => variant === baseline && load === cell.load);
    const { jobs, failures } = cell;
    return [
      cell.variant,
      cell.load,
      `${jobs}${failures > 0 ? ` (${failures} failed)` : ''}`,
      formatNumber(cell.jobsPerSecond),
      formatNumber(cell.cpuMsPerJob),
      base?.cpuMsPerJob ? (cell.cpuMsPerJob / base.cpuMsPerJob).toFixed(2) : '–',
      ...times.flatMap((name) => {
        const { p50 = 0, p95 = 0, p99 = 0 } = cell.timesMs[name] ?? {};
        const baseMs = base?.timesMs[name]?.p50;
        const difference = baseMs === undefined ? '–' : formatNumber(p50 - baseMs);
        return [formatNumber(p50), formatNumber(p95), formatNumber(p99), difference];
      }),
    ];
  });
  const columns = times.flatMap((name) => [`${name} p50 ms`, 'p95', 'p99', `p50 − ${baseline}`]);
  const processRows = cells.map((cell) => [
    cell.variant,
    cell.load,
    formatByProcess(cell.cpuMsPerJobByProcess),
    cell.roundsCpuMsPerJob.map(formatNumber).join(' '),
    formatByProcess(toMegabytes(cell.firstBytesByProcess)),
    formatByProcess(toMegabytes(cell.peakBytesByProcess)),
  ]);
  const memory = ['resident MB at start', 'peak MB'];
  return [
    formatTable([[...head, ...columns], ...resultRows]),
    formatTable([['variant', 'load', 'CPU ms/job', 'by round', ...memory], ...processRows]),
  ].join('\n\n');
}

/** Formats a number with three significant digits, or as an integer if it is 100 or more. */
function formatNumber(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

function toMegabytes(bytes: Record<string, number>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(bytes).map(([name, value]) => [name, Math.round(value / 1024 / 1024)]),
  );
}

function formatByProcess(values: Record<string, number>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name} ${formatNumber(value)}`)
    .join(', ');
}

function formatTable(rows: readonly string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  const formatRow = (row: string[]): string =>
    row
      .map((text, column) => text.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return rows.map(formatRow).join('\n');
}
