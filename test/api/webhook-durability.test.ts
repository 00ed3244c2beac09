/**
 * A provider does not repeat a notification after a 200 response, so the gateway stores it first.
 * When storing fails, the response is 5xx or missing, and the provider sends the notification
 * again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
let other: Client;
let jobId: string;
let requestId: string;
beforeAll(async () => {
  other = new Client({ connectionString: gateway.database.url });
  await other.connect();
});
beforeEach(async () => {
  const answer = await gateway.call('/api/v1/studio/image/generate', {
    body: { prompt: '[[no-webhook]] [[slow:900ms]] a remembered forest', async: true },
  });
  ({ jobId } = answer.body.data);
  await expect.poll(() => gateway.sandbox.submits({ jobId })).toHaveLength(1);
  const [submit] = await gateway.sandbox.submits({ jobId });
  requestId = submit?.requestId ?? '';
});
afterEach(async () => {
  await gateway.untilDone(jobId);
});
afterAll(async () => {
  await other.end();
});

const stored = () =>
  other
    .query('SELECT state FROM provider_notification WHERE job_id = $1', [jobId])
    .then(({ rows }) => rows);

describe('a notification with a 200 response', () => {
  it('is stored before the response', async () => {
    expect((await gateway.sandbox.resend(requestId, {})).status).toBe(200);
    expect(await stored()).toHaveLength(1);
  });

  it('gets no response while it cannot be stored', async () => {
    await other.query('BEGIN');
    await other.query('LOCK TABLE provider_notification IN ACCESS EXCLUSIVE MODE');
    let status = 0;
    const sending = gateway.sandbox.resend(requestId, {}).then((answer) => {
      ({ status } = answer);
      return answer;
    });
    await sleep(300);
    expect(status).not.toBe(200);
    await other.query('ROLLBACK');
    expect((await sending).status).toBe(200);
    expect(await stored()).toHaveLength(1);
  });
});

describe('a notification that cannot be stored', () => {
  it.each([
    [
      'its table is away',
      'RENAME TO notification_away',
      'notification_away RENAME TO provider_notification',
    ],
    [
      'Postgres refuses the row',
      'ADD CONSTRAINT nothing CHECK (false) NOT VALID',
      'provider_notification DROP CONSTRAINT nothing',
    ],
  ])('gets a 5xx response: %s', async (_why, breaking, mending) => {
    await other.query(`ALTER TABLE provider_notification ${breaking}`);
    try {
      const { status } = await gateway.sandbox.resend(requestId, {});
      expect(status).toBeGreaterThanOrEqual(500);
    } finally {
      await other.query(`ALTER TABLE ${mending}`);
    }
    expect(await stored()).toEqual([]);
    expect((await gateway.sandbox.resend(requestId, {})).status).toBe(200);
    expect(await stored()).toHaveLength(1);
  });
});
