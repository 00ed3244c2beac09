/** Steps of pipelines that wait for an approval: POST …/jobs/:jobId/steps/:stepId/decision. */
import { describe, expect, it } from 'vitest';
import { useGateway, type CallOptions, type StudioBody } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';
import type { JobResource } from '../../studio/jobs/job-view.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

interface Step {
  id: string;
  status: string;
  credits: number;
  error: { code: string; message: string } | null;
  data: Record<string, unknown> | null;
}
type Job = Omit<JobResource, 'result'> & { result: { steps: Step[]; skipped: number } | null };
type Answer = StudioBody<Job> & { required: number; maximum: number };

const path = '/api/v1/studio/pipelines';
const art = { id: 'art', use: 'image/generate', body: { prompt: 'a lighthouse', numImages: 3 } };
const chosen = { $from: 'art', output: 'chosen' };
const film = {
  id: 'film',
  use: 'video/generate',
  approve: true,
  body: { prompt: 'waves', model: 'seedance-2.0', durationSeconds: 5, imageUrl: chosen },
};

const call = (at: string, options: CallOptions = {}) => gateway.call<Answer>(at, options);
const read = async (jobId: string): Promise<Job> =>
  (await call(`/api/v1/studio/jobs/${jobId}`)).body.data;
const decide = (
  jobId: string,
  body: object,
  { step = 'film', ...options }: CallOptions & { step?: string } = {},
) => call(`/api/v1/studio/jobs/${jobId}/steps/${step}/decision`, { body, ...options });

/** Starts a pipeline, and returns its job once a step waits. */
async function startWaiting(steps: object[] = [art, film]): Promise<Job> {
  const { status, body } = await call(path, { body: { steps, async: true } });
  expect(status, JSON.stringify(body)).toBe(202);
  return until(async () => {
    const job = await read(body.data.jobId);
    return job.phase === 'awaiting_approval' ? job : null;
  });
}
const untilEnded = async (jobId: string): Promise<Job> =>
  until(async () => {
    const job = await read(jobId);
    return job.done ? job : null;
  });

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

  it('counts one of twenty racing decisions', async () => {
    const job = await startWaiting();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        decide(
          job.jobId,
          index % 2 === 0
            ? { decision: 'approve', outputs: { art: index % 3 } }
            : { decision: 'reject', reason: `reason ${index}` },
        ),
      ),
    );
    const first = answers.filter(
      ({ status, headers }) => status === 200 && !headers.has('Idempotent-Replayed'),
    );
    expect(first).toHaveLength(1);
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

describe('a changed body', () => {
  it('is planned and priced as a new one, by the rules of a request', async () => {
    const job = await startWaiting();
    const change = (body: object, outputs: object = { art: 0 }) =>
      decide(job.jobId, { decision: 'approve', outputs, body });
    const longer = await change({ durationSeconds: 10 });
    expect(longer.status, JSON.stringify(longer.body)).toBe(400);
    const maximum = job.awaiting[0]?.credits ?? 0;
    expect(longer.body).toMatchObject({ error: 'PRICE_LIMIT_EXCEEDED', maximum });
    expect(longer.body.required).toBeCloseTo(2 * maximum, 6);
    expect(longer.body.message).toContain(`${maximum} are reserved`);
    const refusals: [object, object | undefined, string, string][] = [
      [{ durationSeconds: 500 }, undefined, 'INVALID_REQUEST', 'body.durationSeconds'],
      [{ model: 'unknown' }, undefined, 'UNKNOWN_MODEL', 'body.model'],
      [{ async: true }, undefined, 'INVALID_REQUEST', 'body.async'],
      [{ imageUrl: 'https://127.0.0.1/a.png' }, {}, 'INVALID_INPUT_URL', 'body.imageUrl'],
      [{ prompt: 'calm' }, { art: 3 }, 'INVALID_REQUEST', 'outputs.art'],
      [{ prompt: 'calm' }, {}, 'INVALID_REQUEST', 'outputs.art'],
      [{ prompt: 'calm' }, { art: 0, film: 0 }, 'INVALID_REQUEST', 'outputs.film'],
      [{ prompt: 'x'.repeat(40_000) }, undefined, 'INVALID_REQUEST', 'body'],
    ];
    for (const [body, outputs, error, field] of refusals) {
      const answer = await change(body, outputs);
      const shown = JSON.stringify(answer.body);
      expect(answer.status, shown).toBe(400);
      expect(answer.body, JSON.stringify(body)).toMatchObject({
        error,
        details: [{ path: field }],
      });
    }
    // The step still waits, and runs with fewer seconds for fewer credits.
    const answer = await change({
      prompt: 'calm waves',
      model: 'seedance-2.0',
      durationSeconds: 4,
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    const ended = await untilEnded(job.jobId);
    expect(ended.result?.steps[1], JSON.stringify(ended.result)).toMatchObject({
      status: 'completed',
      data: { durationSeconds: 4 },
    });
    expect(ended.billing.charged).toBeCloseTo(11.7 + maximum * 0.8, 5);
    const [sent] = (await gateway.sandbox.submits({ jobId: job.jobId })).filter(({ endpoint }) =>
      endpoint.includes('seedance'),
    );
    expect(JSON.stringify(sent?.body)).toContain('calm waves');
    const timeline = await gateway.call<{ data: { request: { steps: object[] } } }>(
      `/api/v1/studio/jobs/${job.jobId}/timeline`,
    );
    expect(timeline.body.data.request.steps[1]).toMatchObject({
      body: { prompt: 'calm waves', durationSeconds: 4, imageUrl: { $from: 'art', output: 0 } },
    });
  });

  it('is of the size, scope, model and role that its step needs', async () => {
    const job = await startWaiting();
    const approve = { decision: 'approve', outputs: { art: 0 } };
    const key = async (body: object) => (await gateway.newKey(body)).key;
    const viewer = await gateway.newKey();
    const users = `/organizations/${gateway.caller.organizationId}/users`;
    const member = await gateway.admin<{ data: { userId: string } }>(users, {
      name: 'Vera',
      role: 'viewer',
    });
    await gateway.database.query('UPDATE api_key SET user_id = $2 WHERE id = $1', [
      viewer.keyId,
      member.body.data.userId,
    ]);
    const denied = [
      viewer.key,
      await key({ scopes: ['studio:image', 'studio:read'] }),
      await key({ allowedModels: ['nano-banana'] }),
    ];
    for (const other of denied) {
      const answer = await decide(job.jobId, approve, { key: other });
      expect(answer, JSON.stringify(answer.body)).toMatchObject({
        status: 403,
        body: { error: 'FORBIDDEN' },
      });
    }
    const onlySeedance = await key({ allowedModels: ['seedance-2.0'] });
    const otherModel = { ...approve, body: { model: 'veo', durationSeconds: 4 } };
    const answer = await decide(job.jobId, otherModel, { key: onlySeedance });
    expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 403 });
    const stranger = await gateway.newCaller();
    const foreign = await decide(job.jobId, approve, { key: stranger.key });
    expect(foreign).toMatchObject({ status: 404, body: { error: 'JOB_NOT_FOUND' } });
    const unknown = await decide(job.jobId, approve, { step: 'constructor' });
    expect(unknown).toMatchObject({ status: 404, body: { error: 'NOT_FOUND' } });
    const running = await decide(job.jobId, approve, { step: 'art' });
    expect(running).toMatchObject({ status: 409, body: { error: 'NOT_AWAITING' } });
    await gateway.cancel(job.jobId);
    await untilEnded(job.jobId);
  });
});

describe('a request with approve', () => {
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
