/**
 * Random bulk jobs over the decisions of bulk.sql and the ledger: with random prices, failures,
 * rejections and lost runs of the workflow, no bulk job passes its budget and each item ends once.
 */
import { expect, it } from 'vitest';
import { sql } from 'slonik';
import { z } from 'zod';
import { asJson } from '../../domain/json.ts';
import { createLedger } from '../../ledger/ledger.ts';
import { createBulkReads } from '../../bulk/bulk-reads.ts';
import { createJobReads } from '../../studio/jobs/job-reads.ts';
import { command } from '../../platform/database.ts';
import { createCaller } from '../harness/callers.ts';
import { useDatabase } from '../harness/database.ts';

const database = useDatabase();

const state = z.object({
  status: z.string(),
  stopReason: z.string().nullable(),
  done: z.boolean(),
  items: z.array(z.looseObject({ index: z.number(), jobId: z.string() })),
});
type State = z.infer<typeof state>;

/** Creates random numbers that are the same in each run with the same seed. */
function createRandom(seed: number): () => number {
  let value = seed;
  return () => {
    value = (value * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return value / 2 ** 32;
  };
}

async function runBulk(seed: number): Promise<void> {
  const { pool } = database;
  const random = createRandom(seed);
  const draw = (max: number): number => 1 + Math.floor(random() * max);
  const caller = await createCaller(pool, 'pepper', { amountMicro: draw(400) });
  const { organizationId, keyId } = caller;
  const ledger = createLedger(pool);
  const bulkId = `bulk_${seed}_${organizationId}`;
  const prices = Array.from({ length: draw(16) }, () => draw(40));
  const estimated = prices.reduce((sum, price) => sum + price, 0);
  const budget = Math.max(prices[0] ?? 1, draw(300));
  await pool.query(command`INSERT INTO bulk (id, organization_id, key_id, request_id, status,
      concurrency, max_credits, total, waiting, estimated, waiting_price)
    VALUES (${bulkId}, ${organizationId}, ${keyId}, 'req', 'in_progress', ${draw(4)}, ${budget},
      ${prices.length}, ${prices.length}, ${estimated}, ${estimated})`);
  await pool.query(command`INSERT INTO bulk_item (bulk_id, index, type, request, price)
    SELECT ${bulkId}, ordinality - 1, 'imageGenerate', '{"prompt": "a pier"}', price
    FROM unnest(${sql.array(prices, 'int8')}) WITH ORDINALITY AS p (price, ordinality)`);
  const reads = createBulkReads(pool, createJobReads(pool));
  const seen = new Map<string, string>();
  let cursor = 0;
  const live = new Set<string>();
  const reserved = new Map<string, number>();
  let rejected: string[] = [];
  /** Jobs that were rejected, of which no run of the workflow knows. */
  const unheard = new Set<string>();
  const ended = new Map<string, number>();

  /** Returns the started items without a job that no run awaits, as lost-starts.ts finds them. */
  async function findLost(): Promise<string[]> {
    const started = await database.query<{ job_id: string }>(
      `SELECT i.job_id FROM bulk_item i WHERE i.bulk_id = $1 AND i.state = 'running'
        AND i.claimed_at < clock_timestamp() - interval '10 seconds'
        AND NOT EXISTS (SELECT FROM job j WHERE j.id = i.job_id)`,
      [bulkId],
    );
    return started.map(({ job_id: jobId }) => jobId).filter((jobId) => !live.has(jobId));
  }

  async function advance(): Promise<State> {
    const lost = Object.groupBy(await findLost(), (jobId) =>
      unheard.has(jobId) ? 'rejected' : 'missing',
    );
    rejected.push(...(lost.rejected ?? []));
    const input = { bulkId, missing: lost.missing ?? [], rejected, lost: [], itemsMax: 8 };
    rejected = [];
    const row = z.object({ state });
    return pool.oneFirst(sql.type(row)`SELECT bulk_advance(${sql.jsonb(input)}) AS state`);
  }

  /** Reads the results after the cursor, as a caller does: each end of an item is new. */
  async function readResults(): Promise<void> {
    const bulk = await reads.read(organizationId, bulkId);
    if (!bulk) throw new Error('the bulk job exists');
    for await (const portion of reads.results(bulk, cursor)) {
      for (const { item } of portion) {
        const end = `${item.index} ${item.round}`;
        expect(seen.has(end), `seed ${seed}`).toBe(false);
        seen.set(end, item.state);
        cursor = item.end_number ?? 0;
      }
    }
  }

  /** Starts a job as its workflow does: the ledger reserves its price or rejects it. */
  async function reserve(jobId: string, amountMicro: number): Promise<void> {
    const job = { keyId, type: 'imageGenerate', model: null, provider: 'fal', requestId: 'req' };
    const result = await ledger.reserve({
      organizationId,
      id: jobId,
      kind: 'studio',
      amountMicro,
      ttlMs: 60_000,
      job: { ...job, deadlineAt: new Date().toISOString(), request: {} },
    });
    if (result.verdict === 'reserved') reserved.set(jobId, amountMicro);
    else if (live.delete(jobId)) rejected.push(jobId);
    else unheard.add(jobId);
  }

  async function start({ items }: State): Promise<void> {
    const planned = items.map(({ index, jobId }) => ({
      index,
      jobId,
      // A price may have changed since the acceptance.
      price: random() < 0.2 ? draw(60) : (prices[index] ?? 1),
    }));
    const failures = planned
      .filter(() => random() < 0.1)
      .map(({ index }) => ({ index, error: { code: 'INVALID_INPUT_URL', message: 'gone' } }));
    const failed = new Set(failures.map(({ index }) => index));
    const starts = planned.filter(({ index }) => !failed.has(index));
    const row = z.object({ started: z.array(z.number()) });
    const input = sql.jsonb({ bulkId, starts, failures });
    const started = await pool.oneFirst(
      sql.type(row)`SELECT bulk_start_items(${input}) AS started`,
    );
    // A run that is lost here has started none of its jobs, or all without hearing of them.
    const lost = random();
    if (lost < 0.1) return;
    for (const { index, jobId, price } of starts) {
      if (!started.includes(index)) continue;
      if (lost > 0.2) live.add(jobId);
      await reserve(jobId, price);
    }
  }

  async function endOne(): Promise<void> {
    const [jobId] = [...reserved.keys()].toSorted(() => random() - 0.5);
    if (jobId === undefined) return;
    const price = reserved.get(jobId) ?? 0;
    reserved.delete(jobId);
    live.delete(jobId);
    const isCharged = random() < 0.7;
    const amountMicro = isCharged ? draw(price) : 0;
    ended.set(jobId, amountMicro);
    const error = { code: 'PROVIDER_ERROR' as const, message: 'failed' };
    await ledger.settle({
      organizationId,
      id: jobId,
      to: isCharged ? 'charged' : 'released',
      amountMicro,
      reason: 'test',
      job: isCharged
        ? { status: 'completed', outputs: [], error: null, artifacts: [] }
        : { status: 'failed', outputs: null, error, artifacts: [] },
    });
  }

  for (let steps = 0; steps < 400; steps += 1) {
    const current = await advance();
    const [row] = await database.query<{ over: boolean }>(
      `SELECT charged + reserved > max_credits AS over FROM bulk WHERE id = $1`,
      [bulkId],
    );
    expect(row?.over, `seed ${seed}`).toBe(false);
    if (current.done) break;
    if (current.status === 'paused') {
      await ledger.grant({
        organizationId,
        id: `more-${steps}`,
        amountMicro: 50,
        actor: 't',
        reason: 't',
      });
    }
    await start(current);
    if (random() < 0.15) live.clear();
    const age = `UPDATE bulk_item SET claimed_at = claimed_at - interval '1 minute' WHERE bulk_id = $1`;
    if (random() < 0.3) await database.query(age, [bulkId]);
    for (let ends = draw(3); ends > 0; ends -= 1) await endOne();
    if (random() < 0.3) await readResults();
    const retry = { bulkId, organizationId, command: 'retry', bulksMax: 5, itemsMax: 20_000 };
    if (steps < 100 && random() < 0.1)
      await pool.query(command`SELECT bulk_command(${sql.jsonb(retry)})`);
    const cancel = { bulkId, organizationId, command: 'cancel' };
    if (random() < 0.02) await pool.query(command`SELECT bulk_command(${sql.jsonb(cancel)})`);
    if (steps > 300) await database.query(age, [bulkId]);
  }
  const [bulk] = await database.query<{ charged: string; completed_at: Date | null }>(
    `SELECT charged, completed_at FROM bulk WHERE id = $1`,
    [bulkId],
  );
  expect(bulk?.completed_at, `seed ${seed}`).not.toBeNull();
  await readResults();
  const items = await database.query<{ end: string; state: string }>(
    `SELECT index || ' ' || round AS end, state FROM bulk_item WHERE bulk_id = $1 AND ended_at IS NOT NULL`,
    [bulkId],
  );
  for (const item of items) expect(seen.get(item.end), `seed ${seed}`).toBe(item.state);
  const charged = [...ended.values()].reduce((sum, amount) => sum + amount, 0);
  expect(Number(bulk?.charged), `seed ${seed}`).toBe(charged);
  expect(charged, `seed ${seed}`).toBeLessThanOrEqual(budget);
  const [counts] = await database.query(
    `SELECT count(DISTINCT job_id)::int = count(job_id)::int AS once,
      (count(*) FILTER (WHERE state = 'running'))::int AS running FROM bulk_item WHERE bulk_id = $1`,
    [bulkId],
  );
  expect(counts, `seed ${seed}`).toEqual({ once: true, running: 0 });
}

it('200 random bulk jobs never pass their budget, and each item ends once', async () => {
  for (let seed = 1; seed <= 200; seed += 1) await runBulk(seed);
  expect(await database.audit()).toEqual([]);
}, 1_800_000);

/** Creates a bulk job with `concurrency` 1. Its items wait, and each costs 5 millionths of a credit. */
async function createBulk(name: string, items: number) {
  const { pool } = database;
  const { organizationId, keyId } = await createCaller(pool, 'pepper', { amountMicro: 1 });
  const bulkId = `bulk_${name}_${organizationId}`;
  const price = 5 * items;
  await pool.query(command`INSERT INTO bulk (id, organization_id, key_id, request_id, status,
      concurrency, max_credits, total, waiting, estimated, waiting_price)
    VALUES (${bulkId}, ${organizationId}, ${keyId}, 'req', 'in_progress', 1, 10, ${items}, ${items}, ${price}, ${price})`);
  await pool.query(command`INSERT INTO bulk_item (bulk_id, index, type, request, price)
    SELECT ${bulkId}, n, 'imageGenerate', '{}', 5 FROM generate_series(0, ${items - 1}) AS n`);
  return { bulkId, organizationId };
}

/** Calls a function of bulk.sql. */
function callBulk(name: 'advance' | 'command' | 'start_items', input: object) {
  const result = z.object({ result: z.unknown() });
  const functionName = sql.identifier([`bulk_${name}`]);
  return database.pool.oneFirst(
    sql.type(result)`SELECT ${functionName}(${sql.jsonb(asJson(input))}) AS result`,
  );
}

const starts = [{ index: 0, jobId: 'job_rejected', price: 5 }];

it('an item whose reservation is rejected after the cancellation of its bulk job is canceled', async () => {
  const { bulkId, organizationId } = await createBulk('canceled', 1);
  expect(await callBulk('start_items', { bulkId, starts, failures: [] })).toEqual([0]);
  await callBulk('command', { bulkId, organizationId, command: 'cancel' });
  const rejected = starts.map(({ jobId }) => jobId);
  expect(await callBulk('advance', { bulkId, live: [], rejected, itemsMax: 8 })).toMatchObject({
    status: 'canceled',
    done: true,
    waiting: 0,
    running: 0,
    canceled: 1,
  });
});

it.each(['pause', 'cancel'])(
  'an item that was planned before %s does not start',
  async (commandName) => {
    const { bulkId, organizationId } = await createBulk(commandName, 1);
    await callBulk('command', { bulkId, organizationId, command: commandName });
    expect(await callBulk('start_items', { bulkId, starts, failures: [] })).toEqual([]);
  },
);

it('each of many results is read once', async () => {
  const { bulkId, organizationId } = await createBulk('many', 130);
  const failures = Array.from({ length: 130 }, (_, index) => ({ index, error: null }));
  await callBulk('start_items', { bulkId, starts: [], failures });
  const reads = createBulkReads(database.pool, createJobReads(database.pool));
  const bulk = await reads.read(organizationId, bulkId);
  const read: number[] = [];
  for await (const portion of bulk ? reads.results(bulk, 0) : [])
    read.push(...portion.map(({ item }) => item.index));
  expect(read).toEqual(failures.map(({ index }) => index));
});
