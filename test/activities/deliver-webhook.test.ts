/** Attempts to deliver webhooks, and their rows in a real Postgres. */
import type { Client } from '@temporalio/client';
import { beforeAll, describe, expect, it } from 'vitest';
import { createDeliveries } from '../../activities/deliver-webhook.ts';
import { newId } from '../../domain/ids.ts';
import { createLogger } from '../../platform/logger.ts';
import { createMetrics } from '../../platform/metrics.ts';
import { createOutbound } from '../../platform/outbound.ts';
import { createAccountNotices } from '../../webhooks/notices.ts';
import { createWebhookRelay } from '../../webhooks/relay.ts';
import { createSigningSecrets } from '../../webhooks/signing-secrets.ts';
import { createWebhooks, type AttemptResult, type Webhooks } from '../../webhooks/webhooks.ts';
import { createCaller } from '../harness/callers.ts';
import { useDatabase } from '../harness/database.ts';

const database = useDatabase();
const secret = 'a secret of thirty-two characters or more';
let webhooks: Webhooks;
let organizationId: string;
beforeAll(async () => {
  webhooks = createWebhooks(database.pool);
  ({ organizationId } = await createCaller(database.pool, secret));
});

async function newWebhook() {
  const jobId = newId('job');
  const url = 'https://receiver.example/';
  await webhooks.createForJob({ jobId, organizationId }, { url, events: undefined });
  return { jobId, subjectId: jobId, organizationId };
}
const readState = async (name: { subjectId: string }) =>
  (await webhooks.findAll({ jobId: name.subjectId, organizationId }))[0]?.state;
const failed: AttemptResult = {
  outcome: 'failed',
  status: 503,
  error: null,
  response: null,
  durationMs: 1,
  retryInMs: 1000,
};
const delivered = { ...failed, outcome: 'delivered', status: 200, retryInMs: null } as const;

describe('a delivery that an operator has stopped', () => {
  it.each([
    ['stays stopped if its running attempt fails', failed, 'failed'],
    ['is delivered if its running attempt succeeds', delivered, 'delivered'],
  ] as const)('%s', async (_title, result, state) => {
    const name = await newWebhook();
    const begun = await webhooks.beginAttempt(name);
    await webhooks.stopDelivery(name.subjectId);
    await webhooks.endAttempt(name.subjectId, begun?.number ?? 0, result);
    expect(await readState(name)).toBe(state);
    expect(await webhooks.beginAttempt(name)).toBeNull();
  });
});

it('an attempt that ends after a newer one has begun does not change the state of its webhook', async () => {
  const name = await newWebhook();
  const begun = await webhooks.beginAttempt(name);
  await webhooks.beginAttempt(name);
  await webhooks.endAttempt(name.subjectId, begun?.number ?? 0, { ...failed, retryInMs: null });
  expect(await readState(name)).toBe('delivering');
});

it('a redelivery that is requested during the last attempt survives the failure of this attempt', async () => {
  const name = await newWebhook();
  const begun = await webhooks.beginAttempt(name);
  const withDeadline = () => Promise.reject(new Error('Temporal is away'));
  const client = { withDeadline } as unknown as Client;
  const logger = createLogger('test', 'silent');
  await createWebhookRelay({ client, webhooks, logger, taskQueuePrefix: '' }).redeliver(name);
  await webhooks.endAttempt(name.subjectId, begun?.number ?? 0, { ...failed, retryInMs: null });
  expect(await webhooks.beginAttempt(name)).toMatchObject({ number: 2, failures: 0 });
});

it.each([
  [47, 'waiting'],
  [49, undefined],
])('a webhook whose job has not started after %i hours is %s', async (hours, state) => {
  const name = await newWebhook();
  const update = `UPDATE webhook SET created_at = now() - interval '${hours} hours' WHERE subject_id = $1`;
  await database.query(update, [name.subjectId]);
  await webhooks.deleteUndeliverable();
  expect(await readState(name)).toBe(state);
});

it('an attempt whose message cannot be made is not counted, however often Temporal repeats it', async () => {
  const name = await newWebhook();
  const { attemptDelivery } = createDeliveries({
    webhooks,
    signingSecrets: createSigningSecrets(database.pool, secret),
    outbound: createOutbound({ admittedOrigins: [] }),
    readJob: () => Promise.reject(new Error('the storage is away')),
    showJob: () => Promise.reject(new Error('not called')),
    accountNotices: createAccountNotices(database.pool),
    readBulkEvent: () => Promise.reject(new Error('not called')),
    telemetry: { metrics: createMetrics() },
    timeoutMs: 100,
    retryDelaysMs: [100],
  });
  for (const _ of [1, 2, 3]) {
    await expect(attemptDelivery(name)).rejects.toThrow('the storage is away');
  }
  expect(await webhooks.attempts(name.subjectId, 10)).toEqual([]);
  expect(await readState(name)).toBe('waiting');
});
