/** The benchmark runs, measures every kind of job without a failure, and leaves nothing behind. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { ComparedCell } from '../../bench/comparison.ts';

it('measures jobs of both dispatches beside bare Temporal and DBOS, and ends all it started', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'bench-test-'));
  const json = join(directory, 'out.json');
  const load = ['--concurrency', '2', '--seconds', '1', '--rounds', '1', '--workers', '0'];
  const shape = ['--dispatch', 'queued,auto:1x1', '--organizations', '3'];
  const bench = spawn(
    process.execPath,
    ['bench/main.ts', ...load, ...shape, '--no-profile', '--json', json],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, TMPDIR: directory } },
  );
  let said = '';
  bench.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const [code] = (await once(bench, 'exit')) as [number | null];
  expect({ code, said }).toMatchObject({ code: 0 });

  const { cells } = JSON.parse(await readFile(json, 'utf8')) as { cells: ComparedCell[] };
  expect(cells.map((cell) => cell.scenario)).toEqual([
    'studio-sync/queued',
    'studio-async/queued',
    'studio-sync/auto:1x1',
    'studio-async/auto:1x1',
    'bare',
    'noop',
    // Installed on demand; a machine that cannot is told so.
    ...(said.includes('dbos is left out') ? [] : ['dbos']),
    'direct',
  ]);
  for (const cell of cells) {
    expect(cell).toMatchObject({ concurrency: 2, failures: 0 });
    expect(cell.jobs).toBeGreaterThan(0);
    // The sandbox takes 50 ms for a picture; only the no-op asks for none.
    expect(cell.p50Ms).toBeGreaterThan(cell.kind === 'noop' ? 0 : 50);
  }
  // All it made is in its temporary directory, which it removes.
  expect(await readdir(directory)).toEqual(['out.json']);
  await rm(directory, { recursive: true });
}, 240_000);
