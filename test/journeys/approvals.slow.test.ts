/** Steps of pipelines that wait for an approval: POST …/jobs/:jobId/steps/:stepId/decision. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { uploadFile } from '../harness/uploads.ts';
import { until } from '../harness/until.ts';
import { respondsWith202 } from '../../studio/capabilities/capability.ts';
import { pipelines } from '../../studio/pipelines/pipeline-requests.ts';
import { art, createApprovals, film, path, type Job } from './approval-jobs.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

const { call, read, decide, startWaiting, untilEnded } = createApprovals(gateway);

describe('a step with approve', () => {
  it('waits with its files and prices, and runs with the chosen output', async () => {
    const estimate = await call(`${path}/estimate`, { body: { steps: [art, film] } });
    expect(estimate.body.data).toMatchObject({ creditsBeforeApproval: 11.7 });
    const job = await startWaiting();
    expect(job).toMatchObject({ status: 'in_progress', done: false, progress: null });
    const [waiting] = job.awaiting;
    expect(waiting).toMatchObject({ step: 'film', takes: [{ step: 'art' }] });
    expect(waiting?.credits).toBeCloseTo(job.billing.reserved - 11.7, 6);
    const outputs = waiting?.takes[0]?.outputs ?? [];
    expect(outputs.map(({ output }) => output)).toEqual([0, 1, 2]);
    const lengthMs = Date.parse(waiting?.until ?? '') - Date.parse(waiting?.since ?? '');
    expect(lengthMs).toBe(86_400_000);
    // The deadline of the job moves by the time for the decision.
    expect(Date.parse(job.deadlineAt)).toBeGreaterThan(Date.parse(waiting?.until ?? ''));
    const list = await gateway.call<{ data: Job[] }>(
      '/api/v1/studio/jobs?phase=awaiting_approval&status=in_progress',
    );
    expect(list.body.data.map(({ jobId }) => jobId)).toContain(job.jobId);
    const count = await gateway.call<{ data: { count: number } }>(
      '/api/v1/studio/jobs/count?phase=awaiting_approval',
    );
    expect(count.body.data.count).toBe(list.body.data.length);

    // Operators see whom the job waits for, and no stuck job.
    const stuck = await gateway.admin<{ data: { id: string }[] }>('/stuck?olderThanSeconds=0');
    expect(stuck.body.data.map(({ id }) => id)).not.toContain(job.jobId);
    const { body: explained } = await gateway.admin<{ data: { why: string; callerWhy: string } }>(
      `/jobs/${job.jobId}`,
    );
    expect(explained.data.why).toContain('waits for a decision of the caller about the step film');
    expect(explained.data.callerWhy).toMatch(
      /^film: waits for your decision until .* UTC\. 163\.4/,
    );
    const progress = await gateway.getWorkflow(job.jobId).query<{ calls: object[] }>('progress');
    expect(progress.calls[1]).toMatchObject({
      step: 'film',
      phase: `awaiting approval until ${waiting?.until}: ${gateway.url}/console/jobs/${job.jobId}`,
    });

    const body = { decision: 'approve', outputs: { art: 2 } };
    const decided = await decide(job.jobId, body);
    expect(decided.status, JSON.stringify(decided.body)).toBe(200);
    expect(decided.body.data).toMatchObject({ jobId: job.jobId, awaiting: [] });
    expect(decided.headers.get('Idempotent-Replayed')).toBeNull();
    const ended = await untilEnded(job.jobId);
    expect(ended, JSON.stringify(ended)).toMatchObject({ status: 'completed', awaiting: [] });
    expect(ended.billing.charged).toBeCloseTo(job.billing.reserved, 6);
    const [film0] = (await gateway.sandbox.submits({ jobId: job.jobId })).filter(({ endpoint }) =>
      endpoint.includes('seedance'),
    );
    const [key] = /\/[^/]+\.png/.exec(new URL(outputs[2]?.url ?? '').pathname) ?? [];
    expect(JSON.stringify(film0?.body)).toContain(key);
    // The same decision is the same afterwards, and another one is not.
    const again = await decide(job.jobId, body);
    expect(again).toMatchObject({
      status: 200,
      body: { data: { jobId: job.jobId, awaiting: [] } },
    });
    expect(again.headers.get('Idempotent-Replayed')).toBe('true');
    const other = await decide(job.jobId, { decision: 'reject' });
    expect(other).toMatchObject({ status: 409, body: { error: 'ALREADY_DECIDED' } });
  });

  it('is skipped with all that follow it when it is rejected; the rest is released', async () => {
    const big = { id: 'big', use: 'video/upscale', body: { videoUrl: { $from: 'film' } } };
    const job = await startWaiting([art, film, big]);
    const answer = await decide(job.jobId, { decision: 'reject', reason: 'too dark' });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    const ended = await untilEnded(job.jobId);
    expect(ended).toMatchObject({ status: 'completed', result: { skipped: 2 } });
    expect(ended.result?.steps).toMatchObject([
      { status: 'completed', credits: 11.7 },
      { status: 'skipped', error: { code: 'APPROVAL_REJECTED' } },
      { status: 'skipped', error: { code: 'SKIPPED' } },
    ]);
    expect(ended.result?.steps[1]?.error?.message).toContain('too dark');
    expect(ended.billing).toMatchObject({ state: 'charged', charged: 11.7 });

    // A resumed pipeline waits again, and needs the index of an output that exists.
    const resume = `/api/v1/studio/jobs/${job.jobId}/resume`;
    const unnamed = await call(resume, { body: { async: true } });
    expect(unnamed.status).toBe(400);
    expect(unnamed.body.message).toMatch(/^steps.1.body.imageUrl.output: must be the index/);
    const named = { film: { ...film.body, imageUrl: { $from: 'art', output: 1 } } };
    const again = await call(resume, { body: { async: true, bodies: named } });
    expect(again.status, JSON.stringify(again.body)).toBe(202);
    const { jobId } = again.body.data;
    await until(async () => (await read(jobId)).phase === 'awaiting_approval');
    await gateway.cancel(jobId);
    expect(await untilEnded(jobId)).toMatchObject({ status: 'canceled' });
  });

  it('is canceled with its job while it waits, and pays for what was delivered', async () => {
    const job = await startWaiting();
    await gateway.cancel(job.jobId);
    const ended = await untilEnded(job.jobId);
    expect(ended.billing).toMatchObject({ state: 'charged', charged: 11.7 });
    const late = await decide(job.jobId, { decision: 'reject' });
    expect(late).toMatchObject({ status: 409, body: { error: 'NOT_AWAITING' } });
  });

  it.each([
    ['before the workflow knows that', false, { code: 'APPROVAL_REJECTED' }],
    ['also if its job is canceled at that moment', true, { code: 'CANCELED' }],
  ])('is decided as soon as its row waits, %s', async (_when, isCanceled, error) => {
    const slow = { ...art, body: { prompt: '[[slow:2s]] a lighthouse' } };
    const steps = [slow, { ...film, body: { ...film.body, imageUrl: { $from: 'art' } } }];
    const started = await call(path, { body: { steps, async: true } });
    const { jobId } = started.body.data;
    const untilEvent = (
      name:
        | 'workflowExecutionUpdateAcceptedEventAttributes'
        | 'workflowExecutionCancelRequestedEventAttributes',
    ) => until(async () => (await gateway.events(jobId)).some((event) => event[name]));
    const other = new Client({ connectionString: gateway.database.url });
    await other.connect();
    let early: ReturnType<typeof decide> | undefined;
    try {
      // The step is recorded as waiting, and its webhooks are not yet.
      await other.query('BEGIN; LOCK TABLE webhook IN EXCLUSIVE MODE');
      await until(async () => (await read(jobId)).awaiting.length > 0);
      early = decide(jobId, { decision: 'reject' });
      await untilEvent('workflowExecutionUpdateAcceptedEventAttributes');
      if (isCanceled) {
        await gateway.cancel(jobId);
        await untilEvent('workflowExecutionCancelRequestedEventAttributes');
        // The workflow task of the cancellation.
        await sleep(1000);
      }
    } finally {
      await other.query('ROLLBACK');
      await other.end();
    }
    expect(await early).toMatchObject({ status: 200 });
    const [, waited] = (await untilEnded(jobId)).result?.steps ?? [];
    expect(waited).toMatchObject({ error });
  });

  it('counts one of twenty racing decisions', async () => {
    const job = await startWaiting();
    const decisions = Array.from({ length: 20 }, (_, index) =>
      index % 2 === 0
        ? { decision: 'approve', outputs: { art: index % 3 } }
        : { decision: 'reject', reason: `reason ${index}` },
    );
    const answers = await Promise.all(
      decisions.map((decision) =>
        until(async () => {
          const answer = await decide(job.jobId, decision);
          // A busy gateway asks for the same decision again.
          return answer.status === 503 ? null : { ...answer, decision };
        }),
      ),
    );
    const counted = answers.filter(({ status }) => status === 200);
    expect(new Set(counted.map(({ decision }) => JSON.stringify(decision))).size).toBe(1);
    const first = counted.filter(({ headers }) => !headers.has('Idempotent-Replayed'));
    expect(first.length).toBeLessThanOrEqual(1);
    const others = answers.filter(({ status }) => status !== 200);
    expect(new Set(others.map(({ body }) => body.error))).toEqual(new Set(['ALREADY_DECIDED']));
    const ended = await untilEnded(job.jobId);
    const films = (await gateway.sandbox.submits({ jobId: job.jobId })).filter(({ endpoint }) =>
      endpoint.includes('seedance'),
    );
    const isApproved = ended.result?.skipped === 0;
    expect(films, JSON.stringify(ended)).toHaveLength(isApproved ? 1 : 0);
    expect(ended.billing.charged).toBeCloseTo(isApproved ? job.billing.reserved : 11.7, 6);
  });
});

describe('a file of the caller that a waiting step takes', () => {
  it('is kept while the step waits, however long no request has used it', async () => {
    const { fileId } = await uploadFile(gateway, await drawDisc(64, 64));
    const body = { prompt: 'a lamp', imageUrls: [fileId] };
    const job = await startWaiting([{ id: 'film', use: 'image/edit', approve: true, body }]);
    const moveJob = (by: string) =>
      gateway.database.query(
        'UPDATE reservation SET created_at = created_at + $2::interval WHERE id = $1',
        [job.jobId, by],
      );
    const sweepLater = async () => {
      await gateway.database.query(
        "UPDATE upload SET used_at = used_at - interval '60 days' WHERE id = $1",
        [fileId],
      );
      await moveJob('-60 days');
      await sweepOnce(gateway);
      await moveJob('60 days');
      return gateway.database.query('SELECT id FROM upload WHERE id = $1', [fileId]);
    };
    expect(await sweepLater()).toHaveLength(1);
    expect((await decide(job.jobId, { decision: 'approve' })).status).toBe(200);
    expect(await untilEnded(job.jobId)).toMatchObject({ status: 'completed' });
    expect(await sweepLater()).toHaveLength(0);
  });

  it('that was deleted keeps the step waiting, until a decision names another one', async () => {
    const picture = await drawDisc(64, 64);
    const [deleted, other] = [
      await uploadFile(gateway, picture),
      await uploadFile(gateway, picture),
    ];
    const body = { prompt: 'a lamp', imageUrls: [deleted.fileId] };
    const job = await startWaiting([{ id: 'film', use: 'image/edit', approve: true, body }]);
    await gateway.send(`/api/v1/storage/files/${deleted.fileId}`, { method: 'DELETE' });
    const answer = await decide(job.jobId, { decision: 'approve' });
    expect(answer, JSON.stringify(answer.body)).toMatchObject({
      status: 410,
      body: { error: 'MEDIA_DELETED', details: [{ path: 'steps.film' }] },
    });
    const changed = { imageUrls: [other.fileId] };
    const again = await decide(job.jobId, { decision: 'approve', body: changed });
    expect(again.status, JSON.stringify(again.body)).toBe(200);
    expect(await untilEnded(job.jobId)).toMatchObject({ status: 'completed' });
  });

  it('belongs to an earlier job that was deleted, and keeps the step waiting', async () => {
    const imageUrl = { $from: 'art' };
    const cut = { id: 'film', use: 'image/remove-background', approve: true, body: { imageUrl } };
    const first = await startWaiting([{ ...art, body: { prompt: 'a lighthouse' } }, cut]);
    expect((await decide(first.jobId, { decision: 'reject' })).status).toBe(200);
    await untilEnded(first.jobId);
    const resumed = await call(`/api/v1/studio/jobs/${first.jobId}/resume`, {
      body: { async: true },
    });
    const { jobId } = resumed.body.data;
    await until(async () => (await read(jobId)).phase === 'awaiting_approval');
    await gateway.send(`/api/v1/studio/jobs/${first.jobId}/media`, { method: 'DELETE' });
    const answer = await decide(jobId, { decision: 'approve' });
    expect(answer, JSON.stringify(answer.body)).toMatchObject({
      status: 410,
      body: { error: 'MEDIA_DELETED', details: [{ path: 'steps.film' }] },
    });
    expect(await read(jobId)).toMatchObject({ phase: 'awaiting_approval' });
    await gateway.cancel(jobId);
    await untilEnded(jobId);
  });
});

describe('a request with approve', () => {
  it('is answered at once, because its job does not end before the decision', () => {
    const body = { steps: [art, { ...art, id: 'two', approve: { withinSeconds: 60 } }] };
    expect(respondsWith202(pipelines, body)).toBe(true);
    expect(respondsWith202(pipelines, { steps: [art] })).toBe(false);
  });

  it.each([
    ['chosen without approve', { ...film, approve: undefined }, 'steps.1.body.imageUrl.output'],
    ['a minute less than allowed', { ...film, approve: { withinSeconds: 59 } }, 'steps.1.approve'],
    ['more than a week', { ...film, approve: { withinSeconds: 604_801 } }, 'steps.1.approve'],
    ['false', { ...film, approve: false }, 'steps.1.approve'],
  ])('%s is rejected', async (_, step, field) => {
    const { status, body } = await call(path, { body: { steps: [art, step] } });
    expect(status, JSON.stringify(body)).toBe(400);
    expect(body.details.map(({ path: at }) => at).join()).toContain(field);
  });
});
