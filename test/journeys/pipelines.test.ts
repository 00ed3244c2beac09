/** POST /api/v1/studio/pipelines: steps that take each other's results, in one job with one price. */
import { describe, expect, it } from 'vitest';
import { useGateway, type CallOptions, type StudioBody } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';
import { until } from '../harness/until.ts';
import { uploadFile } from '../harness/uploads.ts';
import type { JobResource } from '../../studio/jobs/job-view.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

interface Step {
  id: string;
  use: string;
  status: string;
  credits: number;
  error: { code: string; message: string; retryable: boolean } | null;
  data: Record<string, unknown> | null;
}
interface Result {
  jobId: string;
  total: number;
  successful: number;
  failed: number;
  skipped: number;
  steps: Step[];
}
interface Timeline {
  why: string;
  steps: { step: string | null; name: string; state: string }[];
}
type Job = Omit<JobResource, 'result'> & { result: Result | null };

const path = '/api/v1/studio/pipelines';
const estimatePath = '/api/v1/studio/pipelines/estimate';
const call = (body: object, { at = path, ...options }: CallOptions & { at?: string } = {}) =>
  gateway.call<StudioBody<Result>>(at, { body, ...options });

const from = (id: string, more: object = {}) => ({ $from: id, ...more });
const art = { id: 'art', use: 'image/generate', body: { prompt: 'a lighthouse' } };
const film = {
  id: 'film',
  use: 'video/generate',
  body: { prompt: 'waves', model: 'seedance-2.0', durationSeconds: 5, imageUrl: from('art') },
};
const voice = {
  id: 'voice',
  use: 'voiceover/generate',
  body: { text: 'Every night it waits.', title: 'Harbour' },
};

/** Starts a pipeline and returns its job when it has ended. */
async function run(body: object): Promise<Job> {
  const { status, body: answer } = await call({ async: true, ...body });
  expect(status, JSON.stringify(answer)).toBe(202);
  const { body: shown } = await gateway.call<{ data: Job }>(
    `/api/v1/studio/jobs/${answer.data.jobId}?wait=60`,
  );
  return shown.data;
}

