/** Passes that one worker runs at a time. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { runAlone } from '../../platform/background.ts';
import { createLogger } from '../../platform/logger.ts';
import { startDayCloser } from '../../worker/daily-passes.ts';
import { useDatabase } from '../harness/database.ts';

const database = useDatabase();
const logger = createLogger('test', 'silent');
const { signal } = new AbortController();
const alone = (name: string) => ({ databaseUrl: database.url, name, signal });

it('two workers never sum up days at the same time, and the second one continues after the first', async () => {
  let running = 0;
  let most = 0;
  const counts = [0, 0];
  const start = (worker: number) =>
    startDayCloser({
      databaseUrl: database.url,
      logger,
      intervalMs: 1,
      usageSums: {
        async closeDays() {
          counts[worker] = (counts[worker] ?? 0) + 1;
          running += 1;
          most = Math.max(most, running);
          await delay(5);
          running -= 1;
          return 0;
        },
      },
    });
  const stops = [start(0), start(1)];
  await expect.poll(() => Math.max(...counts)).toBeGreaterThan(5);
  await stops[0]?.();
  const before = counts[1] ?? 0;
  await expect.poll(() => counts[1]).toBeGreaterThan(before);
  await stops[1]?.();
  expect(most).toBe(1);
});

it('a pass of another name runs meanwhile, one of the same name does not', async () => {
  const ran: boolean[] = [];
  const held = await runAlone(alone('one'), async () => {
    ran.push(await runAlone(alone('one'), () => Promise.resolve()));
    ran.push(await runAlone(alone('two'), () => Promise.resolve()));
  });
  expect([held, ...ran]).toEqual([true, false, true]);
  await expect(runAlone(alone('one'), () => Promise.reject(new Error('failed')))).rejects.toThrow(
    'failed',
  );
  expect(await runAlone(alone('one'), () => Promise.resolve())).toBe(true);
});

it('a pass whose connection is lost is aborted, and its lock is free', async () => {
  await runAlone(alone('lost'), async (lost) => {
    const aborted = new Promise((resolve) => lost.addEventListener('abort', resolve));
    await database.query(
      `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()`,
    );
    await aborted;
    expect(await runAlone(alone('lost'), () => Promise.resolve())).toBe(true);
  });
});
