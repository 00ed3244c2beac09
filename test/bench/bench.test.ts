/** The benchmark runs, measures every column without losing a job, and leaves nothing behind. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Cell } from '../../dev/bench/measurement.ts';

it('the benchmark measures jobs next to bare Temporal, and ends every process that it started', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'bench-test-'));
  const json = join(directory, 'out.json');
  const load = ['--provider-seconds', '1', '--rate', '2', '--seconds', '2', '--rounds', '1'];
  const variants = ['gateway', 'bare'];
  const bench = spawn(
    process.execPath,
    ['dev/bench/main.ts', 'studio', ...load, '--variants', variants.join(), '--json', json],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, TMPDIR: directory } },
  );
  let stderr = '';
  let table = '';
  bench.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  bench.stdout.on('data', (chunk: Buffer) => (table += chunk.toString()));
  const [code] = (await once(bench, 'close')) as [number | null];
  expect({ code, stderr }).toMatchObject({ code: 0 });

  const { cells } = JSON.parse(await readFile(json, 'utf8')) as { cells: Cell[] };
  expect(cells.map(({ variant }) => variant)).toEqual(variants);
  for (const cell of cells) {
    expect(cell).toMatchObject({ load: '2/s', jobs: 4, failures: 0, firstFailure: null });
    expect(cell.cpuMsPerJob).toBeGreaterThan(0);
    // The provider's second is not in it; a job that did not wait for its provider would be below.
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
  // All it made is in its temporary directory, which it removes.
  expect(await readdir(directory)).toEqual(['out.json']);
  await rm(directory, { recursive: true });
});
