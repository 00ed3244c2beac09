/** The benchmarks run, measure every variant without a failure, and leave nothing behind. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import type { GrowthRow } from '../../../dev/bench/growth.ts';
import type { Cell } from '../../../dev/bench/measurement.ts';
import { newFolder } from '../../harness/folders.ts';

/** Runs a benchmark, which must end without an error and remove its temporary files. */
async function runBench<Results>(options: string[]): Promise<Results & { table: string }> {
  const directory = newFolder();
  const json = join(directory, 'out.json');
  const args = ['dev/bench/main.ts', ...options, '--json', json];
  const environment = { env: { ...process.env, TMPDIR: directory } };
  const { stdout } = await promisify(execFile)(process.execPath, args, environment);
  expect(await readdir(directory)).toEqual(['out.json']);
  return { ...(JSON.parse(await readFile(json, 'utf8')) as Results), table: stdout };
}

/** Runs a benchmark of variants, in which no job may fail. */
async function runVariants(kind: string, variants: string[], load: string[]) {
  const options = [kind, ...load, '--variants', variants.join()];
  const { cells, table } = await runBench<{ cells: Cell[] }>(options);
  for (const cell of cells) expect(cell).toMatchObject({ failures: 0, firstFailure: null });
  return { cells, table };
}

it('the benchmark measures jobs next to bare Temporal, and ends every process that it started', async () => {
  const load = ['--provider-seconds', '1', '--rate', '2', '--seconds', '2', '--rounds', '1'];
  const variants = ['gateway', 'bare'];
  const { cells, table } = await runVariants('studio', variants, load);
  expect(cells.map(({ variant }) => variant)).toEqual(variants);
  for (const cell of cells) {
    expect(cell).toMatchObject({ load: '2/s', jobs: 4 });
    expect(cell.cpuMsPerJob).toBeGreaterThan(0);
    // Without the provider's second; a job that did not wait for its provider would be below 0.
    const { p50 = 0, p95 = 0 } = cell.timesMs['beyond the provider'] ?? {};
    expect(p50).toBeGreaterThan(0);
    expect(p95).toBeGreaterThanOrEqual(p50);
    expect(cell.timesMs['to creation']?.p50).toBeGreaterThan(0);
    const shown = `${cell.variant} +2/s +4 +[\\d.]+ +${String(cell.cpuMsPerJob).slice(0, 2)}`;
    expect(table).toMatch(new RegExp(`^${shown}`, 'm'));
  }
  const { cpuMsPerJobByProcess, peakBytesByProcess, firstBytesByProcess } = cells[0] as Cell;
  for (const figures of [cpuMsPerJobByProcess, peakBytesByProcess, firstBytesByProcess]) {
    expect(Object.keys(figures)).toEqual(['temporal', 'api', 'worker', 'postgres']);
    for (const figure of Object.values(figures)) expect(figure).toBeGreaterThan(0);
  }
});

it('the benchmark measures chat, whole and streamed, next to a pass-through proxy and the upstream alone', async () => {
  const load = [
    '--loads',
    'caller,stream,arrivals',
    '--seconds',
    '0.3',
    '--rounds',
    '1',
    '--no-pin',
  ];
  const variants = ['direct', 'pass-through', 'gateway'];
  const { cells } = await runVariants('chat', variants, load);
  expect(cells.map((cell) => `${cell.variant} ${cell.load}`)).toEqual(
    variants.flatMap((variant) =>
      ['caller', 'stream', 'arrivals'].map((name) => `${variant} ${name}`),
    ),
  );
  for (const cell of cells) {
    expect(cell.jobs).toBeGreaterThan(0);
    expect(cell.timesMs['response or first token']?.p50).toBeGreaterThan(0);
    if (cell.variant === 'gateway') expect(cell.cpuMsPerJob).toBeGreaterThan(0);
  }
});

it('the benchmark compares empty tables with a history, whose audits find no violation', async () => {
  const size = ['--jobs', '200', '--chats', '300', '--days', '5'];
  const load = ['--requests', '2', '--idle-seconds', '1'];
  const { rows, table } = await runBench<{ rows: GrowthRow[] }>(['growth', ...size, ...load]);
  expect(rows.slice(0, 3).map(({ name, empty }) => [name, empty])).toEqual([
    ['filling the database', null],
    ['summing up all days', null],
    ['database', null],
  ]);
  const measured = rows.slice(3).filter(({ unit }) => unit !== '% of a core');
  expect(measured.length).toBeGreaterThan(20);
  for (const { empty, full } of measured) {
    expect(empty).toBeGreaterThan(0);
    expect(full).toBeGreaterThan(0);
  }
  for (const { name } of rows) expect(table).toContain(`| ${name} | `);
});
