/** Renders the result as text. */
import type { Cell } from './measurement.ts';

/** Renders two tables with one row per cell: times and CPU, compared with the baseline; then each process. */
export function renderCells(cells: readonly Cell[], baseline: string): string {
  const times = Object.keys(cells[0]?.timesMs ?? {});
  const head = ['way', 'load', 'jobs', 'jobs/s', 'CPU ms/job', `÷ ${baseline}`];
  const compared = cells.map((cell) => {
    const base = cells.find(({ way, load }) => way === baseline && load === cell.load);
    const { jobs, failures } = cell;
    return [
      cell.way,
      cell.load,
      `${jobs}${failures > 0 ? ` (${failures} failed)` : ''}`,
      digits(cell.jobsPerSecond),
      digits(cell.cpuMsPerJob),
      base?.cpuMsPerJob ? (cell.cpuMsPerJob / base.cpuMsPerJob).toFixed(2) : '–',
      ...times.flatMap((name) => {
        const { p50 = 0, p95 = 0, p99 = 0 } = cell.timesMs[name] ?? {};
        const baseMs = base?.timesMs[name]?.p50;
        const beyond = baseMs === undefined ? '–' : digits(p50 - baseMs);
        return [digits(p50), digits(p95), digits(p99), beyond];
      }),
    ];
  });
  const columns = times.flatMap((name) => [`${name} p50 ms`, 'p95', 'p99', `p50 − ${baseline}`]);
  const processes = cells.map((cell) => [
    cell.way,
    cell.load,
    byProcess(cell.cpuMsPerJobByProcess),
    cell.roundsCpuMsPerJob.map(digits).join(' '),
    byProcess(megabytes(cell.firstBytesByProcess)),
    byProcess(megabytes(cell.peakBytesByProcess)),
  ]);
  const memory = ['resident MB when it began', 'at most'];
  return [
    renderTable([[...head, ...columns], ...compared]),
    renderTable([['way', 'load', 'CPU ms/job', 'of each round', ...memory], ...processes]),
  ].join('\n\n');
}

/** Formats a number with three digits, or as a whole number. */
function digits(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

function megabytes(bytes: Record<string, number>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(bytes).map(([name, value]) => [name, Math.round(value / 1024 / 1024)]),
  );
}

function byProcess(values: Record<string, number>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name} ${digits(value)}`)
    .join(', ');
}

function renderTable(rows: readonly string[][]): string {
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
