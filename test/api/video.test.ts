/** /studio/video/generate, /studio/video/upscale and /studio/video/remove-background. */
import { createHash } from 'node:crypto';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { discPicture, download, filmFacts } from '../harness/media.ts';

interface VideoJob {
  success: boolean;
  data: {
    jobId: string;
    status: string;
    statusUrl: string;
    done: boolean;
    result: { url: string; durationSeconds: number };
    error: { code: string };
    billing: { state: string; reserved: number; charged: number };
  };
  credits: { used: number; cost: number };
  error: string;
  details: { path: string; message: string }[];
}

const gateway = useGateway({ media: 'full', credits: 100_000 });
afterEach(() => gateway.sandbox.clearFaults());

const video = (tool: string, body: object) =>
  gateway.call<VideoJob>(`/api/v1/studio/video/${tool}`, { body });

/** Starts a job and waits for its end. */
async function make(tool: string, body: object): Promise<VideoJob['data']> {
  const ticket = await video(tool, body);
  expect(ticket.status).toBe(202);
  expect(ticket.body.credits.used).toBe(0);
  expect(ticket.headers.get('location')).toBe(ticket.body.data.statusUrl);
  const done = await gateway.untilDone(ticket.body.data.jobId);
  return done.body.data as unknown as VideoJob['data'];
}

describe('POST /studio/video/generate', () => {
  it.each([
    ['veo', { durationSeconds: 4, aspectRatio: '9:16', generateAudio: false }, [720, 1280], 4, 80],
    ['kling-3.0-pro', { durationSeconds: 3, generateAudio: false }, [1920, 1080], 3, 33.6],
    ['seedance-2.5', { durationSeconds: 7, resolution: '480p' }, [854, 480], 7, 154.35],
    ['seedance-2.0', { seed: 5, aspectRatio: '1:1', resolution: '480p' }, [480, 480], 5, 67.3],
  ])(
    '%s creates a playable video with the requested duration and size',
    async (model, fields, size, seconds, credits) => {
      const job = await make('generate', { prompt: 'waves at night', model, ...fields });
      expect(job).toMatchObject({
        status: 'completed',
        billing: { state: 'charged', reserved: credits, charged: credits },
        result: {
          url: expect.stringContaining(gateway.url),
          storagePath: expect.stringMatching(/\.mp4$/),
          format: 'mp4',
          contentType: 'video/mp4',
          width: size[0],
          height: size[1],
          hasAudio: !('generateAudio' in fields),
          model,
          metadata: { prompt: 'waves at night', durationSeconds: seconds },
        },
      });
      const bytes = await download(job.result.url);
      const facts = await filmFacts(bytes);
      expect(facts).toMatchObject({ codec: 'avc', width: size[0], height: size[1] });
      expect(Math.abs(facts.durationSeconds - seconds)).toBeLessThan(0.5);
      expect(facts.frames).toBeGreaterThan(seconds);
      expect(job.result.durationSeconds).toBeCloseTo(facts.durationSeconds, 3);
      const [stored] = await gateway.database.query<{ sha256: string }>(
        'SELECT sha256 FROM artifact ORDER BY created_at DESC LIMIT 1',
      );
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(stored?.sha256);
    },
  );

  it('starts from a picture, or uses references', async () => {
    const imageUrl = gateway.media.put('/first.png', await discPicture(600, 400));
    const fromImage = await make('generate', {
      prompt: 'it rolls away',
      imageUrl,
      durationSeconds: 4,
    });
    expect(fromImage.status).toBe('completed');
    const fromReferences = await make('generate', {
      prompt: 'both of them',
      model: 'seedance-2.0',
      resolution: '480p',
      durationSeconds: 4,
      referenceUrls: [imageUrl, imageUrl],
    });
    expect(fromReferences.status).toBe('completed');
    const used = await gateway.sandbox.submits({ match: imageUrl });
    expect(used.map((submit) => submit.endpoint)).toEqual([
      'fal-ai/veo3.1/image-to-video',
      'bytedance/seedance-2.0/reference-to-video',
    ]);
  });
});

