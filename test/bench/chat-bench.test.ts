/** The chat benchmark runs, measures every variant it can start offline, and leaves nothing behind. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Cell } from '../../dev/bench/measurement.ts';

it('the benchmark measures chat, whole and streamed, next to a pass-through proxy and the upstream alone', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'bench-chat-test-'));
  const json = join(directory, 'out.json');
  const load = ['--loads', 'caller,stream', '--seconds', '1', '--rounds', '1', '--no-pin'];
  const variants = ['direct', 'pass-through', 'gateway'];
  const bench = spawn(
    process.execPath,
    ['dev/bench/main.ts', 'chat', ...load, '--variants', variants.join(), '--json', json],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, TMPDIR: directory } },
  );
  let stderr = '';
  bench.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(bench, 'exit')) as [number | null];
  expect({ code, stderr }).toMatchObject({ code: 0 });

  const { cells } = JSON.parse(await readFile(json, 'utf8')) as { cells: Cell[] };
  expect(cells.map((cell) => `${cell.variant} ${cell.load}`)).toEqual(
    variants.flatMap((variant) => [`${variant} caller`, `${variant} stream`]),
  );
  for (const cell of cells) {
    expect(cell).toMatchObject({ failures: 0, firstFailure: null });
    expect(cell.jobs).toBeGreaterThan(0);
    expect(cell.timesMs['response or first token']?.p50).toBeGreaterThan(0);
    if (cell.variant === 'gateway') expect(cell.cpuMsPerJob).toBeGreaterThan(0);
  }
  // All it made is in its temporary directory, which it removes.
  expect(await readdir(directory)).toEqual(['out.json']);
  await rm(directory, { recursive: true });
});