describe('a pipeline', () => {
  it('hands results over and settles each step by what it delivered', async () => {
    const estimate = await call({ steps: [art, film, voice] }, { at: estimatePath });
    expect(estimate.status, JSON.stringify(estimate.body)).toBe(200);
    const job = await run({ steps: [art, film, voice] });
    expect(job).toMatchObject({ type: 'pipeline', status: 'completed', model: null });
    expect(job.result, JSON.stringify(job)).toMatchObject({ total: 3, successful: 3, failed: 0 });
    const [picture, video, speech] = job.result?.steps ?? [];
    expect(picture?.data).toMatchObject({ images: [{ contentType: 'image/png' }] });
    expect(video?.data).toMatchObject({ format: 'mp4', durationSeconds: 5 });
    expect(speech?.data).toMatchObject({ format: 'mp3', title: 'Harbour', textLength: 21 });
    const sum = (job.result?.steps ?? []).reduce((total, { credits }) => total + credits, 0);
    expect(job.billing.charged).toBeCloseTo(sum, 6);
    expect(estimate.body.data).toMatchObject({ credits: job.billing.reserved });
    const submits = await gateway.sandbox.submits({ jobId: job.jobId });
    expect(submits).toHaveLength(3);
    const input = submits.find(({ endpoint }) => endpoint.includes('seedance'))?.body;
    expect(JSON.stringify(input)).toContain(`${gateway.url}/`);
    expect(job.steps).toMatchObject([
      { id: 'art', status: 'completed', after: [] },
      { id: 'film', status: 'completed', after: ['art'] },
      { id: 'voice', status: 'completed', after: [] },
    ]);
  });

  it('skips the dependents of a failed step, and charges the others', async () => {
    const broken = { ...art, body: { prompt: '[[policy]] a lighthouse' } };
    const job = await run({ steps: [broken, film, voice] });
    expect(job.status, JSON.stringify(job)).toBe('completed');
    expect(job.result).toMatchObject({ successful: 1, failed: 1, skipped: 1 });
    expect(job.result?.steps).toMatchObject([
      {
        status: 'failed',
        credits: 0,
        error: { code: 'CONTENT_POLICY', retryable: false },
        data: null,
      },
      { status: 'skipped', credits: 0, error: { code: 'SKIPPED' } },
      { status: 'completed', error: null },
    ]);
    expect(job.billing.charged).toBeCloseTo(job.result?.steps[2]?.credits ?? 0, 6);
    const [failed, skipped] =
      (job as { steps?: { startedAt: string; completedAt: string }[] }).steps ?? [];
    expect(Date.parse(failed?.completedAt ?? '')).toBeGreaterThan(
      Date.parse(failed?.startedAt ?? ''),
    );
    expect(skipped).toMatchObject({ startedAt: null, completedAt: null });
    const { body } = await gateway.call<{ data: Timeline }>(
      `/api/v1/studio/jobs/${job.jobId}/timeline`,
    );
    expect(body.data.steps.map(({ step, name, state }) => [step, name, state].join(' '))).toEqual([
      ' reserve done',
      'art submit done',
      'art wait failed',
      'voice submit done',
      'voice store done',
      ' charge done',
    ]);
    expect(body.data.why).toMatch(
      /^1 of 3 steps delivered \(art failed with CONTENT_POLICY\), and /,
    );
    const explained = await gateway.admin<{ data: Timeline }>(`/jobs/${job.jobId}`);
    expect(explained.body.data).toMatchObject({
      why: expect.stringContaining('; the step art failed: CONTENT_POLICY, '),
      calls: [{ step: 'art' }, { step: 'voice' }],
    });
    const listed = await gateway.admin<{ data: object[] }>(`/jobs?search=${job.jobId}`);
    const states = listed.body.data.map(({ steps }: { steps?: { status: string }[] }) =>
      steps?.map(({ status }) => status),
    );
    expect(states).toEqual([['failed', 'skipped', 'completed']]);
  });

  it('fails and releases everything if no step delivers', async () => {
    const broken = { ...art, body: { prompt: '[[policy]] a lighthouse' } };
    const job = await run({ steps: [broken, film] });
    expect(job).toMatchObject({
      status: 'failed',
      error: { code: 'CONTENT_POLICY' },
      billing: { state: 'released', charged: 0 },
      steps: [{ status: 'failed' }, { status: 'skipped' }],
    });
    expect(job.error?.message).toMatch(/^art: /);
  });

  it('answers synchronously, with the transcript of a voice in another voice', async () => {
    const steps = [
      voice,
      {
        id: 'transcript',
        use: 'audio/transcribe',
        body: { audioUrl: from('voice') },
        maxCredits: 5,
      },
      {
        id: 'again',
        use: 'voiceover/generate',
        body: { text: from('transcript', { field: 'text' }), title: 'Again' },
        maxCredits: 20,
      },
    ];
    const { status, body } = await call({ steps });
    expect(status, JSON.stringify(body)).toBe(200);
    const [, transcript, again] = body.data.steps;
    expect(again, JSON.stringify(body)).toMatchObject({ status: 'completed' });
    expect(again?.data?.['textLength']).toBe(Array.from(String(transcript?.data?.['text'])).length);
  });

  it('removes a background and upscales the result, priced by the picture', async () => {
    const imageUrl = gateway.media.put('/product.png', await drawDisc(64, 64));
    const steps = [
      { id: 'cut', use: 'image/remove-background', body: { imageUrl } },
      { id: 'big', use: 'image/upscale', body: { imageUrl: from('cut'), scaleFactor: 4 } },
    ];
    const { status, body } = await call({ steps, maxCredits: 8.5 });
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.data.steps).toMatchObject([
      { status: 'completed', data: { width: 64, persisted: true } },
      { status: 'completed', credits: 8, data: { width: 256 } },
    ]);
  });

  it('takes the output that a reference names', async () => {
    const pair = { ...art, body: { ...art.body, numImages: 2 } };
    const imageUrl = from('art', { output: 1 });
    const cut = { id: 'cut', use: 'image/remove-background', body: { imageUrl } };
    const { jobId, status } = await run({ steps: [pair, cut] });
    expect(status).toBe('completed');
    const submits = await gateway.sandbox.submits({ jobId });
    const input = submits.find(({ endpoint }) => endpoint.includes('birefnet'))?.body;
    expect(JSON.stringify(input)).toContain(`${jobId}/0-1.`);
  });

  it('generates a song from a composition plan', async () => {
    const steps = [
      { id: 'plan', use: 'music/plan', body: { prompt: 'a calm song', music_length_ms: 10_000 } },
      { id: 'song', use: 'music/generate', body: { composition_plan: from('plan') } },
    ];
    const { status, body } = await call({ steps });
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.data.steps, JSON.stringify(body)).toMatchObject([
      { status: 'completed', data: { sections: [{}] } },
      { status: 'completed' },
    ]);
  });
});

