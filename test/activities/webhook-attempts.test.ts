/** Attempts to deliver webhooks, and their rows in a real Postgres. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDeliveries } from '../../activities/deliver-webhook.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createMetrics } from '../../platform/metrics.ts';
import { createOutbound } from '../../platform/outbound.ts';
import { createAccountNotices } from '../../webhooks/notices.ts';
import { createSigningSecrets } from '../../webhooks/signing-secrets.ts';
import { createWebhooks, type AttemptResult, type Webhooks } from '../../webhooks/webhooks.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
let pool: DatabasePool;
let webhooks: Webhooks;
let organizationId: string;
beforeAll(async () => {
  database = await createTestDatabase();
  const logger = createLogger('test', 'silent');
  pool = await openDatabase({ url: database.url, poolMax: 4, logger });
  webhooks = createWebhooks(pool);
  ({ organizationId } = await createOrganization(pool, { name: 'w', windowLimitMicro: null }));
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

async function newWebhook() {
  const jobId = newId('job');
  await webhooks.createForJob({ jobId, organizationId, url: 'https://receiver.example/' });
  return { subjectId: jobId, organizationId };
}
const stateOf = async (name: { subjectId: string }) =>
  (await webhooks.find({ jobId: name.subjectId, organizationId }))?.state;
const failed: AttemptResult = {
  outcome: 'failed',
  status: 503,
  error: null,
  response: null,
  durationMs: 1,
  retryInMs: 1000,
};

describe('a delivery that an operator has stopped', () => {
  it('stays stopped if its running attempt fails', async () => {
    const name = await newWebhook();
    const begun = await webhooks.beginAttempt(name);
    await webhooks.stopDelivery(name.subjectId);
    await webhooks.endAttempt(name.subjectId, begun?.number ?? 0, failed);
    expect(await stateOf(name)).toBe('failed');
    expect(await webhooks.beginAttempt(name)).toBeNull();
  });

  it('is delivered if its running attempt succeeds', async () => {
    const name = await newWebhook();
    const begun = await webhooks.beginAttempt(name);
    await webhooks.stopDelivery(name.subjectId);
    const delivered = { ...failed, outcome: 'delivered', status: 200, retryInMs: null } as const;
    await webhooks.endAttempt(name.subjectId, begun?.number ?? 0, delivered);
    expect(await stateOf(name)).toBe('delivered');
  });
});

describe('an attempt whose message cannot be made', () => {
  it('is not counted, however often Temporal repeats it', async () => {
    const name = await newWebhook();
    const { attemptDelivery } = createDeliveries({
      webhooks,
      signingSecrets: createSigningSecrets(pool, 'a secret of thirty-two characters or more'),
      outbound: createOutbound({ admittedOrigins: [] }),
      readJob: () => Promise.reject(new Error('the storage is away')),
      showJob: () => Promise.reject(new Error('not called')),
      accountNotices: createAccountNotices(pool),
      telemetry: { metrics: createMetrics() },
      timeoutMs: 100,
      retryDelaysMs: [100],
    });
    for (const _ of [1, 2, 3]) {
      await expect(attemptDelivery(name)).rejects.toThrow('the storage is away');
    }
    expect(await webhooks.attempts(name.subjectId, 10)).toEqual([]);
    expect(await stateOf(name)).toBe('waiting');
  });
});
