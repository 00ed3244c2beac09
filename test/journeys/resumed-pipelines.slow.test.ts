/** POST /api/v1/studio/jobs/{jobId}/resume: what a pipeline delivered is taken over, and the rest runs. */
import { describe, expect, it } from 'vitest';
import { useGateway, type CallOptions } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import {
  art,
  createPipelines,
  from,
  slow,
  type PipelineBody,
  type PipelineJob,
} from './pipeline-jobs.ts';

const gateway = useGateway({ settled: 'last' });
const { call, run } = createPipelines(gateway);

describe('POST /api/v1/studio/jobs/:jobId/resume', () => {
  const resume = (jobId: string, body: object = {}, options: CallOptions = {}) =>
    gateway.call<PipelineBody>(`/api/v1/studio/jobs/${jobId}/resume`, { body, ...options });
  const broken = { ...art, id: 'broken', body: { prompt: '[[policy]] a lighthouse' } };
  const big = { id: 'big', use: 'image/upscale', body: { imageUrl: from('broken') } };
  const small = { id: 'small', use: 'image/remove-background', body: { imageUrl: from('art') } };
  const read = async (jobId: string) =>
    (await gateway.call<{ data: PipelineJob }>(`/api/v1/studio/jobs/${jobId}`)).body.data;
  const storedFiles = (jobId: string) =>
    gateway.database.query('SELECT storage_key FROM artifact WHERE job_id = $1', [jobId]);

  it('takes over what was delivered, and runs and charges only the rest', async () => {
    const first = await run({ steps: [art, small, broken, { ...big, maxCredits: 8 }] });
    expect(first.result).toMatchObject({ successful: 2, failed: 1, skipped: 1 });
    const bodies = { broken: { prompt: 'a lighthouse' } };
    const second = await resume(first.jobId, { bodies });
    expect(second.status, JSON.stringify(second.body)).toBe(200);
    expect(second.body.data.steps).toMatchObject([
      { id: 'art', status: 'completed', credits: 0, data: { images: [{}] } },
      { id: 'small', status: 'completed', credits: 0, data: {} },
      { id: 'broken', status: 'completed', credits: 3.9 },
      { id: 'big', status: 'completed', credits: 8 },
    ]);
    expect(second.body.credits.used).toBeCloseTo(11.9);
    const jobId = second.headers.get('x-job-id') ?? '';
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(2);
    expect(await storedFiles(jobId)).toHaveLength(2);
    expect(await read(jobId)).toMatchObject({
      parentJobId: first.jobId,
      steps: [{ takenFrom: first.jobId }, {}, { takenFrom: null }, {}],
    });
    const third = await resume(jobId, { from: 'small' });
    expect(third.body.data.steps, JSON.stringify(third.body)).toMatchObject([
      { credits: 0, data: { images: [{}] } },
      { credits: 0.5 },
      { credits: 0 },
      { credits: 0 },
    ]);
    const fourth = await resume(jobId, { from: 'broken' });
    expect(fourth.body.data.steps, JSON.stringify(fourth.body)).toMatchObject([
      { credits: 0 },
      { credits: 0 },
      { credits: 3.9 },
      { credits: 8 },
    ]);
  });

  let finished: Promise<PipelineJob> | undefined;
  it.each([
    [{}, 400, 'from', /all steps succeeded/],
    [{ from: 'film' }, 400, 'from', /must be the id of a step: art, small/],
    [{ from: 'small', bodies: { art: {} } }, 400, 'bodies.art', /succeeded/],
    [{ from: 'small', bodies: { film: {} } }, 400, 'bodies.film', /runs: small/],
    [{ from: 'small', bodies: { small: {} } }, 400, 'steps.1.body.imageUrl', /required/],
    [{ from: 'small', maxCredits: 0.1 }, 400, 'maxCredits', /0.5/],
    [{ form: 'small' }, 400, 'form', /did you mean from/],
    [{ bodies: { small: { async: true } } }, 400, 'bodies.small.async', /whole pipeline/],
  ])('rejects %j', async (body, status, field, message) => {
    finished ??= run({ steps: [art, small] });
    const answer = await resume((await finished).jobId, body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(status);
    const detail = answer.body.details.find((one) => one.path === field);
    expect(detail?.message, JSON.stringify(answer.body)).toMatch(message);
  });

  it('rejects another job, one of another organization, one that runs, and deleted files', async () => {
    const job = await run({ steps: [art, small] });
    const { key } = await gateway.newCaller();
    expect(await resume(job.jobId, {}, { key })).toMatchObject({ status: 404 });
    const image = await gateway.startImage({ prompt: 'a tree' });
    await gateway.untilDone(image);
    expect(await resume(image)).toMatchObject({ status: 400 });
    const { body } = await call({ steps: [slow], async: true });
    expect(await resume(body.data.jobId)).toMatchObject({
      status: 409,
      body: { error: 'JOB_NOT_DONE' },
    });
    await gateway.cancel(body.data.jobId);
    await gateway.untilDone(body.data.jobId);
    const keyed = { headers: { 'idempotency-key': 'one-resume' } };
    const first = await resume(job.jobId, { from: 'small' }, keyed);
    expect(first.status, JSON.stringify(first.body)).toBe(200);
    await gateway.database.query(
      `UPDATE artifact SET deleted_at = now() WHERE job_id = '${job.jobId}'`,
    );
    const replayed = await resume(job.jobId, { from: 'small' }, keyed);
    expect(replayed.headers.get('idempotent-replayed'), JSON.stringify(replayed.body)).toBe('true');
    expect(replayed.body).toMatchObject({
      success: true,
      credits: { used: first.body.credits.used },
    });
    const deleted = await resume(job.jobId, { from: 'small' });
    expect(deleted).toMatchObject({ status: 410, body: { error: 'MEDIA_DELETED' } });
    expect(deleted.body.details).toMatchObject([{ path: 'steps.art' }]);
  });

  const failing = (more: object = {}) => ({
    id: 'edit',
    use: 'image/edit',
    body: { prompt: '[[fail:422]] a lamp', imageUrls: [from('art')], ...more },
  });
  const untilEnded = async (answer: Awaited<ReturnType<typeof resume>>): Promise<PipelineJob> => {
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    await gateway.untilDone(answer.body.data.jobId);
    return read(answer.body.data.jobId);
  };

  it('pays for nothing twice, however often a resumed pipeline fails', async () => {
    const first = await run({ steps: [art, failing()] });
    expect(first).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
    const second = await untilEnded(await resume(first.jobId, { async: true }));
    expect(second).toMatchObject({
      status: 'failed',
      billing: { charged: 0 },
      steps: [
        { id: 'art', status: 'completed', takenFrom: first.jobId, error: null },
        { id: 'edit', status: 'failed', error: { code: second.error?.code, retryable: false } },
      ],
    });
    const third = await untilEnded(await resume(second.jobId, { async: true }));
    expect(third).toMatchObject({ status: 'failed', steps: [{ status: 'completed' }, {}] });
    const bodies = { edit: { prompt: 'a lamp', imageUrls: [from('art')] } };
    const fourth = await untilEnded(await resume(third.jobId, { bodies, async: true }));
    expect(fourth, JSON.stringify(fourth)).toMatchObject({
      status: 'completed',
      billing: { charged: 3.9 },
      result: {
        steps: [
          { id: 'art', credits: 0 },
          { id: 'edit', credits: 3.9 },
        ],
      },
    });
    // A file belongs to the job that delivered it, so the audit finds it in no other.
    expect(await storedFiles(first.jobId)).toHaveLength(1);
    expect(await storedFiles(fourth.jobId)).toHaveLength(1);
    const submits = await gateway.sandbox.submits({ jobId: fourth.jobId });
    expect(submits).toHaveLength(1);
  });

  it('takes over the outputs of a step under their indexes, although others were not delivered', async () => {
    // The provider accepts only one of three calls, each for at most four pictures.
    const body = { prompt: '[[submit:422x2]] a lighthouse', numImages: 9 };
    const first = await run({ steps: [{ ...art, body }, failing()] });
    const [row] = await gateway.database.query<{
      outputs: { callIndex: number; artifacts: { storageKey: string }[] }[];
    }>('SELECT outputs FROM job WHERE id = $1', [first.jobId]);
    const outputs = (row?.outputs ?? []).slice(0, 3);
    const delivered = outputs.filter(({ artifacts }) => artifacts.length > 0);
    expect(delivered).toHaveLength(1);
    const index = 4 * (delivered[0]?.callIndex ?? 0);
    const change = (output?: number) => {
      const imageUrls = [from('art', output === undefined ? {} : { output })];
      return resume(first.jobId, {
        bodies: { edit: { prompt: 'a lamp', imageUrls } },
        async: true,
      });
    };
    const missing = await change((index + 4) % 12);
    expect(missing, JSON.stringify(missing.body)).toMatchObject({
      status: 400,
      body: { details: [{ path: 'steps.1.body.imageUrls.0.output' }] },
    });
    expect(missing.body.message).toContain(`a delivered output: ${index}`);
    for (const output of [index, undefined]) {
      const resumed = await untilEnded(await change(output));
      expect(resumed, JSON.stringify(resumed)).toMatchObject({ status: 'completed' });
      expect(resumed.billing.charged).toBe(3.9);
      const [sent] = await gateway.sandbox.submits({ jobId: resumed.jobId });
      expect(JSON.stringify(sent?.body)).toContain(delivered[0]?.artifacts[0]?.storageKey);
    }
  });

  it('needs a new body for an input whose signature is the last parameter', async () => {
    const picture = await drawDisc(64, 64);
    const url = gateway.media.put('/signed.png', picture);
    const signedUrl = gateway.media.put('/signed.png?a=b&signature=hush-91c2', picture);
    const signed = failing({ imageUrls: [signedUrl] });
    const job = await run({ steps: [art, signed] });
    const answer = await resume(job.jobId);
    expect(answer.status, JSON.stringify(answer.body)).toBe(400);
    expect(answer.body.details).toMatchObject([
      { path: 'bodies.edit', message: expect.stringContaining('had a signature') },
    ]);
    const bodies = { edit: { prompt: 'a lamp', imageUrls: [url] } };
    expect((await resume(job.jobId, { bodies })).status).toBe(200);
  });

  it('finds a step that is named like a member of every object', async () => {
    const job = await run({ steps: [art, { ...failing(), id: 'constructor' }] });
    const again = await untilEnded(await resume(job.jobId, { async: true }));
    expect(again).toMatchObject({ status: 'failed', steps: [{}, { id: 'constructor' }] });
  });
});