/** Bodies that are rejected, with the paths that the error names and a part of its message. */
const upscale = (imageUrl: unknown, more: object = {}) => ({
  id: 'big',
  use: 'image/upscale',
  body: { imageUrl },
  ...more,
});
const transcript = {
  id: 'transcript',
  use: 'audio/transcribe',
  body: { audioUrl: from('voice') },
  maxCredits: 5,
};
const tiles = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ ...art, id: `art${index}` }));
type Rejection = [what: string, body: object, path: string, message: RegExp, code?: string];
const rejections: Rejection[] = [
  ['no steps', {}, 'steps', /required/],
  ['an empty list', { steps: [] }, 'steps', /1–20/],
  ['21 steps', { steps: tiles(21) }, 'steps', /20/],
  [
    'an unknown capability',
    { steps: [{ ...art, use: 'image/paint' }] },
    'steps.0.use',
    /image\/generate/,
  ],
  ['a nested pipeline', { steps: [{ ...art, use: 'pipelines' }] }, 'steps.0.use', /one of/],
  ['an id with a space', { steps: [{ ...art, id: 'a b' }] }, 'steps.0.id', /letters/],
  ['an empty id', { steps: [{ ...art, id: '' }] }, 'steps.0.id', /letters/],
  ['a repeated id', { steps: [art, { ...voice, id: 'art' }] }, 'steps.1.id', /unique/],
  ['an unknown field of a step', { steps: [{ ...art, bodies: {} }] }, 'steps.0.bodies', /unknown/],
  [
    'an unknown field of a body',
    { steps: [{ ...art, body: { promt: 'x' } }] },
    'steps.0.body.promt',
    /did you mean prompt/,
  ],
  [
    'a wrong field of a body',
    { steps: [voice, { ...art, body: { prompt: 'a' } }] },
    'steps.1.body.prompt',
    /3–2000/,
  ],
  [
    'a webhook in a body',
    { steps: [{ ...art, body: { ...art.body, webhookUrl: 'https://example.com' } }] },
    'steps.0.body.webhookUrl',
    /whole pipeline/,
  ],
  [
    'an unknown model',
    { steps: [{ ...art, body: { ...art.body, model: 'paint' } }] },
    'steps.0.body.model',
    /one of/,
    'UNKNOWN_MODEL',
  ],
  [
    'a field that the model lacks',
    { steps: [{ ...art, body: { ...art.body, quality: 'low' } }] },
    'steps.0.body.quality',
    /not supported/,
    'UNSUPPORTED_PARAMETER',
  ],
  ['an unknown step', { steps: [film] }, 'steps.0.body.imageUrl.$from', /earlier steps: none/],
  ['a later step', { steps: [film, art] }, 'steps.0.body.imageUrl.$from', /follows/],
  [
    'the step itself',
    { steps: [art, upscale(from('big'))] },
    'steps.1.body.imageUrl.$from',
    /itself/,
  ],
  [
    'an output out of range',
    { steps: [art, upscale(from('art', { output: 1 }))] },
    'steps.1.body.imageUrl.output',
    /has 1 output /,
  ],
  [
    'an output below 0',
    { steps: [art, upscale(from('art', { output: -1 }))] },
    'steps.1.body.imageUrl.output',
    /0–99/,
  ],
  [
    'output and field',
    { steps: [art, upscale(from('art', { output: 0, field: 'text' }))] },
    'steps.1.body.imageUrl.output',
    /together/,
  ],
  [
    'an unknown field of a reference',
    { steps: [art, upscale(from('art', { index: 0 }))] },
    'steps.1.body.imageUrl.index',
    /unknown field/,
  ],
  [
    'a wrong medium',
    { steps: [voice, upscale(from('voice'))] },
    'steps.1.body.imageUrl',
    /takes an image; output 0 of the step voice is a recording/,
  ],
  [
    'a wrong medium in a list',
    { steps: [voice, { ...art, body: { ...art.body, imageUrls: [from('voice')] } }] },
    'steps.1.body.imageUrls.0',
    /takes an image/,
  ],
  [
    'a text of a picture',
    { steps: [art, { ...voice, body: { ...voice.body, text: from('art', { field: 'text' }) } }] },
    'steps.1.body.text.field',
    /yields no text/,
  ],
  [
    'an unknown text',
    {
      steps: [
        voice,
        transcript,
        { ...art, body: { prompt: from('transcript', { field: 'words' }) } },
      ],
    },
    'steps.2.body.prompt.field',
    /one of text, language/,
  ],
  [
    'a picture as a text',
    { steps: [art, { ...voice, body: { ...voice.body, text: from('art') } }] },
    'steps.1.body.text',
    /takes a text/,
  ],
  [
    'a text as a picture',
    { steps: [voice, transcript, upscale(from('transcript', { field: 'text' }))] },
    'steps.2.body.imageUrl',
    /not a text/,
  ],
  [
    'a transcript as a file',
    { steps: [voice, transcript, upscale(from('transcript'))] },
    'steps.2.body.imageUrl',
    /yields no file/,
  ],
  [
    'a field that takes none',
    { steps: [art, { ...art, id: 'b', body: { ...art.body, seed: from('art') } }] },
    'steps.1.body.seed',
    /imageUrls, prompt, negativePrompt/,
  ],
  [
    'a nested field',
    {
      steps: [
        art,
        {
          id: 'b',
          use: 'dialogue/generate',
          body: { title: 'x', inputs: [{ text: from('art'), voiceId: 'rachel' }] },
        },
      ],
    },
    'steps.1.body.inputs.0.text',
    /takes no result/,
  ],
  [
    'a body that is a reference',
    { steps: [art, { ...voice, body: from('art') }] },
    'steps.1.body.$from',
    /unknown field|takes no/,
  ],
  [
    'a list where the field takes one',
    { steps: [art, upscale([from('art')])] },
    'steps.1.body.imageUrl',
    /http/,
  ],
  [
    'a price that is not known',
    { steps: [voice, { ...transcript, maxCredits: undefined }] },
    'steps.1.maxCredits',
    /steps.1.body.audioUrl.*voice has ended/,
  ],
  [
    'maxCredits below the price',
    { steps: [art], maxCredits: 3.899999 },
    'maxCredits',
    /at least 3.9/,
    'PRICE_LIMIT_EXCEEDED',
  ],
  [
    'maxCredits of a step below its price',
    { steps: [{ ...art, maxCredits: 3 }] },
    'steps.0.maxCredits',
    /at least 3.9/,
    'PRICE_LIMIT_EXCEEDED',
  ],
  ['maxCredits of 0', { steps: [art], maxCredits: 0 }, 'maxCredits', /above|greater|more|0/],
  ...['async', 'webhookUrl', 'metadata', 'maxCredits'].map((name): Rejection => [
    `${name} in the body of a step`,
    { steps: [{ ...art, body: { ...art.body, [name]: null } }] },
    `steps.0.body.${name}`,
    /must be absent: it is a field of the (whole pipeline|step)/,
  ]),
  [
    'a private address',
    { steps: [art, upscale('http://10.0.0.1/a.png')] },
    'steps.1.body.imageUrl',
    /cannot be read/,
    'INVALID_INPUT_URL',
  ],
  [
    'an unknown file',
    { steps: [art, upscale(`file_${'0'.repeat(32)}`)] },
    'steps.1.body.imageUrl',
    /not a file of this organization/,
    'INVALID_INPUT_URL',
  ],
];

