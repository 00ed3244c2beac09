/** Bulk actions of operators: one recorded action on each chosen job, and the requests that start none. */
import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { operatorAction, useGateway } from '../harness/gateway.ts';
import { useBulkActions, type BulkActionProgress } from './bulk-action-requests.ts';
import { untilHolds } from '../harness/until.ts';

const gateway = useGateway();

const { send, untilEnded, run, actionsOn, startJobs, finish } = useBulkActions(gateway);

describe('a bulk action', () => {
  it('is a dry run by default; then it cancels and records each job, once per Idempotency-Key', async () => {
    const { caller, jobIds, filter } = await startJobs(3);
    await Promise.all(jobIds.map(gateway.untilAccepted));
    const tried = await send({ action: 'cancel', filter });
    expect([tried.status, tried.body.data]).toMatchObject([
      200,
      { dryRun: true, jobs: 3, applicable: 3, credits: 11.7, sample: jobIds.toSorted() },
    ]);
    expect(
      (await gateway.call(`/api/v1/studio/jobs/${jobIds[0]}`, { key: caller.key })).body.data.done,
    ).toBe(false);
    const body = { action: 'cancel', filter, dryRun: false };
    const answers = await Promise.all(
      [1, 2].map(() => send(body, { 'idempotency-key': 'a-bulk-action' })),
    );
    const [id = '', other] = answers.map((answer) => answer.body.data.bulkActionId);
    expect(other).toBe(id);
    const reused = await send(
      { ...body, filter: { status: 'open' } },
      { 'idempotency-key': 'a-bulk-action' },
    );
    expect([reused.status, reused.body.error]).toEqual([422, 'IDEMPOTENCY_KEY_REUSED']);
    expect(await untilEnded(id)).toMatchObject({
      status: 'completed',
      jobs: 3,
      credits: 11.7,
      waiting: 0,
      done: 3,
      rejected: 0,
      ...operatorAction,
    });
    for (const {
      body: { data },
    } of await finish(jobIds, caller))
      expect(data).toMatchObject({ status: 'canceled', billing: { state: 'released' } });
    for (const jobId of jobIds)
      expect(await actionsOn(jobId)).toEqual([
        { action: 'job.cancel_requested', ...operatorAction, bulkActionId: id },
      ]);
    expect(await actionsOn(id)).toMatchObject([{ action: 'bulk_action.started' }]);
    const list = await gateway.admin<{ data: BulkActionProgress[] }>('/bulk-actions');
    expect(list.body.data[0]).toMatchObject({ bulkActionId: id, status: 'completed' });
    // The search attribute is set at the end.
    const { status, typedSearchAttributes } = await gateway.getWorkflow(id).describe();
    expect([status.name, JSON.stringify(typedSearchAttributes)]).toEqual([
      'COMPLETED',
      expect.stringContaining('completed'),
    ]);
  });

  it('goes on behind jobs that reject it, and beside a single action on the same job', async () => {
    const { caller, jobIds } = await startJobs(2);
    const [done = ''] = (await startJobs(1, 'a heron')).jobIds;
    await untilHolds(async () =>
      expect(
        (await gateway.database.query(`SELECT status FROM job WHERE id = $1`, [done]))[0],
      ).toEqual({ status: 'completed' }),
    );
    const unknown = newId('job');
    const choice = { jobIds: [...jobIds, done, unknown] };
    expect((await send({ action: 'cancel', filter: choice })).body.data).toMatchObject({
      jobs: 4,
      applicable: 2,
    });
    const [ended] = await Promise.all([
      run({ action: 'cancel', filter: choice }),
      gateway.admin(`/jobs/${jobIds[0]}/cancel`, {}),
    ]);
    await finish(jobIds, caller);
    expect(ended.status).toBe('completed');
    expect(ended.rejections).toContainEqual({
      jobId: done,
      error: expect.objectContaining({ code: 'JOB_ALREADY_DONE' }),
    });
    expect(ended.rejections).toContainEqual({
      jobId: unknown,
      error: expect.objectContaining({ code: 'JOB_NOT_FOUND' }),
    });
    // The raced job was canceled by one of the two, or by both.
    expect(ended.done).toBeGreaterThanOrEqual(1);
    expect(ended.done + ended.rejected).toBe(4);
    for (const jobId of jobIds)
      expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'release']);
  });

  it.each([
    [{ action: 'cancel', filter: {} }, 'filter'],
    [{ action: 'explode', filter: { status: 'open' } }, 'action'],
    [{ action: 'cancel', filter: { status: 'lost' } }, 'filter.status'],
    [{ action: 'cancel', filter: { jobIds: [] } }, 'filter.jobIds'],
    [{ action: 'cancel', filter: { jobIds: ['x'] } }, 'filter.jobIds.0'],
    [{ action: 'cancel', filter: { status: 'open' }, release: true }, 'release'],
    [{ action: 'cancel', filter: { status: 'open' }, perSecond: 0 }, 'perSecond'],
    [{ action: 'refund', filter: { status: 'completed' }, jobsMax: 1 }, 'jobsMax'],
    [{ action: 'refund', filter: { status: 'completed' }, jobsMax: 1, dryRun: false }, 'jobsMax'],
    [{ action: 'cancel', filter: { status: 'open' }, reason: ' ' }, 'reason'],
  ])('rejects %j and starts nothing', async (body, where) => {
    const count = async () => (await gateway.database.query(`SELECT id FROM bulk_action`)).length;
    if (where === 'jobsMax') {
      const { caller, jobIds } = await startJobs(2, 'a charged heron');
      await finish(jobIds, caller);
    }
    const before = await count();
    const answer = await send(body);
    expect([answer.status, answer.body.details[0]?.path]).toEqual([400, where]);
    expect(await count()).toBe(before);
  });
});
