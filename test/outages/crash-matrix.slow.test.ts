/**
 * A slice of the crash matrix (docs/faults.md), a different one every day: one column in which the
 * worker is killed, one with another process, four kinds each. `FAULT_DAY=<n>` repeats the slice of
 * a day. Pipelines and bulk jobs are killed on every day.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runBulkRound } from '../faults/bulk-round.ts';
import {
  audit,
  reaches,
  runColumn,
  setSandboxFaults,
  settle,
  victims,
  type Victim,
} from '../faults/cell.ts';
import { kinds } from '../faults/kinds.ts';
import { points, type Point } from '../faults/points.ts';
import { shuffle } from '../faults/shuffle.ts';
import { untilHolds } from '../harness/until.ts';
import { guardSettlements } from '../harness/settlement-guard.ts';
import { startStack, type FaultStack } from '../faults/stack.ts';

const day = Number(process.env['FAULT_DAY'] ?? Math.floor(Date.now() / 86_400_000));

/** Ten days cover every point of the worker, forty days every point of the other processes. */
function columnsOfDay(): { victim: Victim; point: Point }[] {
  const others = victims.filter((victim) => victim !== 'worker');
  const columns = others.flatMap((victim) => points.map((point) => ({ victim, point })));
  const rest = shuffle(columns, 1);
  const at = day % rest.length;
  const worker = { victim: 'worker' as const, point: points[day % points.length] ?? 'reserved' };
  return [worker, ...rest.slice(at, at + 1)];
}

let stack: FaultStack;
beforeAll(async () => {
  stack = await startStack();
  // No transaction may leave a charged job that is not completed, or a completed one not charged.
  await guardSettlements((text) => stack.query(text));
});
afterAll(() => stack.close());

describe(`day ${day}`, () => {
  it.each(columnsOfDay())(
    '$victim killed at $point loses no job and charges none twice',
    async ({ victim, point }) => {
      const possible = kinds.filter((kind) => reaches(kind, point));
      const chosen = shuffle(possible, day).slice(0, 4);
      const results = await runColumn(stack, { victim, point, kinds: chosen, downMs: 500 });
      expect(results.filter(({ verdict }) => verdict === 'violated')).toEqual([]);
      expect(results).toHaveLength(chosen.length);
    },
  );
});

describe('a pipeline', () => {
  const pipelines = kinds.filter(({ name }) => name === 'pipeline');

  it.each<Point>(['between-steps', 'before-submit', 'accepted', 'waiting'])(
    'whose worker is killed at %s pays for each delivered step once',
    async (point) => {
      const column = { victim: 'worker' as const, point, kinds: pipelines, downMs: 500 };
      expect(await runColumn(stack, column)).toMatchObject([
        { verdict: 'completed', violations: [] },
      ]);
    },
  );
});

it('pipelines await their decisions, and run once, although each process is killed', async () => {
  const headers = {
    authorization: `Bearer ${stack.caller.key}`,
    'content-type': 'application/json',
  };
  interface Job {
    jobId: string;
    done: boolean;
    awaiting: { step: string }[];
    billing: { state: string; charged: number; reserved: number };
    result: { steps: { status: string; credits: number }[] } | null;
  }
  const request = async (
    path: string,
    body?: object,
  ): Promise<{ status: number; data: Job | null }> => {
    const sent = body && { method: 'POST', body: JSON.stringify(body) };
    const answer = await fetch(`${stack.url}/api/v1/studio/${path}`, { headers, ...sent });
    const { data } = (await answer.json()) as { data?: Job };
    return { status: answer.status, data: data ?? null };
  };
  // Requests fail while a process is away.
  const patiently = (path: string, body?: object): Promise<Job> =>
    untilHolds(async () => {
      const { status, data } = await request(path, body).catch(() => ({ status: 0, data: null }));
      expect(status).toBeLessThan(300);
      expect(data).not.toBeNull();
      return data as Job;
    });
  const steps = [
    { id: 'art', use: 'image/generate', body: { prompt: 'a lamp', numImages: 2 } },
    {
      id: 'cut',
      use: 'image/remove-background',
      approve: true,
      body: { imageUrl: { $from: 'art', output: 'chosen' } },
    },
  ];
  const killed = ['temporal', 'worker', 'api'] as const;
  const jobs: string[] = [];
  // The last one waits while all processes are killed.
  for (const _ of [...killed, null]) {
    const { jobId } = await patiently('pipelines', { steps, async: true });
    jobs.push(jobId);
  }
  const read = (jobId: string): Promise<Job> => patiently(`jobs/${jobId}`);
  for (const jobId of jobs)
    await untilHolds(async () => expect((await read(jobId)).awaiting).toHaveLength(1));

  const approve = { decision: 'approve', outputs: { art: 1 } };
  for (const [index, victim] of killed.entries()) {
    const at = `jobs/${jobs[index]}/steps/cut/decision`;
    const sent = request(at, approve).catch(() => null);
    // The decision has left, and may have reached any of the processes.
    await sleep(10 * index);
    await stack.kill(victim);
    await sent;
    await stack.start(victim);
    await patiently(at, approve);
  }
  const last = jobs.at(-1) ?? '';
  expect(await read(last)).toMatchObject({ done: false, awaiting: [{ step: 'cut' }] });
  await patiently(`jobs/${last}/steps/cut/decision`, { decision: 'reject' });
  for (const jobId of jobs) {
    const job = await untilHolds(async () => {
      const current = await read(jobId);
      expect(current.done).toBe(true);
      return current;
    });
    const statuses = job.result?.steps.map(({ status }) => status);
    expect(statuses, jobId).toEqual(['completed', jobId === last ? 'skipped' : 'completed']);
    const sum = job.result?.steps.reduce((total, { credits }) => total + credits, 0);
    expect(job.billing).toMatchObject({ state: 'charged' });
    expect(job.billing.charged).toBeCloseTo(sum ?? 0, 6);
  }
  expect([...(await settle(stack)), ...(await audit(stack))]).toEqual([]);
});

it('a bulk job ends each item once within its budget, although each process is killed', async () => {
  const readEnded = async (): Promise<number> => {
    const [row] = await stack.query<{ ended: number }>(
      'SELECT count(*)::integer AS ended FROM bulk_item WHERE ended_at IS NOT NULL',
    );
    return row?.ended ?? 0;
  };
  await setSandboxFaults(stack, 'slow:700ms');
  // The budget pays for 35 of 40 pictures.
  const settings = { items: 40, concurrency: 4, maxCredits: 140, timeoutMs: 300_000 };
  const running = runBulkRound(stack, settings);
  for (const victim of ['worker', 'api', 'temporal', 'postgres'] as const) {
    const before = await readEnded();
    await expect.poll(readEnded, { timeout: 120_000 }).toBeGreaterThan(before + 1);
    await stack.kill(victim);
    await sleep(500);
    await stack.start(victim);
  }
  const { completed, failed, violations } = await running;
  await setSandboxFaults(stack, null);
  expect([...violations, ...(await settle(stack)), ...(await audit(stack))]).toEqual([]);
  expect(completed).toBeLessThanOrEqual(35);
  expect(completed + failed).toBeGreaterThanOrEqual(35);
});