describe('a request for a pipeline', () => {
  it.each(rejections)(
    'with %s is rejected, and starts nothing',
    async (_what, body, field, message, code) => {
      const before = await gateway.database.jobs(gateway.caller.organizationId);
      for (const at of [path, estimatePath]) {
        const { status, body: answer } = await call(body, { at });
        expect(status, JSON.stringify(answer)).toBe(400);
        expect(answer.error).toBe(code ?? 'INVALID_REQUEST');
        const detail = answer.details.find((one) => one.path === field);
        expect(detail?.message, JSON.stringify(answer)).toMatch(message);
        expect(JSON.stringify(answer)).not.toMatch(/file_(?!0{32})/);
      }
      expect(await gateway.database.jobs(gateway.caller.organizationId)).toHaveLength(
        before.length,
      );
    },
  );
  it('with maxCredits of exactly the price is accepted; with twenty steps too', async () => {
    expect(await call({ steps: [art], maxCredits: 3.9 }, { at: estimatePath })).toMatchObject({
      status: 200,
    });
    const { status, body } = await call({ steps: tiles(20) });
    expect(status).toBe(200);
    expect(body).toMatchObject({ data: { successful: 20 }, credits: { used: 78 } });
  });
});

const slow = { ...art, id: 'slow', body: { prompt: '[[slow:60s]] a lighthouse' } };

