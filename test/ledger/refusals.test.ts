/** What is told before a job is started is what the ledger says of its reservation. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createLedger, type Ledger } from '../../activities/ledger/ledger.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
let pool: DatabasePool;
let ledger: Ledger;
beforeAll(async () => {
  database = await createTestDatabase();
  const logger = createLogger('test', 'silent');
  pool = await openDatabase({ url: database.url, poolMax: 4, logger });
  ledger = createLedger(pool);
});
afterEach(async () => expect(await database.audit()).toEqual([]));
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const grant = (organizationId: string, amountMicro: number, id = 'g') =>
  ledger.grant({ organizationId, id, amountMicro, actor: 'test', reason: 'test' });

async function organization(amountMicro: number, windowLimitMicro: number | null = null) {
  const { organizationId } = await createOrganization(pool, { name: 'seer', windowLimitMicro });
  await grant(organizationId, amountMicro);
  return organizationId;
}

const reserve = (organizationId: string, amountMicro: number) =>
  ledger.reserve({ organizationId, id: newId('job'), kind: 'studio', amountMicro, ttlMs: 60_000 });

const refusalOf = (organizationId: string, priceMicro: number, jobId = newId('job')) =>
  ledger.refusalOf({ organizationId, keyId: 'none', jobId, priceMicro });

describe('the refusal of a job that is not started yet', () => {
  it('is the same that its reservation meets, and reserves nothing', async () => {
    const organizationId = await organization(10);
    const refusal = await refusalOf(organizationId, 11);
    expect(refusal).toMatchObject({ balance: { reserved: 0 } });
    expect(refusal).toEqual(await reserve(organizationId, 11));
    expect(await refusalOf(organizationId, 10)).toBeNull();
  });

  it('is none for a job that has reserved', async () => {
    const organizationId = await organization(10);
    const id = newId('job');
    const reservation = {
      organizationId,
      id,
      kind: 'studio',
      amountMicro: 10,
      ttlMs: 60_000,
    } as const;
    await ledger.reserve(reservation);
    expect(await refusalOf(organizationId, 10, id)).toBeNull();
    expect(await refusalOf(organizationId, 10)).toMatchObject({ verdict: 'insufficient_credits' });
  });

  it('for want of credits ends with a grant', async () => {
    const organizationId = await organization(10);
    expect(await refusalOf(organizationId, 10)).toBeNull();
    await reserve(organizationId, 4);
    expect(await refusalOf(organizationId, 7)).toEqual({
      verdict: 'insufficient_credits',
      required: 7,
      balance: { posted: 10, reserved: 4, available: 6 },
    });
    await grant(organizationId, 1, 'more');
    expect(await refusalOf(organizationId, 7)).toBeNull();
  });

  it('by the window says when it ends as the ledger does, and ends with it', async () => {
    const organizationId = await organization(1000, 10);
    // More than any window allows is refused before one is open.
    expect(await refusalOf(organizationId, 11)).toEqual(await reserve(organizationId, 11));
    await reserve(organizationId, 8);
    expect(await refusalOf(organizationId, 2)).toBeNull();
    const known = await refusalOf(organizationId, 3);
    const told = await reserve(organizationId, 3);
    expect(known).toEqual({ ...told, now: expect.any(String) });
    expect(told.verdict).toBe('window_exhausted');
    for (const table of ['account', 'reservation']) {
      await database.query(
        `UPDATE ${table} SET window_started_at = window_started_at - interval '6 hours 1 second'
         WHERE organization_id = $1`,
        [organizationId],
      );
    }
    expect(await refusalOf(organizationId, 3)).toBeNull();
    expect(await reserve(organizationId, 3)).toMatchObject({ verdict: 'reserved' });
  });
});
