/** /studio/video/generate, upscale and remove-background. */
import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { download, drawDisc, readFilm, makeFilm } from '../harness/media.ts';
import { createVideoCalls } from './video-jobs.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });
const { video, make } = createVideoCalls(gateway);

const readArtifacts = (jobId: string) =>
  gateway.database.query<{ sha256: string; size_bytes: string }>(
    'SELECT sha256, size_bytes FROM artifact WHERE job_id = $1',
    [jobId],
  );

describe('POST /studio/video/generate', () => {
  it.each([
    ['veo', { durationSeconds: 4, aspectRatio: '9:16', generateAudio: false }, [720, 1280], 4, 80],
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
      const facts = await readFilm(bytes);
      expect(facts).toMatchObject({ codec: 'avc', width: size[0], height: size[1] });
      expect(Math.abs(facts.durationSeconds - seconds)).toBeLessThan(0.5);
      expect(facts.frames).toBeGreaterThan(seconds);
      expect(job.result.durationSeconds).toBeCloseTo(facts.durationSeconds, 3);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      expect(await readArtifacts(job.jobId)).toMatchObject([{ sha256 }]);
    },
  );

  it.each([
    ['veo', 'last_frame_url'],
    ['kling-3.0-pro', 'end_image_url'],
    ['seedance-2.5', 'end_image_url'],
    ['seedance-2.0', 'end_image_url'],
  ])('%s goes from a first to a last frame, at the price of its estimate', async (model, field) => {
    const [first, last] = [await drawDisc(640, 360), await drawDisc(320, 180)];
    const frames = {
      imageUrl: gateway.media.put('/first.png', first),
      endImageUrl: gateway.media.put('/last.png', last),
    };
    const body = { prompt: 'waves at night', model, durationSeconds: 4, ...frames };
    const estimate = await gateway.call<{ data: { credits: number } }>(
      '/api/v1/studio/video/generate/estimate',
      { body },
    );
    const { credits } = estimate.body.data;
    const job = await make('generate', body);
    expect(job).toMatchObject({ status: 'completed', billing: { charged: credits } });
    const [submit] = await gateway.sandbox.submits({ jobId: job.jobId });
    expect((await download(String(submit?.body[field]))).equals(last)).toBe(true);
    const unreadable = { ...body, endImageUrl: gateway.media.put('/no.png', Buffer.from('text')) };
    expect(await video('generate', unreadable)).toMatchObject({
      status: 400,
      body: { details: [{ path: 'endImageUrl' }] },
    });
  });
});

describe('tools for existing videos', () => {
  let film: Buffer;
  beforeAll(async () => {
    film = await makeFilm({ width: 320, height: 180, durationSeconds: 4, hasAudio: true });
  });

  it('include POST /studio/video/upscale, which reads the video once and completely, doubles its size and charges by the second', async () => {
    const padding = Buffer.alloc(8 + 8 * 1024 * 1024);
    padding.writeUInt32BE(padding.length);
    padding.write('free', 4, 'latin1');
    const padded = Buffer.concat([film, padding]);
    const job = await make('upscale', { videoUrl: gateway.media.put('/padded.mp4', padded) });
    expect(gateway.media.sentBytes('/padded.mp4')).toBe(padded.length);
    expect(job).toMatchObject({
      status: 'completed',
      billing: { state: 'charged', reserved: 4, charged: 4 },
      result: { width: 640, height: 360, format: 'mp4', model: 'video-upscale' },
    });
    const facts = await readFilm(await download(job.result.url));
    expect([facts.width, facts.height]).toEqual([640, 360]);
    expect(Math.abs(facts.durationSeconds - 4)).toBeLessThan(0.5);
  });

  it('include POST /studio/video/remove-background, which keeps the size and the duration', async () => {
    const videoUrl = gateway.media.put('/film.mp4', film);
    const job = await make('remove-background', { videoUrl });
    expect(job).toMatchObject({
      status: 'completed',
      billing: { state: 'charged', charged: 8 },
      result: { width: 320, height: 180, model: 'video-remove-background' },
    });
    const facts = await readFilm(await download(job.result.url));
    expect(Math.abs(facts.durationSeconds - 4)).toBeLessThan(0.5);
  });

  it.each([
    ['a page', () => Buffer.from('<!doctype html><p>no film</p>')],
    ['nothing', () => Buffer.alloc(0)],
    ['half a film', () => film.subarray(0, film.length / 2)],
  ])('reject %s before any credits are reserved', async (_name, bytes) => {
    const videoUrl = gateway.media.put('/wrong.mp4', bytes());
    const count = 'SELECT count(*) FROM reservation';
    const before = await gateway.database.query(count);
    expect(await video('upscale', { videoUrl })).toMatchObject({
      status: 400,
      body: { error: 'INVALID_INPUT_URL', details: [{ path: 'videoUrl' }] },
    });
    expect(await gateway.database.query(count)).toEqual(before);
  });
});
