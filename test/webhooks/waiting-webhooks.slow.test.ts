/** Webhooks that wait for a paused or deleted endpoint, or behind those of other organizations. */
import { describe, expect, it } from 'vitest';
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { untilHolds } from '../harness/until.ts';
import { createEndpointCalls, path } from './endpoint-calls.ts';

const gateway = useGateway({ settled: 'last' });
const { at, create, change, listDeliveries } = createEndpointCalls(gateway);

describe('webhooks that wait', () => {
  const startPipeline = async ({ key }: TestCaller) => {
    const art = { id: 'art', use: 'image/generate', approve: true, body: { prompt: 'a tree' } };
    const cutOut = { use: 'image/remove-background', body: { imageUrl: { $from: 'art' } } };
    const steps = [art, { id: 'cut-out', approve: true, ...cutOut }];
    const started = await gateway.call('/api/v1/studio/pipelines', {
      key,
      body: { steps, async: true },
    });
    expect(started, JSON.stringify(started.body)).toMatchObject({ status: 202 });
    return started.body.data.jobId;
  };

  it('for a paused endpoint report the start of a job too, also while the job runs', async () => {
    const caller = await gateway.newCaller();
    const events = ['studio.job.started'];
    const { endpointId } = await create(caller, { url: at('/start'), events, paused: true });
    const jobId = await startPipeline(caller);
    await gateway.database.query(
      `UPDATE webhook SET created_at = created_at - interval '3 days' WHERE job_id = $1`,
      [jobId],
    );
    // The start is still to come, so its webhook is not deleted.
    await sweepOnce(gateway);
    const decision = `/api/v1/studio/jobs/${jobId}/steps/art/decision`;
    await untilHolds(async () =>
      expect(
        await gateway.call(decision, { key: caller.key, body: { decision: 'approve' } }),
      ).toMatchObject({ status: 200 }),
    );
    const delivery = `start_${jobId.slice(4)}.${endpointId}-webhook`;
    await untilHolds(() => gateway.api.client.workflow.getHandle(delivery).result());
    expect(gateway.receiver.received('/start')).toEqual([]);
    await change(endpointId, caller, { paused: false });
    await untilHolds(async () => {
      await sweepOnce(gateway);
      const { body: job } = await gateway.call(`/api/v1/studio/jobs/${jobId}`, {
        key: caller.key,
      });
      expect(job.data.done).toBe(false);
      expect(gateway.receiver.received('/start').map(({ body }) => body.type)).toEqual(events);
    });
    await gateway.cancel(jobId, caller.key);
  });

  it('are stopped if their endpoint is deleted before they are made, or paused for 7 days', async () => {
    const caller = await gateway.newCaller();
    const events = ['studio.job.awaiting_approval', 'studio.job.completed'];
    const deleted = await create(caller, { url: at('/gone'), events });
    const paused = await create(caller, { url: at('/asleep'), events, paused: true });
    const jobId = await startPipeline(caller);
    await gateway.receiver.untilReceived('/gone');
    await gateway.send(`${path}/${deleted.endpointId}`, { method: 'DELETE', key: caller.key });
    await gateway.send(`/api/v1/studio/jobs/${jobId}/steps/art/decision`, {
      key: caller.key,
      body: { decision: 'approve' },
    });
    await untilHolds(async () => expect(await listDeliveries(caller)).toHaveLength(6));
    const age = (days: number) =>
      gateway.database.query(
        `UPDATE webhook SET created_at = clock_timestamp() - $2 * interval '1 day' WHERE job_id = $1`,
        [jobId, days],
      );
    const states = async ({ endpointId }: WebhookEndpoint) => {
      const listed = await listDeliveries(caller, `?endpointId=${endpointId}`);
      return listed.map(({ event, state }) => `${event} ${state}`).toSorted();
    };
    await age(6);
    await sweepOnce(gateway);
    expect(await states(deleted)).toEqual([
      'awaiting_approval delivered',
      'awaiting_approval failed',
      'ended failed',
    ]);
    const waiting = ['awaiting_approval delivering', 'awaiting_approval delivering'];
    expect(await states(paused)).toEqual([...waiting, 'ended waiting']);
    await age(8);
    await sweepOnce(gateway);
    const stopped = ['awaiting_approval failed', 'awaiting_approval failed'];
    expect(await states(paused)).toEqual([...stopped, 'ended waiting']);
    await gateway.cancel(jobId, caller.key);
    await gateway.untilDone(jobId, caller.key);
  });

  it('of one organization leave room for those of others', async () => {
    const [many, one] = [await gateway.newCaller(), await gateway.newCaller()];
    const insert = ({ organizationId }: TestCaller, count: number) =>
      gateway.database.query(
        `INSERT INTO webhook (subject_id, organization_id, url, state, overdue_at, created_at)
         SELECT 'wait_' || md5($1 || n) || '_x', $1, 'https://shop.example/', 'delivering',
           clock_timestamp() - interval '1 hour', clock_timestamp() - $2 * interval '1 second'
         FROM generate_series(1, $2::int) AS n`,
        [organizationId, count],
      );
    await insert(many, 150);
    await insert(one, 1);
    const due = await gateway.api.services.webhooks.listOverdue();
    await gateway.database.query('DELETE FROM webhook WHERE organization_id IN ($1, $2)', [
      many.organizationId,
      one.organizationId,
    ]);
    expect(due).toHaveLength(100);
    expect(due.map(({ organizationId }) => organizationId)).toContain(one.organizationId);
  });
});
