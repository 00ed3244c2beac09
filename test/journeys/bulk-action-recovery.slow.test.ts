/** Bulk actions of operators end also when the worker is killed, the workflow is lost, or jobs reject them. */
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { useOwnGateway } from '../harness/gateway.ts';
import { useBulkActions, type BulkActionBody } from './bulk-action-requests.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { until } from '../harness/until.ts';

const gateway = useOwnGateway({ worker: false }, 'last');
let worker: Awaited<ReturnType<typeof gateway.spawn>>;
beforeAll(async () => {
  worker = await gateway.spawn('worker');
});

const { send, start, read, untilEnded, run, actionsOn, startJobs, finish } =
  useBulkActions(gateway);

describe('a bulk action', () => {
  it('refunds what is charged, once', async () => {
    const { caller, jobIds, filter } = await startJobs(2, 'a blurred heron');
    await finish(jobIds, caller);
    await gateway.operate(`/jobs/${jobIds[0]}/refunds`, { id: 'a-part', credits: 0.9 });
    expect((await send({ action: 'refund', filter })).body.data).toMatchObject({
      jobs: 2,
      credits: 6.9,
    });
    await run({ action: 'refund', filter });
    expect(await run({ action: 'refund', filter })).toMatchObject({ status: 'completed', jobs: 0 });
    const again = await run({ action: 'refund', filter: { jobIds } });
    expect(again.rejections.map(({ error }) => error.code)).toEqual([
      'JOB_NOT_REFUNDABLE',
      'JOB_NOT_REFUNDABLE',
    ]);
    const { body } = await gateway.call<{ credits: number }>('/api/v1/usage', { key: caller.key });
    expect(body.credits).toBe(1000);
  });

  it('redelivers the webhooks that were not delivered', async () => {
    let isUp = false;
    const webhookUrl = gateway.receiver.at('/outage', (response) =>
      response.writeHead(isUp ? 200 : 410).end(),
    );
    const caller = await gateway.newCaller();
    const jobId = await gateway.startImage({ prompt: 'a heron', webhookUrl }, caller.key);
    const state = async () =>
      (await gateway.admin<{ data: { state: string } }>(`/jobs/${jobId}/webhook`)).body.data.state;
    await expect.poll(state).toBe('gone');
    isUp = true;
    expect(
      await run({ action: 'redeliver', filter: { organizationId: caller.organizationId } }),
    ).toMatchObject({ done: 1 });
    await expect.poll(state).toBe('delivered');
  });

  it('resettles jobs without a workflow, and rejects those whose workflow runs', async () => {
    const { caller, jobIds, filter } = await startJobs(3);
    await Promise.all(jobIds.map(gateway.untilAccepted));
    const [running = '', ...lost] = jobIds;
    for (const jobId of lost) await gateway.getWorkflow(jobId).terminate('a test');
    const ended = await run({ action: 'resettle', filter });
    expect(ended).toMatchObject({
      done: 2,
      rejections: [{ jobId: running, error: { code: 'JOB_RUNNING' } }],
    });
    expect(await run({ action: 'reverify', filter })).toMatchObject({ done: 3 });
    await run({ action: 'cancel', filter });
    await finish(jobIds, caller);
  });

  it('survives kill -9 of the worker, and acts on each job once', async () => {
    const { caller, jobIds, filter } = await startJobs(8, 'a spared heron');
    await finish(jobIds, caller);
    const id = await start({ action: 'refund', filter, perSecond: 2 });
    await until(async () => (await read(id)).done >= 2);
    worker.child.kill('SIGKILL');
    worker = await gateway.spawn('worker');
    expect(await untilEnded(id)).toMatchObject({ status: 'completed', done: 8, rejected: 0 });
    for (const jobId of jobIds) {
      expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'charge', 'refund']);
      expect(await actionsOn(jobId)).toHaveLength(1);
    }
  });

  it.each(['by an operator', 'in Temporal'])(
    'canceled %s leaves the other jobs alone',
    async (how) => {
      const { caller, jobIds, filter } = await startJobs(6, 'a kept heron');
      await finish(jobIds, caller);
      const id = await start({ action: 'refund', filter, perSecond: 1 });
      await until(async () => (await read(id)).done >= 1);
      if (how === 'in Temporal') await gateway.getWorkflow(id).cancel();
      else await gateway.operate(`/bulk-actions/${id}/cancel`, {});
      const ended = await untilEnded(id);
      expect(ended.status).toBe('canceled');
      expect(ended.waiting).toBeGreaterThan(0);
      const canceled = await gateway.admin<BulkActionBody>(`/bulk-actions/${id}/cancel`, {});
      expect([canceled.status, canceled.body.data.status]).toEqual([200, 'canceled']);
    },
  );

  it('without a workflow is started by the sweeper; one whose workflow was terminated is canceled', async () => {
    const { caller, jobIds, filter } = await startJobs(3, 'a lost heron');
    await finish(jobIds, caller);
    const terminated = await start({ action: 'refund', filter, perSecond: 1 });
    await gateway.getWorkflow(terminated).terminate('a test');
    const missing = newId('actionRun');
    await gateway.database.query(
      `WITH lost AS (INSERT INTO bulk_action (id, action, request, actor, reason, request_id)
         VALUES ($1, 'refund', '{"perSecond": 5}', 'olga', 'ticket 7', 'req_1') RETURNING id)
       INSERT INTO bulk_action_job (bulk_action_id, job_id, credits) SELECT id, $2, 0 FROM lost`,
      [missing, jobIds[2]],
    );
    await gateway.database.query(
      `UPDATE bulk_action SET created_at = now() - interval '1 hour' WHERE status = 'running'`,
    );
    await sweepOnce(gateway);
    expect((await untilEnded(terminated)).status).toBe('canceled');
    expect((await untilEnded(missing)).status).toBe('completed');
  });
});
