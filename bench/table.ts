/** The result as text. */
import type { ComparedCell } from './comparison.ts';
import type { JobProfile } from './job-profile.ts';

/** Lines of a table with one row per cell. */
export function renderCells(cells: readonly ComparedCell[]): string {
  const head = [
    'scenario',
    'callers',
    'jobs',
    'jobs/s',
    'p50 ms',
    'p95',
    'p99',
    'added ms',
    'CPU ms/job',
    'added÷noop',
    'rate÷noop',
    'CPU÷noop',
    'rate÷bare',
    'added÷dbos',
    'rate÷dbos',
    'CPU ms/job by process',
  ];
  const rows = cells.map((cell) => [
    cell.scenario,
    String(cell.concurrency),
    `${cell.jobs}${cell.failures > 0 ? ` (${cell.failures} failed)` : ''}`,
    one(cell.jobsPerSecond),
    one(cell.p50Ms),
    one(cell.p95Ms),
    one(cell.p99Ms),
    one(cell.addedMs),
    one(cell.cpuMsPerJob),
    two(cell.toNoop?.added),
    two(cell.toNoop?.jobsPerSecond),
    two(cell.toNoop?.cpuMsPerJob),
    two(cell.toBare?.jobsPerSecond),
    two(cell.toDbos?.added),
    two(cell.toDbos?.jobsPerSecond),
    byProcess(cell.cpuMsPerJobByProcess, one),
  ]);
  return renderTable([head, ...rows]);
}

/** Memory at the end of each scenario's last round. */
export function renderMemory(cells: readonly ComparedCell[]): string {
  const last = new Map(cells.map((cell) => [cell.scenario, cell]));
  return renderTable([
    ['scenario', 'resident MB by process'],
    ...[...last].map(([name, cell]) => [name, byProcess(cell.residentBytesByProcess, megabytes)]),
  ]);
}

/** What one job cost in tasks, events and commits. */
export function renderProfiles(profiles: readonly JobProfile[]): string {
  return renderTable([
    [
      'variant',
      'workflow tasks',
      'activities',
      'history events',
      'history bytes',
      'Postgres commits',
    ],
    ...profiles.map((profile) => [
      profile.variant,
      String(profile.workflowTasks),
      String(profile.activities),
      String(profile.historyEvents),
      String(profile.historyBytes),
      two(profile.commitsPerJob),
    ]),
  ]);
}

function byProcess(values: Record<string, number>, show: (value: number) => string): string {
  return Object.entries(values)
    .map(([name, value]) => `${name} ${show(value)}`)
    .join(', ');
}

function megabytes(bytes: number): string {
  return String(Math.round(bytes / 1024 / 1024));
}

function one(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : value.toFixed(1);
}

function two(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : value.toFixed(2);
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