describe('tools for existing videos', () => {
  let filmUrl: string;
  let film: Buffer;
  beforeAll(async () => {
    const job = await make('generate', {
      prompt: 'a short film',
      model: 'seedance-2.0',
      resolution: '480p',
      durationSeconds: 4,
    });
    film = await download(job.result.url);
    filmUrl = job.result.url;
  });

  it('include POST /studio/video/upscale, which doubles the size and charges by the second', async () => {
    const job = await make('upscale', { videoUrl: filmUrl });
    expect(job).toMatchObject({
      status: 'completed',
      billing: { state: 'charged', reserved: 8, charged: 8 },
      result: { width: 1708, height: 960, format: 'mp4', model: 'video-upscale' },
    });
    const facts = await filmFacts(await download(job.result.url));
    expect([facts.width, facts.height]).toEqual([1708, 960]);
    expect(Math.abs(facts.durationSeconds - 4)).toBeLessThan(0.5);
  });

  it('include POST /studio/video/remove-background, which keeps the size and the duration', async () => {
    const job = await make('remove-background', { videoUrl: filmUrl });
    expect(job).toMatchObject({
      status: 'completed',
      billing: { state: 'charged', charged: 8 },
      result: { width: 854, height: 480, model: 'video-remove-background' },
    });
    const facts = await filmFacts(await download(job.result.url));
    expect(Math.abs(facts.durationSeconds - 4)).toBeLessThan(0.5);
  });

  it('read an external video once and completely, however much of it is padding', async () => {
    const padding = Buffer.alloc(8 + 24 * 1024 * 1024);
    padding.writeUInt32BE(padding.length);
    padding.write('free', 4, 'latin1');
    const padded = Buffer.concat([film, padding]);
    const videoUrl = gateway.media.put('/padded.mp4', padded);
    const job = await make('upscale', { videoUrl });
    expect(job).toMatchObject({ status: 'completed', result: { width: 1708, height: 960 } });
    expect(gateway.media.sentBytes('/padded.mp4')).toBe(padded.length);
  });

  it.each([
    ['a page', Buffer.from('<!doctype html><p>no film</p>')],
    ['nothing', Buffer.alloc(0)],
    ['half a film', null],
  ])('reject %s before any credits are reserved', async (name, bytes) => {
    const path = `/${name.replaceAll(' ', '-')}.mp4`;
    const videoUrl = gateway.media.put(path, bytes ?? film.subarray(0, film.length / 2));
    const submits = await gateway.sandbox.submits({ match: 'topaz/upscale/video' });
    const answer = await video('upscale', { videoUrl });
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject({
      error: 'INVALID_INPUT_URL',
      details: [{ path: 'videoUrl', message: expect.any(String) }],
    });
    expect(await gateway.sandbox.submits({ match: 'topaz/upscale/video' })).toEqual(submits);
  });

  it('free the Idempotency-Key when the input is rejected', async () => {
    const headers = { 'idempotency-key': 'mended' };
    const post = () =>
      gateway.call<VideoJob>('/api/v1/studio/video/upscale', {
        body: { videoUrl: `${gateway.media.origin}/later.mp4` },
        headers,
      });
    expect((await post()).status).toBe(400);
    gateway.media.put('/later.mp4', film);
    const mended = await post();
    expect(mended.status).toBe(202);
    await gateway.untilDone(mended.body.data.jobId);
  });
});

describe('a large video', () => {
  it('is stored with constant memory use', async () => {
    // A first large file grows the memory once (buffers, code); the measurement starts after it.
    await make('generate', { prompt: '[[big:20mb]] a part of the sea', durationSeconds: 4 });
    const before = process.memoryUsage.rss();
    let peak = before;
    const watch = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage.rss());
    }, 20);
    try {
      const job = await make('generate', {
        prompt: '[[big:130mb]] the whole sea',
        durationSeconds: 4,
      });
      expect(job.status).toBe('completed');
      const [stored] = await gateway.database.query<{ size_bytes: number }>(
        'SELECT size_bytes FROM artifact ORDER BY created_at DESC LIMIT 1',
      );
      expect(Number(stored?.size_bytes)).toBeGreaterThan(130 * 1024 * 1024);
      // Reading it back streams as well.
      let readBytes = 0;
      const answer = await fetch(job.result.url);
      for await (const chunk of answer.body ?? []) readBytes += (chunk as Uint8Array).length;
      expect(readBytes).toBe(Number(stored?.size_bytes));
    } finally {
      clearInterval(watch);
    }
    // API, workers and this reader are one process here.
    expect((peak - before) / 1024 / 1024).toBeLessThan(100);
  });
});
