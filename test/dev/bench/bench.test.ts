/** The benchmarks run, measure every variant without a failure, and leave nothing behind. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import type { Cell } from '../../../dev/bench/measurement.ts';
import { newFolder } from '../../harness/folders.ts';

/** Runs a benchmark, which must end without an error and remove its temporary files. */
async function runBench(kind: string, variants: string[], load: string[]) {
  const directory = newFolder();
  const json = join(directory, 'out.json');
  const args = ['dev/bench/main.ts', kind, ...load, '--variants', variants.join(), '--json', json];
  const options = { env: { ...process.env, TMPDIR: directory } };
  const { stdout } = await promisify(execFile)(process.execPath, args, options);
  expect(await readdir(directory)).toEqual(['out.json']);
  const { cells } = JSON.parse(await readFile(json, 'utf8')) as { cells: Cell[] };
  for (const cell of cells) expect(cell).toMatchObject({ failures: 0, firstFailure: null });
  return { cells, table: stdout };
}

it('the benchmark measures jobs next to bare Temporal, and ends every process that it started', async () => {
  const load = ['--provider-seconds', '1', '--rate', '2', '--seconds', '2', '--rounds', '1'];
  const variants = ['gateway', 'bare'];
  const { cells, table } = await runBench('studio', variants, load);
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
  const load = ['--loads', 'caller,stream', '--seconds', '1', '--rounds', '1', '--no-pin'];
  const variants = ['direct', 'pass-through', 'gateway'];
  const { cells } = await runBench('chat', variants, load);
  expect(cells.map((cell) => `${cell.variant} ${cell.load}`)).toEqual(
    variants.flatMap((variant) => [`${variant} caller`, `${variant} stream`]),
  );
  for (const cell of cells) {
    expect(cell.jobs).toBeGreaterThan(0);
    expect(cell.timesMs['response or first token']?.p50).toBeGreaterThan(0);
    if (cell.variant === 'gateway') expect(cell.cpuMsPerJob).toBeGreaterThan(0);
  }
});
