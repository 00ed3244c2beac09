import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

const start = async (prompt: string): Promise<string> => {
  const answer = await gateway.call('/api/v1/studio/image/generate', {
    body: { prompt, async: true },
  });
  return answer.body.data.jobId;
};

async function signalsOf(jobId: string): Promise<number> {
  const history = await gateway.api.client.workflow.getHandle(jobId).fetchHistory();
  return (history.events ?? []).filter((event) => event.workflowExecutionSignaledEventAttributes)
    .length;
}

async function notificationsOf(jobId: string) {
  return gateway.database.query<{ state: string; deliveries: number }>(
    'SELECT state, deliveries FROM provider_notification WHERE job_id = $1',
    [jobId],
  );
}

describe('a provider notification that', () => {
  it("is lost is replaced by the workflow's own poll; sent again later, it is recorded as late and changes nothing", async () => {
    const jobId = await start('[[no-webhook]] a silent forest');
    const done = await gateway.untilDone(jobId);
    expect(done.body.data.status).toBe('completed');
    expect(await notificationsOf(jobId)).toEqual([]);
    expect(await signalsOf(jobId)).toBe(0);
    const [submit] = await gateway.sandbox.submits({ jobId });
    await gateway.api.client.workflow.getHandle(jobId).result();
    await gateway.sandbox.resend(submit?.requestId ?? '', { signature: 'good' });
    expect(await notificationsOf(jobId)).toMatchObject([{ state: 'late' }]);
    const after = await gateway.call(`/api/v1/studio/jobs/${jobId}`);
    expect(after.body.data.billing).toEqual(done.body.data.billing);
  });

  it('arrives before the response to the submit completes the job', async () => {
    const jobId = await start('[[early-webhook]] a hasty forest');
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
  });

  it('arrives repeatedly is signaled once and charged once', async () => {
    const jobId = await start('[[dup-webhook:5]] an echoing forest');
    await gateway.untilDone(jobId);
    await expect
      .poll(async () => (await notificationsOf(jobId))[0]?.deliveries)
      .toBeGreaterThanOrEqual(5);
    expect(await signalsOf(jobId)).toBeLessThanOrEqual(1);
    const charges = await gateway.database.query(
      `SELECT 1 FROM ledger_entry WHERE reservation_id = $1 AND kind = 'charge'`,
      [jobId],
    );
    expect(charges).toHaveLength(1);
  });

  it('has an invalid signature is rejected, and the job completes by polling', async () => {
    const jobId = await start('[[bad-signature]] a forged forest');
    const done = await gateway.untilDone(jobId);
    expect(done.body.data.status).toBe('completed');
    expect(await notificationsOf(jobId)).toEqual([]);
  });
});

describe('the endpoint for provider notifications', () => {
  it('accepts a genuine notification that is sent again', async () => {
    const jobId = await start('[[slow:20s]] [[no-webhook]] a genuine forest');
    await expect.poll(() => gateway.sandbox.submits({ jobId })).toHaveLength(1);
    const [submit] = await gateway.sandbox.submits({ jobId });
    // The notification is genuine but early: the workflow polls, the work is unfinished, and it waits.
    await gateway.sandbox.resend(submit?.requestId ?? '', { signature: 'good' });
    await expect.poll(async () => (await notificationsOf(jobId))[0]?.state).toBe('delivered');
    const now = await gateway.call(`/api/v1/studio/jobs/${jobId}`);
    expect(now.body.data).toMatchObject({ done: false, billing: { state: 'reserved' } });
    await gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });
    const done = await gateway.untilDone(jobId);
    expect(done.body.data.status).toBe('canceled');
  });
});
