/** The benchmark runs, measures every column without losing a job, and leaves nothing behind. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Cell } from '../../dev/bench/measurement.ts';

it('measures jobs beside bare Temporal, its floor and DBOS, and ends all it started', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'bench-test-'));
  const json = join(directory, 'out.json');
  const load = ['--provider-seconds', '1', '--rate', '2', '--seconds', '2', '--rounds', '1'];
  const columns = ['gateway', 'bare', 'floor', 'floor4', 'dbos'];
  const bench = spawn(
    process.execPath,
    ['dev/bench/main.ts', ...load, '--columns', columns.join(), '--json', json],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, TMPDIR: directory } },
  );
  let said = '';
  let table = '';
  bench.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  bench.stdout.on('data', (chunk: Buffer) => (table += chunk.toString()));
  const [code] = (await once(bench, 'close')) as [number | null];
  expect({ code, said }).toMatchObject({ code: 0 });

  const { cells } = JSON.parse(await readFile(json, 'utf8')) as { cells: Cell[] };
  // DBOS is installed on demand; a machine that cannot is told so.
  const measured = columns.filter((name) => name !== 'dbos' || !said.includes('dbos is left out'));
  expect(cells.map(({ column }) => column)).toEqual(measured);
  for (const cell of cells) {
    expect(cell).toMatchObject({ rate: 2, jobs: 4, refused: 0, lost: 0, firstFailure: null });
    expect(cell.cpuMsPerJob).toBeGreaterThan(0);
    // The provider's second is not in it; a job that did not wait for its provider would be below.
    expect(cell.beyondMs.p50).toBeGreaterThan(0);
    expect(cell.beyondMs.p95).toBeGreaterThanOrEqual(cell.beyondMs.p50);
    expect(table).toMatch(
      new RegExp(`^${cell.column} +2 +4 +${cell.cpuMsPerJob.toFixed(1)} `, 'm'),
    );
  }
  const { cpuMsPerJobByProcess, peakBytesByProcess } = cells[0] as Cell;
  for (const figures of [cpuMsPerJobByProcess, peakBytesByProcess]) {
    expect(Object.keys(figures)).toEqual(['temporal', 'api', 'worker', 'postgres']);
    for (const figure of Object.values(figures)) expect(figure).toBeGreaterThan(0);
  }
  // All it made is in its temporary directory, which it removes.
  expect(await readdir(directory)).toEqual(['out.json']);
  await rm(directory, { recursive: true });
});
