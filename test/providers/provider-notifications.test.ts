/**
 * Notifications of providers. A provider does not repeat a notification after a 200 response, so
 * the gateway stores it first. When storing fails, the response is 5xx or missing.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { beforeEach, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

const start = (prompt: string) => gateway.startImage({ prompt });
const readNotifications = (jobId: string) => gateway.database.notifications(jobId);

async function countSignals(jobId: string): Promise<number> {
  const events = await gateway.events(jobId);
  return events.filter((event) => event.workflowExecutionSignaledEventAttributes).length;
}

describe('a provider notification that', () => {
  it("is lost is replaced by the workflow's own poll; sent again later, it is recorded as late and changes nothing", async () => {
    const jobId = await start('[[no-webhook]] a silent forest');
    const done = await gateway.untilDone(jobId);
    expect(done.body.data.status).toBe('completed');
    expect(await readNotifications(jobId)).toEqual([]);
    expect(await countSignals(jobId)).toBe(0);
    const { requestId } = await gateway.untilAccepted(jobId);
    await gateway.getWorkflow(jobId).result();
    await gateway.sandbox.resend(requestId, { signature: 'good' });
    expect(await readNotifications(jobId)).toMatchObject([{ state: 'late' }]);
    const after = await gateway.call(`/api/v1/studio/jobs/${jobId}`);
    expect(after.body.data.billing).toEqual(done.body.data.billing);
  });

  it('arrives before the response to the submit completes the job', async () => {
    const done = await gateway.untilDone(await start('[[early-webhook]] a hasty forest'));
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
  });

  it('arrives before the work is finished is accepted, and the job waits on', async () => {
    const jobId = await start('[[slow:20s]] [[no-webhook]] a genuine forest');
    const { requestId } = await gateway.untilAccepted(jobId);
    await gateway.sandbox.resend(requestId, { signature: 'good' });
    await expect.poll(() => readNotifications(jobId)).toMatchObject([{ state: 'delivered' }]);
    const now = await gateway.call(`/api/v1/studio/jobs/${jobId}`);
    expect(now.body.data).toMatchObject({ done: false, billing: { state: 'reserved' } });
    await gateway.cancel(jobId);
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('canceled');
  });
});

describe('a notification that cannot be stored', () => {
  let other: Client;
  let jobId: string;
  let requestId: string;
  beforeEach(async () => {
    other = new Client({ connectionString: gateway.database.url });
    await other.connect();
    jobId = await start('[[no-webhook]] [[slow:900ms]] a remembered forest');
    ({ requestId } = await gateway.untilAccepted(jobId));
    return async () => {
      await other.end();
      await gateway.untilDone(jobId);
    };
  });

  it('gets no response until it is stored', async () => {
    await other.query('BEGIN');
    await other.query('LOCK TABLE provider_notification IN ACCESS EXCLUSIVE MODE');
    const response = gateway.sandbox.resend(requestId, {});
    expect(await Promise.race([response, sleep(300, 'none')])).toBe('none');
    await other.query('ROLLBACK');
    expect((await response).status).toBe(200);
    expect(await readNotifications(jobId)).toHaveLength(1);
  });

  it('gets a 5xx response while its table is away', async () => {
    await other.query('ALTER TABLE provider_notification RENAME TO notification_away');
    try {
      const { status } = await gateway.sandbox.resend(requestId, {});
      expect(status).toBeGreaterThanOrEqual(500);
    } finally {
      await other.query('ALTER TABLE notification_away RENAME TO provider_notification');
    }
    expect(await readNotifications(jobId)).toEqual([]);
    expect((await gateway.sandbox.resend(requestId, {})).status).toBe(200);
    expect(await readNotifications(jobId)).toHaveLength(1);
  });
});
