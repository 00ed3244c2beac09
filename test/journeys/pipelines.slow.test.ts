/** POST /api/v1/studio/pipelines: steps that take each other's results, in one job with one price. */
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';
import { until } from '../harness/until.ts';
import { uploadFile } from '../harness/uploads.ts';
import { art, createPipelines, from, path, slow, type PipelineJob } from './pipeline-jobs.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

interface Timeline {
  why: string;
  steps: { step: string | null; name: string; state: string }[];
}

const estimatePath = '/api/v1/studio/pipelines/estimate';
const { call, run } = createPipelines(gateway);

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
    const listed = await gateway.call<{ data: PipelineJob[] }>(
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
      const { body: shown } = await gateway.call<{ data: PipelineJob }>(
        `/api/v1/studio/jobs/${jobId}`,
      );
      const [delivered] = shown.data.steps ?? [];
      return delivered?.status === 'completed' && delivered.data !== null;
    });
    await gateway.cancel(jobId);
    const { body: ended } = await gateway.call<{ data: PipelineJob }>(
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
