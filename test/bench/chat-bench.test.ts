/** The chat benchmark runs, measures every way it can start offline, and leaves nothing behind. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { ComparedChat } from '../../dev/bench/chat/measurement.ts';

it('measures chat, whole and streamed, beside a pass-through and the upstream alone', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'bench-chat-test-'));
  const json = join(directory, 'out.json');
  const load = ['--concurrency', '4', '--seconds', '1', '--rounds', '1', '--no-pin'];
  const ways = ['direct', 'pass-through', 'gateway'];
  const bench = spawn(
    process.execPath,
    ['dev/bench/chat/main.ts', ...load, '--only', ways.join(), '--json', json],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, TMPDIR: directory } },
  );
  let said = '';
  bench.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const [code] = (await once(bench, 'exit')) as [number | null];
  expect({ code, said }).toMatchObject({ code: 0 });

  const { cells } = JSON.parse(await readFile(json, 'utf8')) as { cells: ComparedChat[] };
  expect(cells.map((cell) => `${cell.scenario} ${cell.kind}`)).toEqual(
    ways.flatMap((way) => [`${way} whole`, `${way} stream`]),
  );
  for (const cell of cells) {
    expect(cell).toMatchObject({ concurrency: 4, failures: 0 });
    expect(cell.jobs).toBeGreaterThan(0);
    expect(cell.p50Ms).toBeGreaterThan(0);
    if (cell.scenario === 'gateway') expect(cell.cpuMsPerJob).toBeGreaterThan(0);
  }
  // All it made is in its temporary directory, which it removes.
  expect(await readdir(directory)).toEqual(['out.json']);
  await rm(directory, { recursive: true });
});
