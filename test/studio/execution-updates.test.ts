/**
 * Updates of executions come from Postgres alone, whichever process reserved, rejected, settled or
 * ended them.
 */
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createBulkReads } from '../../bulk/bulk-reads.ts';
import { createJobReads } from '../../studio/jobs/job-reads.ts';
import { createLedger, type Ledger, type Reservation } from '../../ledger/ledger.ts';
import { createWaits, openUpdates, type Change, type Updates } from '../../executions/updates.ts';
import { newId } from '../../domain/ids.ts';
import { createLogger } from '../../platform/logger.ts';
import { createCaller } from '../harness/callers.ts';
import { useDatabase } from '../harness/database.ts';
import { until } from '../harness/until.ts';

const logger = createLogger('test', 'silent');
const database = useDatabase();
let ledger: Ledger;
beforeAll(() => {
  ledger = createLedger(database.pool);
});
const listening = `FROM pg_stat_activity
  WHERE query LIKE 'LISTEN%' AND datname = current_database()`;

/** Opens updates as another gateway process does, and collects all changes. */
async function listen(): Promise<{ updates: Updates; changes: Change[] }> {
  const reads = createJobReads(database.pool);
  const updates = await openUpdates({
    config: { DATABASE_URL: database.url },
    pool: database.pool,
    kinds: [reads, createBulkReads(database.pool, reads)],
    logger,
  });
  onTestFinished(() => updates.close());
  const changes: Change[] = [];
  updates.watch((change) => changes.push(change));
  return { updates, changes };
}

/** Creates an organization with 10 micro-credits, and returns a reservation that it could make. */
async function newJob(amountMicro: number): Promise<Reservation> {
  const pepper = 'a pepper of this test alone';
  const { organizationId, keyId } = await createCaller(database.pool, pepper, { amountMicro: 10 });
  const job = {
    keyId,
    type: 'imageGenerate',
    model: null,
    provider: 'fal',
    requestId: 'req_test',
    deadlineAt: new Date(Date.now() + 60_000).toISOString(),
    request: {},
  };
  return { organizationId, id: newId('job'), kind: 'studio', amountMicro, ttlMs: 60_000, job };
}

const release = (job: Reservation) => {
  const error = { code: 'PROVIDER_ERROR', message: 'test' } as const;
  return ledger.settle({
    organizationId: job.organizationId,
    id: job.id,
    to: 'released',
    amountMicro: 0,
    reason: error.code,
    job: { status: 'failed', outputs: null, error, artifacts: [] },
  });
};

/** Timeout for an event that never arrives. */
const hangMs = 30_000;

it('a wait for a bulk job reads its end from the row when the notification is lost', async () => {
  const { updates } = await listen();
  const { organizationId, keyId } = await createCaller(database.pool, 'a pepper', {
    amountMicro: 0,
  });
  const id = newId('bulk');
  await database.query(
    `INSERT INTO bulk (id, organization_id, key_id, request_id, status, concurrency)
      VALUES ($1, $2, $3, 'req_test', 'in_progress', 1)`,
    [id, organizationId, keyId],
  );
  const { read } = createBulkReads(database.pool, createJobReads(database.pool));
  const waits = createWaits(updates, { read, isEnded: (bulk) => bulk.completedAtMs !== null });
  const wait = waits.awaitEnd({ organizationId, id }, hangMs);
  await database.query(
    `UPDATE bulk SET status = 'canceled', completed_at = clock_timestamp() WHERE id = $1`,
    [id],
  );
  const startedAt = performance.now();
  expect(await wait).toMatchObject({ id, status: 'canceled' });
  expect(performance.now() - startedAt).toBeLessThan(hangMs / 2);
});

describe('the updates of a job', () => {
  it('are its reservation and its end, each once, even before a subscription', async () => {
    const { updates, changes } = await listen();
    const job = await newJob(4);
    const subscription = updates.subscribe(job.id);
    await ledger.reserve(job);
    await ledger.reserve(job);
    await release(job);
    expect(await subscription.next(hangMs)).toMatchObject({ event: 'reserved' });
    expect(await subscription.next(hangMs)).toMatchObject({ event: 'done' });
    const change = { organizationId: job.organizationId, id: job.id };
    expect(changes).toEqual([change, change]);
  });

  it('are no longer awaited when the response has closed', async () => {
    const { updates } = await listen();
    const job = await newJob(4);
    await ledger.reserve(job);
    const { read } = createJobReads(database.pool);
    const waits = createWaits(updates, { read, isEnded: ({ status }) => status !== 'open' });
    const closed = new AbortController();
    const { organizationId, id } = job;
    const wait = waits.awaitEnd({ organizationId, id, signal: closed.signal }, hangMs);
    const startedAt = performance.now();
    setTimeout(() => closed.abort(), 200);
    expect(await wait).toMatchObject({ status: 'open' });
    expect(performance.now() - startedAt).toBeLessThan(hangMs / 2);
    await release(job);
  });

  it("contain the full rejection, which is sent to the job's own subscriber only", async () => {
    const { updates, changes } = await listen();
    const job = await newJob(11);
    const subscription = updates.subscribe(job.id);
    const rejection = await ledger.reserve(job);
    expect(rejection.verdict).toBe('insufficient_credits');
    expect(await subscription.next(hangMs)).toMatchObject({ event: 'rejected', rejection });
    expect(changes).toEqual([]);
  });

  it('are read from the row after a lost connection, and received again afterwards', async () => {
    const { updates, changes } = await listen();
    const [lost, later] = [await newJob(4), await newJob(4)];
    const subscription = updates.subscribe(lost.id);
    await database.query(`SELECT pg_terminate_backend(pid) ${listening}`);
    await until(() => changes.includes('interrupted'));
    await ledger.reserve(lost);
    await release(lost);
    expect(await subscription.next(hangMs)).toMatchObject({ event: 'done' });
    await until(async () => (await database.query(`SELECT pid ${listening}`)).length > 0);
    const laterSubscription = updates.subscribe(later.id);
    await ledger.reserve(later);
    expect(await laterSubscription.next(hangMs)).toMatchObject({ event: 'reserved' });
  });
});
