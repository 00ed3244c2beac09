/**
 * A provider forgets a notification once it is answered 200: until then it must be stored. Whatever keeps
 * it from being stored is answered 5xx, or not at all, and the provider sends it again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway();
let other: Client;
let jobId: string;
let requestId: string;
beforeAll(async () => {
  other = new Client({ connectionString: gateway.database.url });
  await other.connect();
});
beforeEach(async () => {
  const answer = await gateway.call('/api/v1/studio/image/generate', {
    body: { prompt: '[[no-webhook]] [[slow:1500ms]] a remembered forest', async: true },
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

describe('a notification that is answered 200', () => {
  it('is stored when its answer comes', async () => {
    expect((await gateway.sandbox.resend(requestId, {})).status).toBe(200);
    expect(await stored()).toHaveLength(1);
  });

  it('was not answered before it could be stored', async () => {
    await other.query('BEGIN');
    await other.query('LOCK TABLE provider_notification IN ACCESS EXCLUSIVE MODE');
    let status = 0;
    const sending = gateway.sandbox.resend(requestId, {}).then((answer) => {
      ({ status } = answer);
      return answer;
    });
    await sleep(800);
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
  ])('is answered 5xx: %s', async (_why, breaking, mending) => {
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