describe('a job of a pipeline', () => {
  it('is one job for one Idempotency-Key, and keeps its webhook, metadata and usage', async () => {
    const webhookUrl = gateway.receiver.at('/pipeline');
    const body = { steps: [art, voice], webhookUrl, metadata: { campaign: 'harbour' } };
    const headers = { 'idempotency-key': 'one-pipeline' };
    const first = await call(body, { headers });
    expect(first.status, JSON.stringify(first.body)).toBe(200);
    const second = await call(body, { headers });
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    const jobId = first.headers.get('x-job-id') ?? '';
    expect(second.headers.get('x-job-id')).toBe(jobId);
    expect(await call({ ...body, steps: [voice, art] }, { headers })).toMatchObject({
      status: 422,
    });
    const [webhook] = await gateway.receiver.untilReceived('/pipeline');
    expect(webhook?.body).toMatchObject({
      type: 'studio.job.completed',
      data: { jobId, result: { successful: 2 }, steps: [{ id: 'art' }, { id: 'voice' }] },
    });
    const listed = await gateway.call<{ data: Job[] }>(
      '/api/v1/studio/jobs?type=pipeline&metadata[campaign]=harbour',
    );
    expect(listed.body.data).toMatchObject([
      { jobId, result: { total: 2 }, prompt: 'a lighthouse' },
    ]);
    const usage = await gateway.call<{ usage: { jobId: string; credits: number }[] }>(
      '/api/v1/usage',
    );
    const record = usage.body.usage.find((one) => one.jobId === jobId);
    expect(record?.credits).toBe(first.body.credits.used);
  });

  it('that is canceled pays for the steps that delivered', async () => {
    const { body } = await call({
      steps: [art, slow, { ...film, body: { ...film.body, imageUrl: from('slow') } }],
      async: true,
    });
    const { jobId } = body.data;
    await until(async () => {
      const { body: shown } = await gateway.call<{ data: Job }>(`/api/v1/studio/jobs/${jobId}`);
      const [delivered] = shown.data.steps ?? [];
      return delivered?.status === 'completed' && delivered.data !== null;
    });
    await gateway.cancel(jobId);
    const { body: ended } = await gateway.call<{ data: Job }>(
      `/api/v1/studio/jobs/${jobId}?wait=60`,
    );
    expect(ended.data).toMatchObject({
      status: 'completed',
      billing: { charged: 3.9 },
      result: { successful: 1, failed: 1, skipped: 1 },
      steps: [{ status: 'completed' }, { status: 'canceled' }, { status: 'skipped' }],
    });
  });

  it('that is canceled before a step delivered is canceled and released', async () => {
    const { body } = await call({ steps: [slow], async: true });
    await gateway.untilAccepted(body.data.jobId);
    await gateway.cancel(body.data.jobId);
    expect((await gateway.untilDone(body.data.jobId)).body.data).toMatchObject({
      status: 'canceled',
      billing: { state: 'released', charged: 0 },
    });
  });

  it('needs the scopes and the models of its steps', async () => {
    const { key: pictures } = await gateway.newCaller({ scopes: ['studio:image', 'studio:read'] });
    expect(await call({ steps: [art] }, { key: pictures })).toMatchObject({ status: 200 });
    const voiced = await call({ steps: [art, voice] }, { key: pictures });
    expect(voiced).toMatchObject({
      status: 403,
      body: { message: expect.stringContaining('studio:audio') },
    });
    const { key: models } = await gateway.newCaller({ allowedModels: ['nano-banana'] });
    expect(await call({ steps: [art, film] }, { key: models })).toMatchObject({ status: 403 });
    const { key: poor } = await gateway.newCaller({ credits: 5 });
    expect(await call({ steps: [art, { ...art, id: 'b' }] }, { key: poor })).toMatchObject({
      status: 402,
      body: { error: 'INSUFFICIENT_CREDITS', required: 7.8, available: 5 },
    });
  });

  it('is limited by its key, and takes no file of another organization', async () => {
    const { key } = await gateway.newKey({ limit: { credits: 5, per: 'total' } });
    expect(await call({ steps: [art, { ...art, id: 'b' }] }, { key })).toMatchObject({
      status: 402,
      body: { error: 'KEY_LIMIT_EXCEEDED' },
    });
    expect(await call({ steps: [art] }, { key })).toMatchObject({ status: 200 });
    const other = await gateway.newCaller();
    const { fileId } = await uploadFile(gateway, await drawDisc(64, 64), {}, other.key);
    const small = { id: 'small', use: 'image/remove-background', body: { imageUrl: fileId } };
    for (const steps of [[small], [art, small]]) {
      const answer = await call({ steps });
      expect(answer).toMatchObject({ status: 400, body: { error: 'INVALID_INPUT_URL' } });
      const field = `steps.${steps.length - 1}.body.imageUrl`;
      expect(answer.body.details).toMatchObject([{ path: field }]);
    }
  });
});

