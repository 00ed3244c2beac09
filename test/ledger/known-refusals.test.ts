/** What is known of a reservation is what the ledger says of it. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createKnownRefusals, type KnownRefusals } from '../../activities/ledger/known-refusals.ts';
import { createLedger, type Ledger } from '../../activities/ledger/ledger.ts';
import { createOrganization } from '../../api/identity/accounts.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
let pool: DatabasePool;
let ledger: Ledger;
let refusals: KnownRefusals;
beforeAll(async () => {
  database = await createTestDatabase();
  const logger = createLogger('test', 'silent');
  pool = await openDatabase({ url: database.url, poolMax: 4, logger });
  ledger = createLedger(pool);
  refusals = createKnownRefusals(pool);
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

describe('a known refusal', () => {
  it('is looked for only when the organization was refused', async () => {
    const organizationId = await organization(10);
    expect(await refusals.find({ organizationId, keyId: 'none', priceMicro: 11 })).toBeNull();
    refusals.note(organizationId);
    expect(await refusals.find({ organizationId, keyId: 'none', priceMicro: 11 })).toEqual(
      await reserve(organizationId, 11),
    );
  });

  it('for want of credits ends with a grant', async () => {
    const organizationId = await organization(10);
    refusals.note(organizationId);
    expect(await refusals.find({ organizationId, keyId: 'none', priceMicro: 10 })).toBeNull();
    await reserve(organizationId, 4);
    expect(await refusals.find({ organizationId, keyId: 'none', priceMicro: 7 })).toEqual({
      verdict: 'insufficient_credits',
      required: 7,
      balance: { posted: 10, reserved: 4, available: 6 },
    });
    await grant(organizationId, 1, 'more');
    expect(await refusals.find({ organizationId, keyId: 'none', priceMicro: 7 })).toBeNull();
  });

  it('by the window says when it ends as the ledger does, and ends with it', async () => {
    const organizationId = await organization(1000, 10);
    refusals.note(organizationId);
    // More than any window allows is refused before one is open.
    expect(await refusals.find({ organizationId, keyId: 'none', priceMicro: 11 })).toEqual(
      await reserve(organizationId, 11),
    );
    await reserve(organizationId, 8);
    expect(await refusals.find({ organizationId, keyId: 'none', priceMicro: 2 })).toBeNull();
    const known = await refusals.find({ organizationId, keyId: 'none', priceMicro: 3 });
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
    expect(await refusals.find({ organizationId, keyId: 'none', priceMicro: 3 })).toBeNull();
    expect(await reserve(organizationId, 3)).toMatchObject({ verdict: 'reserved' });
  });
});
