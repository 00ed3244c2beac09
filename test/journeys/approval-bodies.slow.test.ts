/** Decisions that change the body of a step, and what they need. */
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';
import { uploadFile } from '../harness/uploads.ts';
import { art, createApprovals, film } from './approval-jobs.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });
const { decide, startWaiting, untilEnded } = createApprovals(gateway);

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

  it('removes a field by null, and not one that the step needs', async () => {
    const seeded = { ...film, body: { ...film.body, seed: 7 } };
    const job = await startWaiting([art, seeded]);
    const change = (body: object) =>
      decide(job.jobId, { decision: 'approve', outputs: { art: 0 }, body });
    expect(await change({ prompt: null })).toMatchObject({
      status: 400,
      body: { details: [{ path: 'body.prompt', message: expect.stringContaining('required') }] },
    });
    const answer = await change({ seed: null });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    await untilEnded(job.jobId);
    const timeline = await gateway.call<{ data: { request: { steps: { body: object }[] } } }>(
      `/api/v1/studio/jobs/${job.jobId}/timeline`,
    );
    const ran = timeline.body.data.request.steps[1]?.body;
    expect(ran).toMatchObject({ prompt: 'waves' });
    expect(ran).not.toHaveProperty('seed');
    const [sent] = (await gateway.sandbox.submits({ jobId: job.jobId })).filter(({ endpoint }) =>
      endpoint.includes('seedance'),
    );
    expect(sent?.body).not.toHaveProperty('seed');
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

  it('costs at most what is reserved for the step, also where a provider may report more', async () => {
    // A short recording in a large file: its provider may report much more than was measured.
    const short = Buffer.concat([await recordTone(2), Buffer.alloc(2_000_000)]);
    const [{ fileId }, long] = [
      await uploadFile(gateway, new Uint8Array(short)),
      await uploadFile(gateway, await recordTone(90)),
    ];
    const transcript = {
      id: 'transcript',
      use: 'audio/transcribe',
      approve: true,
      body: { fileId },
    };
    const job = await startWaiting([transcript]);
    const decideWords = (body: object) =>
      decide(job.jobId, { decision: 'approve', body }, { step: 'transcript' });
    const answer = await decideWords({ fileId: long.fileId });
    expect(answer, JSON.stringify(answer.body)).toMatchObject({
      status: 400,
      body: { error: 'PRICE_LIMIT_EXCEEDED', maximum: job.billing.reserved },
    });
    expect(answer.body.required).toBeCloseTo(91 * 0.006_11, 2);
    const { fileId: same } = await uploadFile(gateway, await recordTone(1));
    expect((await decideWords({ fileId: same })).status).toBe(200);
    const ended = await untilEnded(job.jobId);
    expect(ended.billing.charged).toBeLessThanOrEqual(job.billing.reserved);
  });

  it('needs the inputs again whose URLs had signatures, which are not stored', async () => {
    const picture = await drawDisc(64, 64);
    const signedUrl = gateway.media.put('/approved.png?signature=hush-7d1c', picture);
    const body = { prompt: 'a lamp', imageUrls: [signedUrl] };
    const edit = { id: 'edit', use: 'image/edit', approve: true, body };
    const job = await startWaiting([edit]);
    const decideEdit = (changed: object) =>
      decide(job.jobId, { decision: 'approve', body: changed }, { step: 'edit' });
    const answer = await decideEdit({ prompt: 'a calm lamp' });
    expect(answer, JSON.stringify(answer.body)).toMatchObject({
      status: 400,
      body: {
        error: 'INVALID_REQUEST',
        details: [{ path: 'body.imageUrls', message: expect.stringContaining('had a signature') }],
      },
    });
    const again = await decideEdit({ prompt: 'a calm lamp', imageUrls: [signedUrl] });
    expect(again.status, JSON.stringify(again.body)).toBe(200);
    expect(await untilEnded(job.jobId)).toMatchObject({ status: 'completed' });
  });
});
