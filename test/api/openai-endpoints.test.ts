/**
 * OpenAI's own client on the endpoints for images, speech, transcripts and videos. Each request is
 * a Studio job: a workflow with its ledger entry, one submit at the provider, charged once.
 */
import OpenAI, { APIError, toFile } from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { toCapabilityFields } from '../../api/endpoints/openai/image-requests.ts';
import { imageModels } from '../../catalog/image-models.ts';
import { findByAnyName } from '../../catalog/maker-names.ts';
import { jobWorkflowId } from '../../jobs/contract.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { discPicture, download, filmFacts } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';

let caller: TestCaller;
let client: OpenAI;
let picture: Buffer;
const gateway = useGateway();
beforeAll(async () => {
  picture = await discPicture(200, 150);
});

/** A client as its documentation makes it, at `<host>/v1` or `<host>/api/v1`. */
async function newClient(base = '/v1', credits = 10_000): Promise<void> {
  caller = await gateway.newCaller({ credits });
  client = new OpenAI({ apiKey: caller.key, baseURL: gateway.url + base, maxRetries: 0 });
}

interface JobRow {
  id: string;
  type: string;
  model: string;
  request: Record<string, unknown>;
}
const jobs = (): Promise<JobRow[]> =>
  gateway.database.query<JobRow>(
    `SELECT id, type, model, request FROM job WHERE organization_id = $1 ORDER BY id`,
    [caller.organizationId],
  );

/** The one job of the caller: its workflow has ended well, and its ledger entries are a reserve and a charge. */
async function expectOneJob(type: string): Promise<JobRow> {
  const [job, ...more] = await jobs();
  if (!job || more.length > 0) throw new Error(`${more.length + 1} jobs, not one`);
  expect(job.type).toBe(type);
  const { status, type: workflow } = await gateway.api.client.workflow
    .getHandle(jobWorkflowId(job.id))
    .describe();
  expect(workflow).toBe(type);
  expect(status.name).toBeOneOf(['RUNNING', 'COMPLETED']);
  const entries = await gateway.database.query<{ kind: string }>(
    `SELECT kind FROM ledger_entry WHERE reservation_id = $1 ORDER BY sequence`,
    [job.id],
  );
  expect(entries.map(({ kind }) => kind)).toEqual(['reserve', 'charge']);
  return job;
}