describe('POST /api/v1/studio/jobs/:jobId/resume', () => {
  const resume = (jobId: string, body: object = {}, options: CallOptions = {}) =>
    gateway.call<StudioBody<Result>>(`/api/v1/studio/jobs/${jobId}/resume`, { body, ...options });
  const broken = { ...art, id: 'broken', body: { prompt: '[[policy]] a lighthouse' } };
  const big = { id: 'big', use: 'image/upscale', body: { imageUrl: from('broken') } };
  const small = { id: 'small', use: 'image/remove-background', body: { imageUrl: from('art') } };
  const read = async (jobId: string) =>
    (await gateway.call<{ data: Job }>(`/api/v1/studio/jobs/${jobId}`)).body.data;
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
    const job = await run({ steps: [art, small] });
    const answer = await resume(job.jobId, body);
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
  const untilEnded = async (answer: Awaited<ReturnType<typeof resume>>): Promise<Job> => {
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

describe('a recording of the caller', () => {
  it('is charged in full by the seconds that the provider reports, as by its own endpoint', async () => {
    const bytes = await recordTone(13);
    const audioUrl = gateway.media.put('/talk.mp3?sig=hush-3f1a', Buffer.from(bytes));
    const { fileId } = await uploadFile(gateway, bytes);
    const fileName = '[[long-recording:100]] talk.mp3';
    const priceOfSeconds = (count: number) => count * 0.006_11;
    for (const source of [{ fileId }, { audioUrl }]) {
      const steps = [art, { id: 'words', use: 'audio/transcribe', body: { ...source, fileName } }];
      const estimate = await call({ steps }, { at: estimatePath });
      const most = Math.ceil(bytes.length / 100);
      expect(estimate.body.data, JSON.stringify(estimate.body)).toMatchObject({
        credits: expect.closeTo(3.9 + priceOfSeconds(14), 1),
        maxCredits: expect.closeTo(3.9 + priceOfSeconds(most), 5),
      });
      const job = await run({ steps });
      expect(job.billing.charged).toBeCloseTo(3.9 + priceOfSeconds(100), 5);
      expect(job.steps?.[1]?.maxCredits).toBeCloseTo(priceOfSeconds(most), 5);
    }
  });
});

describe('the upscale of a generated picture', () => {
  it('needs no maxCredits', async () => {
    const { status, body } = await call({
      steps: [art, { id: 'big', use: 'image/upscale', body: { imageUrl: from('art') } }],
    });
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.data.steps).toMatchObject([{ credits: 3.9 }, { credits: 8 }]);
  });
});
