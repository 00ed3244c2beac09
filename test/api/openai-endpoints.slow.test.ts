/**
 * OpenAI's own client on the endpoints for images, speech, transcripts and videos. Each request is
 * a Studio job: a workflow with its ledger entry, one submit at the provider, charged once.
 */
import { APIError, toFile, type OpenAI } from 'openai';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { toCapabilityFields } from '../../api/endpoints/openai/image-requests.ts';
import { transcriptFormats } from '../../api/endpoints/openai/transcript-formats.ts';
import { imageModels } from '../../studio/models/image-models.ts';
import { findByAnyName } from '../../studio/models/maker-names.ts';
import { useClients } from '../chat/chat-clients.ts';
import { catchFailure } from '../harness/failures.ts';
import { useGateway } from '../harness/gateway.ts';
import { drawDisc, download, readFilm } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';

let picture: Buffer;
const gateway = useGateway();
/** A caller that is new for each test, with a client at `<host>/v1`. */
const clients = useClients(gateway);
beforeAll(async () => {
  picture = await drawDisc(200, 150);
});

const listJobs = () => gateway.database.jobs(clients.caller.organizationId);

/** Returns the one job of the caller, whose workflow has ended well, and which was charged once. */
async function expectOneJob(type: string) {
  const [job, ...more] = await listJobs();
  if (!job || more.length > 0) throw new Error(`${more.length + 1} jobs, not one`);
  const { status, type: workflow } = await gateway.getWorkflow(job.id).describe();
  expect([job.type, workflow]).toEqual([type, type]);
  expect(status.name).toBeOneOf(['RUNNING', 'COMPLETED']);
  expect(await gateway.database.entryKinds(job.id)).toEqual(['reserve', 'charge']);
  return job;
}

/** Expects that a request is rejected with these fields, and stores nothing. */
async function expectRejection(response: PromiseLike<unknown>, error: object, text = '') {
  const message = expect.stringContaining(text);
  const failure = await catchFailure(response, APIError);
  const status = failure.code === 'model_not_found' ? 404 : 400;
  expect(failure).toMatchObject({ status, message, ...error });
  expect(await listJobs()).toEqual([]);
}

