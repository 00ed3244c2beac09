/** Records of provider calls: an accepted call is never sent again, also after late writes. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCallRecords, type CallRecords } from '../../providers/call-records.ts';
import { createLedger } from '../../ledger/ledger.ts';
import { createReadCalls } from '../../jobs/records/job-calls.ts';
import type { CallOutputs } from '../../jobs/job-plan.ts';
import { createKey } from '../../api/identity/keys.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
let pool: DatabasePool;
let records: CallRecords;
let organizationId: string;
let keyId: string;
beforeAll(async () => {
  database = await createTestDatabase();
  pool = await openDatabase({
    url: database.url,
    poolMax: 4,
    logger: createLogger('test', 'silent'),
  });
  records = createCallRecords(pool);
  const made = await createOrganization(pool, { name: 'calls', windowLimitMicro: null });
  ({ organizationId } = made);
  const pepper = 'a pepper that is only used in this very test';
  ({ keyId } = await createKey(pool, pepper, { ...made, name: 'test' }));
  const grant = { id: 'g', amountMicro: 1000, actor: 'test', reason: 'test' };
  await createLedger(pool).grant({ organizationId, ...grant });
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const operation = { id: 'op-1', providerEndpoint: 'fal-ai/x' } as never;
const outputs: CallOutputs = { callIndex: 0, artifacts: [], data: null, delivered: 1, error: null };
const refusal = { message: 'refused (401)', providerRequestId: 'req_refused' };
const route = { routeIndex: 0, provider: 'fal', providerEndpoint: 'fal-ai/x' };

async function begun(sender: { senderId?: string } = {}) {
  const jobId = newId('job');
  await createLedger(pool).reserve({
    organizationId,
    id: jobId,
    kind: 'studio',
    amountMicro: 1,
    ttlMs: 60_000,
    job: {
      keyId,
      type: 'imageGenerate',
      model: null,
      provider: 'fal',
      requestId: 'req',
      deadlineAt: new Date(Date.now() + 60_000).toISOString(),
      request: {},
    },
  });
  const call = { jobId, callIndex: 0 };
  expect(await records.begin({ ...call, ...route, ...sender })).toEqual({ verdict: 'send' });
  return call;
}

describe('a call', () => {
  it('may be sent again after a refusal', async () => {
    const call = await begun();
    await records.markRefused(call, refusal);
    await records.markRefused(call, refusal);
    expect(await records.begin({ ...call, ...route })).toEqual({ verdict: 'send' });
    const [row] = await createReadCalls(pool)(call.jobId);
    expect(row).toMatchObject({
      attempts: 2,
      providerRequestId: null,
      refusals: [{ ...refusal, routeIndex: 0, provider: 'fal' }],
    });
  });

  it('is sent again only by the attempt whose begin received no response', async () => {
    const call = await begun({ senderId: 'one' });
    expect(await records.begin({ ...call, ...route, senderId: 'two' })).toMatchObject({
      verdict: 'begun',
    });
    expect(await records.begin({ ...call, ...route })).toMatchObject({ verdict: 'begun' });
    expect(await records.begin({ ...call, ...route, senderId: 'one' })).toEqual({
      verdict: 'send',
    });
    await records.markUnknown(call, null);
    expect(await records.begin({ ...call, ...route, senderId: 'one' })).toMatchObject({
      verdict: 'unknown',
    });
  });

  it('that a provider accepted is not refused by a late attempt', async () => {
    const call = await begun();
    await records.markAccepted({ ...call, operation });
    await records.markRefused(call, refusal);
    const again = await records.begin({ ...call, ...route });
    expect(again).toMatchObject({ verdict: 'accepted', operation });
  });

  it('that a notification has named stays accepted if its submit fails later', async () => {
    const call = await begun();
    await records.markAccepted({ ...call, operation });
    await records.markUnknown(call, null);
    const again = await records.begin({ ...call, ...route });
    expect(again).toMatchObject({ verdict: 'accepted', operation });
  });

  it('with outputs can become neither refused nor accepted nor unknown', async () => {
    const call = await begun();
    await records.markAccepted({ ...call, operation });
    await records.markAnswered({ ...call, outputs });
    await records.markRefused(call, refusal);
    await records.markUnknown(call, null);
    await records.markAccepted({ ...call, operation });
    await records.recordProgress({ ...call, progress: { state: 'generating', queuePosition: 1 } });
    const again = await records.begin({ ...call, ...route });
    expect(again).toMatchObject({ verdict: 'answered', outputs });
  });

  it('is not refused if refusal and acceptance are in one batch', async () => {
    const call = await begun();
    await Promise.all([
      records.markAccepted({ ...call, operation }),
      records.markRefused(call, refusal),
    ]);
    expect(await records.begin({ ...call, ...route })).toMatchObject({ verdict: 'accepted' });
  });

  it('that was refused becomes accepted if the provider reports it later', async () => {
    const call = await begun();
    await records.markRefused(call, refusal);
    await records.markAccepted({ ...call, operation });
    expect(await records.begin({ ...call, ...route })).toMatchObject({ verdict: 'accepted' });
  });
});