type Failure = InstanceType<typeof APIError>;
async function failureOf(asked: Promise<unknown>): Promise<Failure> {
  const failure = await asked.then(
    () => 'it was not rejected',
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(APIError);
  return failure as Failure;
}
const uploads = () =>
  gateway.database.query(`SELECT id FROM upload WHERE organization_id = $1`, [
    caller.organizationId,
  ]);

describe('/images/generations', () => {
  it('returns pictures as bytes and by URL, also below /api', async () => {
    await newClient('/api/v1');
    const { data, created } = await client.images.generate({
      model: 'gpt-image-2',
      prompt: 'a lighthouse at dawn',
      size: '1024x1536',
      quality: 'low',
      background: 'auto',
      output_format: 'webp',
      n: 2,
      moderation: 'low',
      user: 'u1',
    });
    expect(Math.abs(created - Date.now() / 1000)).toBeLessThan(120);
    expect(data).toHaveLength(2);
    for (const { b64_json: text, url } of data ?? []) {
      const bytes = Buffer.from(text ?? '', 'base64');
      expect(bytes.length).toBeGreaterThan(50);
      expect((await download(url ?? '')).equals(bytes)).toBe(true);
    }
    const job = await expectOneJob('imageGenerate');
    expect(job).toMatchObject({
      model: 'alpha-image-2',
      request: {
        quality: 'low',
        numImages: 2,
        outputFormat: 'webp',
        imageSize: { width: 1024, height: 1536 },
      },
    });
  });

  it.each([
    ['gpt-image-1', '1536x1024', { aspectRatio: '3:2' }],
    ['nano-banana', '1024x1024', { aspectRatio: '1:1' }],
    ['seedream', '2048x1024', { width: 2048, height: 1024 }],
  ])('translates the size for %s from %s to its own fields', (name, size, own) => {
    const model = findByAnyName(imageModels, name);
    expect(toCapabilityFields({ prompt: 'a pier', size }, model, model.generate)).toMatchObject(
      own,
    );
  });

  it('returns the requested format, and the same job for the same Idempotency-Key, also on the Studio endpoint', async () => {
    await newClient();
    const headers = { 'idempotency-key': 'k' };
    const asked = { model: 'nano-banana', prompt: 'a pier' };
    const openai = { ...asked, quality: 'standard', size: 'auto' } as const;
    const first = await client.images
      .generate({ ...openai, response_format: 'url' }, { headers })
      .withResponse();
    expect(Object.keys(first.data.data?.[0] ?? {})).toEqual(['url']);
    expect(Number(first.response.headers.get('x-credits-used'))).toBeGreaterThan(0);
    expect(first.response.headers.get('x-credits-remaining')).toMatch(/^\d/);
    const again = await client.images
      .generate({ ...openai, response_format: 'b64_json' }, { headers })
      .withResponse();
    expect(Object.keys(again.data.data?.[0] ?? {})).toEqual(['b64_json']);
    expect(again.response.headers.get('idempotent-replayed')).toBe('true');
    const studio = await gateway.call('/api/v1/studio/image/generate', {
      key: caller.key,
      headers,
      body: asked,
    });
    expect([studio.status, studio.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
    await expectOneJob('imageGenerate');
  });

  it('names the running job after the wait, and the client does not send the request again', async () => {
    await newClient();
    let sent = 0;
    const patient = client.withOptions({
      maxRetries: 2,
      fetch: (url, init) => {
        sent += 1;
        return fetch(url, init);
      },
    });
    const asked = { prompt: '[[slow:800ms]] a pier' };
    const failure = await failureOf(
      patient.images.generate(asked, { headers: { prefer: 'wait=0' } }),
    );
    expect(failure).toMatchObject({ status: 409, code: 'JOB_NOT_DONE' });
    expect(sent).toBe(1);
    const [job] = await jobs();
    await gateway.untilDone(job?.id ?? '', caller.key);
    await expectOneJob('imageGenerate');
  });

  it('with an Idempotency-Key completes through the client’s own retries', async () => {
    await newClient();
    const headers = { 'idempotency-key': 'k', prefer: 'wait=1' };
    const { data } = await client
      .withOptions({ maxRetries: 5 })
      .images.generate({ prompt: '[[slow:1500ms]] a pier', response_format: 'url' }, { headers });
    expect(data).toHaveLength(1);
    await expectOneJob('imageGenerate');
  });

  it.each([
    ['an unknown model', { model: 'dall-e-3' }, 'UNKNOWN_MODEL', 'model', 'did you mean'],
    ['a size that it does not draw', { size: '1792x1024' }, 'UNSUPPORTED_PARAMETER', 'size', '7:4'],
    ['a short prompt', { prompt: 'x' }, 'INVALID_REQUEST', 'prompt', 'prompt:'],
    ['too many', { n: 11 }, 'INVALID_REQUEST', 'n', 'n:'],
    ['a quality', { quality: 'low' }, 'UNSUPPORTED_PARAMETER', 'quality', 'quality'],
    ['a stream', { stream: true }, 'INVALID_REQUEST', 'stream', 'not streamed'],
    ['no size', { size: 'large' }, 'INVALID_REQUEST', 'size', 'WIDTHxHEIGHT'],
  ])('rejects in OpenAI’s error format: %s', async (_what, extra, code, param, words) => {
    await newClient();
    const body = { model: 'nano-banana', prompt: 'a pier', ...extra };
    const failure = await failureOf(client.images.generate(body as { prompt: string }));
    expect(failure).toMatchObject({ status: 400, code, param, type: 'invalid_request_error' });
    expect(failure.message).toContain(words);
    expect(await jobs()).toEqual([]);
  });

  it('requires a key, the scope and the credits, and fails when the job fails', async () => {
    await newClient('/v1', 0);
    const asked = { prompt: 'a pier' };
    const { key } = await gateway.newCaller({ credits: 1, scopes: ['chat'] });
    for (const [apiKey, status, code] of [
      ['nobody', 401, 'Unauthorized'],
      [caller.key, 402, 'insufficient_quota'],
      [key, 403, 'FORBIDDEN'],
    ] as const) {
      const failure = await failureOf(client.withOptions({ apiKey }).images.generate(asked));
      expect(failure).toMatchObject({ status, code });
    }
    await newClient();
    expect(await failureOf(client.images.generate({ prompt: '[[policy]] a pier' }))).toMatchObject({
      status: 400,
      code: 'CONTENT_POLICY',
    });
  });
});

describe('/images/edits', () => {
  const file = (name = 'photo.png') => toFile(picture, name, { type: 'image/png' });

  it('edits the pictures from the form', async () => {
    await newClient();
    const { data } = await client.images.edit({
      model: 'gpt-image-2',
      image: [await file('a.png'), await file('b.png')],
      mask: await file('mask.png'),
      prompt: 'add a red hat',
      quality: 'low',
    });
    expect(data?.[0]?.b64_json).toMatch(/^iVBORw0KGgo/);
    const aFile = expect.stringMatching(/^file_/);
    const { request } = await expectOneJob('imageEdit');
    expect(request).toMatchObject({ imageUrls: [aFile, aFile], maskUrl: aFile });
  });

  it('rejects a missing picture, an invalid picture and an unknown model, and stores nothing', async () => {
    await newClient();
    const text = await toFile(Buffer.from('no picture'), 'a.png');
    const edit = async (extra: object) =>
      failureOf(client.images.edit({ image: await file(), prompt: 'a hat', ...extra }));
    const unsupported = { status: 415, code: 'UNSUPPORTED_MEDIA_TYPE' };
    expect(await edit({ image: text })).toMatchObject(unsupported);
    const unknown = await edit({ model: 'gpt-image-1' });
    expect(unknown.code).toBe('UNKNOWN_MODEL');
    expect(unknown.message).toContain('did you mean gpt-image-2');
    expect(await edit({ size: '1024x1024' })).toMatchObject({ param: 'size' });
    expect(await edit({ image: undefined })).toMatchObject({ status: 400, param: 'image' });
    await expect.poll(uploads).toEqual([]);
    expect(await jobs()).toEqual([]);
  });
});

describe('/audio/speech', () => {
  it('returns the audio', async () => {
    await newClient();
    const answer = await client.audio.speech.create({
      model: 'eleven_multilingual_v2',
      voice: 'rachel',
      input: 'Welcome to the harbour.',
    });
    expect(answer.headers.get('content-type')).toBe('audio/mpeg');
    const bytes = Buffer.from(await answer.arrayBuffer());
    expect(bytes.length).toBe(Number(answer.headers.get('content-length')));
    expect(bytes.length).toBeGreaterThan(500);
    const job = await expectOneJob('voiceoverGenerate');
    expect(job.request).toMatchObject({ voice: 'rachel', title: 'Welcome to the harbour.' });
  });

  it.each([
    ['another maker’s model', { model: 'tts-1' }, 'model', 'did you mean eleven_multilingual_v2'],
    ['another maker’s voice', { voice: 'alloy' }, 'voice', 'rachel'],
    ['another format', { response_format: 'opus' }, 'response_format', 'must be mp3'],
    ['another speed', { speed: 2 }, 'speed', 'other speeds'],
    ['no text', { input: ' ' }, 'input', 'input:'],
  ])('rejects %s', async (_what, extra, param, words) => {
    await newClient();
    const body = { model: 'eleven_multilingual_v2', voice: 'rachel', input: 'Hello.', ...extra };
    const failure = await failureOf(
      client.audio.speech.create(body as OpenAI.Audio.SpeechCreateParams),
    );
    expect(failure).toMatchObject({ status: 400, param });
    expect(failure.message).toContain(words);
    expect(await jobs()).toEqual([]);
  });
});

describe('/audio/transcriptions', () => {
  const recording = async (): Promise<File> =>
    toFile(await recordTone(4), 'talk.mp3', { type: 'audio/mpeg' });

  it('returns JSON, with words and segments on request', async () => {
    await newClient();
    const file = await recording();
    const plain = await client.audio.transcriptions.create({ model: 'scribe_v2', file });
    expect(Object.keys(plain)).toEqual(['text']);
    expect(plain.text.length).toBeGreaterThan(3);
    const job = await expectOneJob('audioTranscribe');
    expect(job.request).toMatchObject({ fileName: 'talk.mp3' });
    const verbose = await client.audio.transcriptions.create({
      model: 'scribe_v2',
      file,
      response_format: 'verbose_json',
      timestamp_granularities: ['word', 'segment'],
      language: 'en',
      temperature: 0,
    });
    expect(verbose).toMatchObject({ language: expect.any(String), duration: expect.any(Number) });
    expect(verbose.words?.[0]).toEqual({
      word: expect.any(String),
      start: expect.any(Number),
      end: expect.any(Number),
    });
    const said = verbose.segments?.map(({ text }) => text).join(' ') ?? '';
    expect(said.replaceAll(/\s+/g, '')).toBe(verbose.text.replaceAll(/\s+/g, ''));
  });

  it('returns text and subtitles, of one job with one Idempotency-Key', async () => {
    await newClient();
    const file = await recording();
    const headers = { 'idempotency-key': 'k' };
    const ask = (format: 'text' | 'srt' | 'vtt') => {
      const body = { model: 'scribe_v2', file, response_format: format };
      return client.audio.transcriptions.create(body, { headers });
    };
    expect(await ask('text')).toMatch(/^\S[^]*\n$/);
    expect(await ask('srt')).toMatch(/^1\n\d\d:\d\d:\d\d,\d{3} --> \d\d:\d\d:\d\d,\d{3}\n\S/);
    expect(await ask('vtt')).toMatch(/^WEBVTT\n\n\d\d:\d\d:\d\d\.\d{3} --> /);
    await expectOneJob('audioTranscribe');
  });

  it("rejects another provider's model, a file without audio, and a form without a file", async () => {
    await newClient();
    const file = await recording();
    const ask = (extra: object) =>
      failureOf(client.audio.transcriptions.create({ model: 'scribe_v2', file, ...extra }));
    expect(await ask({ model: 'whisper-1' })).toMatchObject({
      status: 400,
      param: 'model',
      message: expect.stringContaining('did you mean scribe_v2'),
    });
    expect(await ask({ file: await toFile(Buffer.from('no'), 'a.mp3') })).toMatchObject({
      status: 400,
      param: 'file',
    });
    expect(await ask({ response_format: 'xml' })).toMatchObject({ param: 'response_format' });
    expect(await jobs()).toEqual([]);
  });
});

describe('/videos', () => {
  async function untilDone(id: string) {
    await gateway.untilDone(id, caller.key);
    return client.videos.retrieve(id);
  }

  it('are created, read and downloaded, and not found by other organizations', async () => {
    await newClient();
    await gateway.sandbox.resizeMedia({ tiny: false });
    const made = await client.videos.create({
      model: 'veo',
      prompt: 'waves at night',
      seconds: '4',
      size: '1280x720',
    });
    expect(made).toMatchObject({ object: 'video', model: 'veo', seconds: '4', progress: 0 });
    expect(['queued', 'in_progress']).toContain(made.status);
    const done = await untilDone(made.id);
    await gateway.sandbox.resizeMedia({ tiny: true });
    expect(done).toMatchObject({
      id: made.id,
      status: 'completed',
      progress: 100,
      size: '1280x720',
      prompt: 'waves at night',
      error: null,
    });
    const job = await expectOneJob('videoGenerate');
    expect(job.request).toMatchObject({ aspectRatio: '16:9', resolution: '720p' });
    const film = await client.videos.downloadContent(made.id);
    expect(film.headers.get('content-type')).toBe('video/mp4');
    const bytes = Buffer.from(await film.arrayBuffer());
    expect((await filmFacts(bytes)).durationSeconds).toBeCloseTo(4, 0);
    const { key } = await gateway.newCaller({ credits: 1 });
    const stranger = client.withOptions({ apiKey: key });
    const rejected = { status: 404, code: 'JOB_NOT_FOUND' };
    expect(await failureOf(stranger.videos.retrieve(made.id))).toMatchObject(rejected);
    expect((await gateway.call(`/v1/videos/${made.id}/content`, { key })).status).toBe(404);
  });

  it('start from a picture in the form, or from its id, and are listed', async () => {
    await newClient();
    const made = await client.videos.create({
      model: 'kling-3.0-pro',
      prompt: 'let it move',
      input_reference: await toFile(picture, 'start.png', { type: 'image/png' }),
    });
    expect((await untilDone(made.id)).status).toBe('completed');
    const job = await expectOneJob('videoGenerate');
    const fileId = String(job.request['imageUrl']);
    expect(fileId).toMatch(/^file_/);
    const again = await client.videos.create({
      prompt: 'let it move again',
      input_reference: { file_id: fileId },
    });
    expect((await untilDone(again.id)).status).toBe('completed');
    const listed: string[] = [];
    for await (const { id } of client.videos.list({ limit: 1 })) listed.push(id);
    expect(listed).toEqual([again.id, made.id]);
  });

  it('that fail return the reason, and cost nothing', async () => {
    await newClient();
    const made = await client.videos.create({ prompt: '[[policy]] waves' });
    expect(await untilDone(made.id)).toMatchObject({
      status: 'failed',
      error: { code: 'CONTENT_POLICY', message: expect.any(String) },
    });
    expect(await failureOf(client.videos.downloadContent(made.id).then(() => null))).toMatchObject({
      status: 404,
    });
  });

  it('are rejected in OpenAI’s error format', async () => {
    await newClient();
    const ask = (extra: object) => failureOf(client.videos.create({ prompt: 'waves', ...extra }));
    expect(await ask({ model: 'sora-2' })).toMatchObject({
      code: 'UNKNOWN_MODEL',
      message: expect.stringContaining('did you mean'),
    });
    expect(await ask({ seconds: '5' })).toMatchObject({ status: 400, param: 'seconds' });
    expect(await ask({ size: '1024x1792' })).toMatchObject({ status: 400, param: 'size' });
    const twoImages = { file_id: 'file_1', image_url: 'https://example.com/a.png' };
    expect(await ask({ input_reference: twoImages })).toMatchObject({
      status: 400,
      code: 'CONFLICTING_FIELDS',
      param: 'input_reference',
    });
    expect(await failureOf(client.videos.retrieve('nothing'))).toMatchObject({ status: 404 });
  });
});
