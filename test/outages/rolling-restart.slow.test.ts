/**
 * Two APIs and two workers under load are replaced one after the other with SIGTERM, as in a
 * deployment: no ready API responds with 5xx, and no job is lost.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findViolations } from '../../ledger/invariants.ts';
import { createCalls } from '../faults/calls.ts';
import { startStack, type FaultStack } from '../faults/stack.ts';

/** Longer than the load balancer takes to notice that an API is not ready, also on a busy machine. */
const drainDelayMs = 5000;

describe('a rolling restart under load', () => {
  let stack: FaultStack;
  beforeAll(async () => {
    stack = await startStack({
      run: ['api', 'api2', 'worker', 'worker2'],
      env: { DRAIN_DELAY_MS: String(drainDelayMs) },
    });
  });
  afterAll(() => stack.close());

  it('loses no job and responds to every caller', async () => {
    const apis = ['api', 'api2'] as const;
    const ready = new Set<string>();
    const statuses = new Set<number | string>();
    const jobIds: string[] = [];
    const stopping = new AbortController();

    async function probe(part: (typeof apis)[number]): Promise<void> {
      while (!stopping.signal.aborted) {
        const url = stack.getUrl(part);
        const signal = AbortSignal.timeout(3000);
        const answer = await fetch(`${url}/readyz`, { signal }).catch(() => null);
        if (answer?.status === 200) ready.add(url);
        else ready.delete(url);
        await sleep(100);
      }
    }

    async function call(index: number): Promise<void> {
      const urls = [...ready];
      const url = urls[index % urls.length];
      if (url === undefined) {
        await sleep(20);
        return;
      }
      const slow = index % 10 === 0 ? '[[slow:2s]] ' : '';
      const body = { prompt: `${slow}a ferry ${randomUUID()}`, async: index % 2 === 0 };
      const path = '/api/v1/studio/image/generate';
      const answer = await createCalls(stack)
        .request(path, { body, base: url })
        .catch((error: Error) => {
          statuses.add(`${error.message}: ${String(error.cause)}`);
          return null;
        });
      if (answer === null) return;
      statuses.add(answer.status);
      if (answer.body.data.jobId) jobIds.push(answer.body.data.jobId);
      await sleep(750);
    }

    const probes = apis.map(probe);
    await expect.poll(() => ready.size).toBe(2);
    const callers = Array.from({ length: 6 }, async (_, caller) => {
      for (let index = caller; !stopping.signal.aborted; index += 1) await call(index);
    });
    for (const part of ['api', 'worker', 'api2', 'worker2'] as const) {
      expect(await stack.end(part)).toBe(0);
      await stack.start(part);
      await expect.poll(() => ready.size).toBe(2);
    }
    stopping.abort();
    await Promise.all([...callers, ...probes]);

    expect([...statuses].filter((status) => status !== 200 && status !== 202)).toEqual([]);
    expect(jobIds.length).toBeGreaterThan(20);
    const open = () => stack.query(`SELECT id FROM job WHERE status = 'open'`);
    await expect.poll(open).toEqual([]);
    const [ended] = await stack.query<{ known: number; completed: number }>(
      `SELECT count(*)::int AS known, count(*) FILTER (WHERE status = 'completed')::int AS completed
       FROM job WHERE id = ANY($1)`,
      [jobIds],
    );
    expect(ended).toEqual({ known: jobIds.length, completed: jobIds.length });
    expect((await findViolations(stack.databaseUrl, { scope: 'all' })).findings).toEqual([]);
  });
});
