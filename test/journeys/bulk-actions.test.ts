/** Bulk actions of operators: one recorded action on each chosen job, and the requests that start none. */
import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { operatorAction, useGateway, type TestCaller } from '../harness/gateway.ts';
import { until, untilHolds } from '../harness/until.ts';

interface Progress {
  bulkActionId: string;
  status: string;
  jobs: number;
  applicable: number;
  credits: number;
  waiting: number;
  done: number;
  rejected: number;
  rejections: { jobId: string; error: { code: string; message: string } }[];
}
interface Body {
  data: Progress;
  error: string;
  details: { path: string; message: string }[];
}

const gateway = useGateway();

const path = '/api/admin/v1/bulk-actions';
const send = (body: object, headers: Record<string, string> = {}) =>
  gateway.call<Body>(path, {
    key: gateway.config.ADMIN_API_KEY,
    headers,
    body: { ...operatorAction, ...body },
  });
async function start(body: object): Promise<string> {
  const answer = await send({ dryRun: false, ...body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(202);
  return answer.body.data.bulkActionId;
}
const read = async (id: string) => (await gateway.admin<Body>(`/bulk-actions/${id}`)).body.data;
const untilEnded = (id: string) =>
  until(async () => {
    const state = await read(id);
    return state.status === 'running' ? null : state;
  });
const run = async (body: object) => untilEnded(await start(body));
const actionsOn = (subject: string) =>
  gateway.database.query<{ action: string; actor: string; reason: string }>(
    `SELECT action, actor, reason, details->>'bulkActionId' AS "bulkActionId" FROM admin_action
     WHERE subject = $1 ORDER BY id`,
    [subject],
  );

/** Starts jobs of a new organization, on which the provider works until they are canceled. */
async function startJobs(count: number, prompt = '[[slow:900s]] a heron') {
  const caller = await gateway.newCaller({ credits: 1000 });
  const jobIds = await Promise.all(
    Array.from({ length: count }, () => gateway.startImage({ prompt }, caller.key)),
  );
  return { caller, jobIds, filter: { organizationId: caller.organizationId } };
}
const finish = (jobIds: string[], { key }: TestCaller) =>
  Promise.all(jobIds.map((jobId) => gateway.untilDone(jobId, key)));

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
    const list = await gateway.admin<{ data: Progress[] }>('/bulk-actions');
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