describe('/images/generations', () => {
  it('returns pictures as bytes and by URL, also below /api', async () => {
    const below = clients.openai.withOptions({ baseURL: `${gateway.url}/api/v1` });
    await gateway.sandbox.resizeMedia({ tiny: false });
    const { data, created } = await below.images.generate({
      model: 'gpt-image-2',
      prompt: 'a lighthouse at dawn',
      size: '1024x1536',
      quality: 'low',
      background: 'auto',
      output_format: 'png',
      n: 2,
      moderation: 'low',
      user: 'u1',
    });
    await gateway.sandbox.resizeMedia({ tiny: true });
    expect(Math.abs(created - Date.now() / 1000)).toBeLessThan(120);
    expect(data).toHaveLength(2);
    for (const { b64_json: text, url } of data ?? []) {
      const bytes = Buffer.from(text ?? '', 'base64');
      expect(bytes.length).toBeGreaterThan(65_536);
      expect((await download(url ?? '')).equals(bytes)).toBe(true);
    }
    expect(await expectOneJob('imageGenerate')).toMatchObject({
      model: 'alpha-image-2',
      request: {
        quality: 'low',
        numImages: 2,
        outputFormat: 'png',
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
    const fields = toCapabilityFields({ prompt: 'a pier', size }, model, model.generate);
    expect(fields).toMatchObject(own);
  });

  it('returns the requested format, and the same job for the same Idempotency-Key, also on the Studio endpoint', async () => {
    const headers = { 'idempotency-key': 'k' };
    const body = { model: 'nano-banana', prompt: 'a pier' };
    const openai = { ...body, quality: 'standard', size: 'auto' } as const;
    const generate = async (format: 'url' | 'b64_json') => {
      const request = { ...openai, response_format: format };
      const { images } = clients.openai;
      const { data, response } = await images.generate(request, { headers }).withResponse();
      expect(Object.keys(data.data?.[0] ?? {})).toEqual([format, 'contentCredentials']);
      return response.headers;
    };
    const first = await generate('url');
    expect(Number(first.get('x-credits-used'))).toBeGreaterThan(0);
    expect(first.get('x-credits-remaining')).toMatch(/^\d/);
    expect((await generate('b64_json')).get('idempotent-replayed')).toBe('true');
    const studio = await gateway.call('/api/v1/studio/image/generate', {
      key: clients.caller.key,
      headers,
      body,
    });
    expect([studio.status, studio.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
    await expectOneJob('imageGenerate');
  });

  it('names the running job after the wait, and the client does not send the request again', async () => {
    let sent = 0;
    const patient = clients.openai.withOptions({
      maxRetries: 2,
      fetch: (url, init) => {
        sent += 1;
        return fetch(url, init);
      },
    });
    const headers = { prefer: 'wait=0' };
    const response = patient.images.generate({ prompt: '[[slow:900s]] a pier' }, { headers });
    const failure = await catchFailure(response, APIError);
    expect(failure).toMatchObject({ status: 409, code: 'JOB_NOT_DONE' });
    expect(sent).toBe(1);
    const [job] = await listJobs();
    await gateway.untilAccepted(job?.id ?? '');
    await gateway.sandbox.clearFaults();
    await gateway.untilDone(job?.id ?? '', clients.caller.key);
    await expectOneJob('imageGenerate');
  });

  it('with an Idempotency-Key completes through the client’s own retries', async () => {
    const headers = { 'idempotency-key': 'k', prefer: 'wait=1' };
    const { data } = await clients.openai
      .withOptions({ maxRetries: 5 })
      .images.generate({ prompt: '[[slow:1500ms]] a pier', response_format: 'url' }, { headers });
    expect(data).toHaveLength(1);
    await expectOneJob('imageGenerate');
  });

  it.each([
    ['an unknown model', { model: 'dall-e-3' }, 'model_not_found', 'model', 'did you mean'],
    ['a size that it does not draw', { size: '1792x1024' }, 'UNSUPPORTED_PARAMETER', 'size', '7:4'],
    ['a short prompt', { prompt: 'x' }, 'INVALID_REQUEST', 'prompt', 'prompt:'],
    ['too many', { n: 11 }, 'INVALID_REQUEST', 'n', 'n:'],
    ['a quality', { quality: 'low' }, 'UNSUPPORTED_PARAMETER', 'quality', 'quality'],
    ['a stream', { stream: true }, 'INVALID_REQUEST', 'stream', 'not streamed'],
    ['no size', { size: 'large' }, 'INVALID_REQUEST', 'size', 'WIDTHxHEIGHT'],
  ])('rejects in OpenAI’s error format: %s', async (_what, extra, code, param, text) => {
    const body = { model: 'nano-banana', prompt: 'a pier', ...extra };
    const response = clients.openai.images.generate(body as { prompt: string });
    await expectRejection(response, { code, param, type: 'invalid_request_error' }, text);
  });

  it('fails when the job fails', async () => {
    const failing = clients.openai.images.generate({ prompt: '[[policy]] a pier' });
    expect(await catchFailure(failing, APIError)).toMatchObject({
      status: 400,
      code: 'CONTENT_POLICY',
    });
  });
});

describe('/images/edits', () => {
  const file = (name = 'photo.png', bytes = picture) => toFile(bytes, name, { type: 'image/png' });

  it('edits the pictures from the form', async () => {
    // A mask of OpenAI is transparent where the picture is edited.
    const mask = await sharp(picture).removeAlpha().ensureAlpha(0).png().toBuffer();
    const { data } = await clients.openai.images.edit({
      model: 'gpt-image-2',
      image: [await file('a.png'), await file('b.png')],
      mask: await file('mask.png', mask),
      prompt: 'add a red hat',
      quality: 'low',
    });
    expect(data?.[0]?.b64_json).toMatch(/^iVBORw0KGgo/);
    const aFile = expect.stringMatching(/^file_/);
    const { request } = await expectOneJob('imageEdit');
    expect(request).toMatchObject({ imageUrls: [aFile, aFile], maskUrl: aFile });
  });

  it('rejects a missing picture, an invalid picture and an unknown model, and stores nothing', async () => {
    const textFile = await toFile(Buffer.from('no picture'), 'a.png');
    const image = await file();
    for (const [extra, error, text] of [
      [{ image: textFile }, { status: 415, code: 'UNSUPPORTED_MEDIA_TYPE' }],
      [{ model: 'gpt-image-1' }, { code: 'model_not_found' }, 'did you mean gpt-image-2'],
      [{ size: '1024x1024' }, { param: 'size' }],
      [{ image: undefined }, { param: 'image' }],
    ] as const) {
      const body = { image, prompt: 'a hat', ...extra } as OpenAI.Images.ImageEditParams;
      await expectRejection(clients.openai.images.edit(body), error, text);
    }
    const { organizationId } = clients.caller;
    await expect.poll(() => gateway.database.uploadIds(organizationId)).toEqual([]);
  });
});

describe('/audio/speech', () => {
  it('returns the audio', async () => {
    const answer = await clients.openai.audio.speech.create({
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
  ])('rejects %s', async (_what, extra, param, text) => {
    const body = { model: 'eleven_multilingual_v2', voice: 'rachel', input: 'Hello.', ...extra };
    const response = clients.openai.audio.speech.create(body as OpenAI.Audio.SpeechCreateParams);
    await expectRejection(response, { param }, text);
  });
});

describe('/audio/transcriptions', () => {
  const recording = async (): Promise<File> =>
    toFile(await recordTone(4), 'talk.mp3', { type: 'audio/mpeg' });

  it('returns JSON, with words and segments on request', async () => {
    const file = await recording();
    const plain = await clients.openai.audio.transcriptions.create({ model: 'scribe_v2', file });
    expect(Object.keys(plain)).toEqual(['text']);
    expect(plain.text.length).toBeGreaterThan(3);
    const job = await expectOneJob('audioTranscribe');
    expect(job.request).toMatchObject({ fileName: 'talk.mp3' });
    const verbose = await clients.openai.audio.transcriptions.create({
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
    const segments = verbose.segments?.map(({ text }) => text).join(' ') ?? '';
    expect(segments.replaceAll(/\s+/g, '')).toBe(verbose.text.replaceAll(/\s+/g, ''));
  });

  it('returns text and subtitles, of one job with one Idempotency-Key', async () => {
    const file = await recording();
    const headers = { 'idempotency-key': 'k' };
    const request = (format: 'text' | 'srt' | 'vtt') => {
      const body = { model: 'scribe_v2', file, response_format: format };
      return clients.openai.audio.transcriptions.create(body, { headers });
    };
    expect(await request('text')).toMatch(/^\S[^]*\n$/);
    expect(await request('srt')).toMatch(/^1\n\d\d:\d\d:\d\d,\d{3} --> \d\d:\d\d:\d\d,\d{3}\n\S/);
    expect(await request('vtt')).toMatch(/^WEBVTT\n\n\d\d:\d\d:\d\d\.\d{3} --> /);
    await expectOneJob('audioTranscribe');
    const words = [{ text: 'The end.', start: 3725.5, end: 3726, type: 'word' }];
    const transcript = { text: '', language: 'en', durationSeconds: 3726, words };
    expect(transcriptFormats.srt.show(transcript)).toContain('01:02:05,500 --> 01:02:06,000');
  });

  it("rejects another provider's model, a file without audio, and a form without a file", async () => {
    const file = await recording();
    for (const [extra, param, text] of [
      [{ model: 'whisper-1' }, 'model', 'did you mean scribe_v2'],
      [{ file: await toFile(Buffer.from('no'), 'a.mp3') }, 'file'],
      [{ response_format: 'xml' }, 'response_format'],
      [{ file: undefined }, 'file'],
    ] as const) {
      const body = { model: 'scribe_v2', file, ...extra };
      const response = clients.openai.audio.transcriptions.create(
        body as OpenAI.Audio.TranscriptionCreateParams,
      );
      await expectRejection(response, { param }, text);
    }
  });
});

describe('/videos', () => {
  async function untilDone(id: string) {
    await gateway.untilDone(id, clients.caller.key);
    return clients.openai.videos.retrieve(id);
  }

  it('are created, read and downloaded, and not found by other organizations', async () => {
    await gateway.sandbox.resizeMedia({ tiny: false });
    const made = await clients.openai.videos.create({
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
    const film = await clients.openai.videos.downloadContent(made.id);
    expect(film.headers.get('content-type')).toBe('video/mp4');
    const bytes = Buffer.from(await film.arrayBuffer());
    expect((await readFilm(bytes)).durationSeconds).toBeCloseTo(4, 0);
    const { key } = await gateway.newCaller({ credits: 1 });
    const { videos } = clients.openai.withOptions({ apiKey: key });
    expect(await catchFailure(videos.retrieve(made.id), APIError)).toMatchObject({
      status: 404,
      code: 'JOB_NOT_FOUND',
    });
    expect((await gateway.call(`/v1/videos/${made.id}/content`, { key })).status).toBe(404);
  });

  it('start from a picture in the form, or from its id, and are listed', async () => {
    const made = await clients.openai.videos.create({
      model: 'kling-3.0-pro',
      prompt: 'let it move',
      input_reference: await toFile(picture, 'start.png', { type: 'image/png' }),
    });
    expect((await untilDone(made.id)).status).toBe('completed');
    const job = await expectOneJob('videoGenerate');
    const fileId = String(job.request['imageUrl']);
    expect(fileId).toMatch(/^file_/);
    const again = await clients.openai.videos.create({
      prompt: 'let it move again',
      input_reference: { file_id: fileId },
    });
    expect((await untilDone(again.id)).status).toBe('completed');
    const unmeasured = `jsonb_set(outputs, '{0,artifacts,0,width}', 'null')`;
    const update = `UPDATE job SET outputs = ${unmeasured} WHERE id = $1`;
    await gateway.database.query(update, [again.id]);
    expect(await clients.openai.videos.retrieve(again.id)).toMatchObject({ size: null });
    const listed: string[] = [];
    for await (const { id } of clients.openai.videos.list({ limit: 1 })) listed.push(id);
    expect(listed).toEqual([again.id, made.id]);
  });

  it('that fail return the reason, and cost nothing', async () => {
    const made = await clients.openai.videos.create({ prompt: '[[policy]] waves' });
    expect(await untilDone(made.id)).toMatchObject({
      status: 'failed',
      error: { code: 'CONTENT_POLICY', message: expect.any(String) },
    });
    const response = clients.openai.videos.downloadContent(made.id);
    expect(await catchFailure(response, APIError)).toMatchObject({ status: 404 });
  });

  const twoImages = { file_id: 'file_1', image_url: 'https://example.com/a.png' };
  it.each<[extra: object, error: object, text?: string]>([
    [{ model: 'sora-2' }, { code: 'model_not_found' }, 'did you mean'],
    [{ seconds: '5' }, { param: 'seconds' }],
    [{ size: '1024x1792' }, { param: 'size' }],
    [{ input_reference: twoImages }, { code: 'CONFLICTING_FIELDS', param: 'input_reference' }],
  ])('are rejected in OpenAI’s error format: %j', async (extra, error, text) => {
    const body = { prompt: 'waves', ...extra } as OpenAI.VideoCreateParams;
    await expectRejection(clients.openai.videos.create(body), error, text);
  });
});

describe('fields of forms and of /videos', () => {
  type Value = string | number | boolean | number[] | object | File;
  type Fields = [name: string, value: Value][];
  const [text, file] = ['audio/transcriptions', 'images/edits'];
  const [films, films2] = ['videos', 'videos as a form'];
  const native = 'studio/audio/transcribe';
  const pictures = 'images/generations';
  let speech: Buffer<ArrayBuffer>;
  beforeAll(async () => {
    speech = Buffer.from(await recordTone(2));
  });

  /** Sends the fields, after those that the endpoint requires, as JSON or as a form. */
  async function send(door: string, fields: Fields) {
    const image = (): File => new File([new Uint8Array(picture)], 'a.png');
    const required: Record<string, Record<string, Value>> = {
      [text]: { model: 'scribe_v2', file: new File([speech], 'a.mp3') },
      [native]: { file: new File([speech], 'a.mp3') },
      [file]: { prompt: 'a red hat', model: 'gpt-image-2', image: image() },
      [pictures]: { prompt: 'a pier', model: 'nano-banana' },
      [films]: { prompt: 'waves at night', model: 'veo' },
      [films2]: { prompt: 'waves at night', model: 'veo' },
    };
    const parts: Fields = [...Object.entries(required[door] ?? {}), ...fields];
    const form = new FormData();
    for (const [name, value] of parts) {
      const part = name === 'mask' && value === 'FILE' ? image() : value;
      if (part instanceof File) form.append(name, part);
      else form.append(name, `${part as string | number}`);
    }
    const isJson = door === films || door === pictures;
    const answer = await gateway.call(`/api/v1/${door.split(' ')[0]}`, {
      key: clients.caller.key,
      body: isJson ? Object.fromEntries(parts) : form,
    });
    const { error } = answer.body as unknown as { error?: { param?: string; message: string } };
    return { ...answer, error };
  }

  it.each<[string, Fields, string | null]>([
    [
      text,
      [
        ['prompt', 'names'],
        ['temperature', '0'],
      ],
      'prompt, temperature',
    ],
    [
      text,
      [
        ['include[]', 'logprobs'],
        ['include[]', 'x'],
      ],
      'include',
    ],
    [
      text,
      [
        ['language', ''],
        ['stream', ''],
        ['response_format', ''],
      ],
      null,
    ],
    [
      native,
      [
        ['language', ''],
        ['async', ''],
        ['metadata', ''],
        ['webhookUrl', ''],
      ],
      null,
    ],
    [
      file,
      [
        ['input_fidelity', 'high'],
        ['metadata[a]', '1'],
        ['metadata[b]', '2'],
      ],
      'input_fidelity, metadata',
    ],
    [
      file,
      [
        ['foo', 'a'],
        ['foo', 'b'],
        ['user', 'customer-7'],
        ['n', ''],
        ['size', ''],
        ['quality', ''],
      ],
      'foo',
    ],
    [
      file,
      [
        ['mask', ''],
        ['n[]', '1'],
        ['stream', ''],
        ['background', ''],
      ],
      null,
    ],
    [
      films,
      [
        ['foo', 1],
        ['metadata', {}],
        ['seconds', 4],
      ],
      'foo, metadata',
    ],
    [films, [['input_reference', { detail: 'low' }]], 'input_reference.detail'],
    [
      films2,
      [
        ['foo', 'a'],
        ['foo', 'b'],
        ['seconds', ''],
        ['size', ''],
        ['input_reference', ''],
      ],
      'foo',
    ],
    [films2, [['seconds', '08']], null],
  ])('of %s %j: X-Ignored-Fields is %s', async (door, fields, ignored) => {
    const { status, headers, body } = await send(door, fields);
    expect([status, headers.get('x-ignored-fields'), body.details]).toEqual([
      200,
      ignored,
      undefined,
    ]);
  });

  const noDigits = ['0x8', '8e0', ' 8', '+8', '8.0', '-8', 'two', 'true', '[8]', '8 '];
  it.each<[string, Fields, string]>([
    ...noDigits.map((value): [string, Fields, string] => [file, [['n', value]], 'n']),
    ...noDigits.map((value): [string, Fields, string] => [films2, [['seconds', value]], 'seconds']),
    ...[true, [8], '0x8', '8e0', '', {}].flatMap((value): [string, Fields, string][] => [
      [pictures, [['n', value]], 'n'],
      [films, [['seconds', value]], 'seconds'],
    ]),
    [
      file,
      [
        ['n', '1'],
        ['n', '2'],
      ],
      'n',
    ],
    [
      file,
      [
        ['n', '1'],
        ['n[]', '1'],
      ],
      'n',
    ],
    [
      file,
      [
        ['mask', 'FILE'],
        ['mask', 'FILE'],
      ],
      'mask',
    ],
    [file, [['mask', 'https://example.com/mask.png']], 'mask'],
    [films2, [['input_reference', 'https://example.com/a.png']], 'input_reference'],
    [
      text,
      [
        ['language', 'en'],
        ['language', 'de'],
      ],
      'language',
    ],
    [
      native,
      [
        ['metadata', '{}'],
        ['metadata', '{}'],
      ],
      'metadata',
    ],
    [
      native,
      [
        ['tempo', '1'],
        ['tempo', '2'],
      ],
      'tempo',
    ],
  ])('of %s %j are rejected by name: %s', async (door, fields, param) => {
    const { status, body, error } = await send(door, fields);
    const path = error?.param ?? body.details?.[0]?.path;
    expect([status, path]).toEqual([400, param]);
    expect(await listJobs()).toEqual([]);
  });
});
