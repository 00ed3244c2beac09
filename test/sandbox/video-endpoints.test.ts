/** Every video endpoint returns a real H.264 MP4 of the documented size and length. */
import { ALL_FORMATS, BufferSource, Input } from 'mediabunny';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { startSandbox, stopSandbox, type SandboxProcess } from './harness.ts';
import { probeVideo } from '../../dev/sandbox/media/probe.ts';

let sandbox: SandboxProcess;
/** A tall picture, 80×120. */
let tall: string;

beforeAll(async () => {
  sandbox = await startSandbox({ SANDBOX_LATENCY_MS: '1' });
  const create = { width: 80, height: 120, channels: 3, background: '#d00' } as const;
  const png = await sharp({ create }).png().toBuffer();
  tall = `data:image/png;base64,${png.toString('base64')}`;
});
afterAll(async () => stopSandbox(sandbox));

async function run(endpoint: string, input: object) {
  const submitted = await sandbox.submit(endpoint, input);
  const { result } = await sandbox.finish(submitted);
  return result;
}

async function inspect(file: { url: string; file_size: number; content_type: string }) {
  const response = await fetch(file.url);
  expect(response.headers.get('content-type')).toBe('video/mp4');
  const bytes = Buffer.from(await response.bytes());
  expect(bytes.length).toBe(file.file_size);
  // An AVC sample entry: the track really is H.264.
  expect(bytes.includes('avc1')).toBe(true);
  return probeVideo(bytes);
}

type Row = [endpoint: string, input: object, width: number, height: number, seconds: number];

describe('video endpoints', () => {
  it.each<Row>([
    ['fal-ai/veo3.1', {}, 1280, 720, 8],
    ['fal-ai/veo3.1', { duration: '4s', aspect_ratio: '9:16', resolution: '1080p' }, 1080, 1920, 4],
    ['fal-ai/veo3.1/image-to-video', { image_url: 'tall', duration: '6s' }, 720, 1280, 6],
    ['fal-ai/kling-video/v3/pro/text-to-video', { aspect_ratio: '1:1' }, 1080, 1080, 5],
    [
      'fal-ai/kling-video/v3/pro/image-to-video',
      { start_image_url: 'tall', duration: '3' },
      1080,
      1620,
      3,
    ],
    ['bytedance/seedance-2.0/text-to-video', { resolution: '480p', duration: '4' }, 854, 480, 4],
    ['bytedance/seedance-2.5/text-to-video', { resolution: '480p', duration: '30' }, 854, 480, 30],
    ['bytedance/seedance-2.5/image-to-video', { image_url: 'tall', duration: '4' }, 720, 1080, 4],
    [
      'bytedance/seedance-2.0/reference-to-video',
      { image_urls: ['tall'], aspect_ratio: '4:3', duration: '4' },
      960,
      720,
      4,
    ],
  ])('%s %j is %ix%i, %i s', async (...[endpoint, input, width, height, seconds]) => {
    const body = JSON.stringify({ prompt: 'a wave', ...input }).replaceAll('"tall"', `"${tall}"`);
    const result = await run(endpoint, z.looseObject({}).parse(JSON.parse(body)));
    expect(result, JSON.stringify(result.body)).toMatchObject({ status: 200 });
    const facts = await inspect(result.body.video);
    expect(facts).toEqual({ width, height, durationSeconds: seconds, hasAudio: true });
    expect('seed' in result.body).toBe(endpoint.startsWith('bytedance/'));
  });

  it.each([
    ['fal-ai/veo3.1', { duration: '4s' }],
    ['fal-ai/kling-video/v3/pro/text-to-video', { duration: '3' }],
    ['bytedance/seedance-2.0/text-to-video', { resolution: '480p', duration: '4' }],
  ])('%s returns a silent video if the request excludes sound', async (endpoint, input) => {
    const result = await run(endpoint, { prompt: 'a wave', generate_audio: false, ...input });
    expect(await inspect(result.body.video)).toMatchObject({ hasAudio: false });
  });

  it('returns sound that a player can read, as long as the video', async () => {
    const result = await run('fal-ai/veo3.1', { prompt: 'a wave', duration: '4s' });
    const bytes = Buffer.from(await (await fetch(result.body.video.url)).bytes());
    const input = new Input({ source: new BufferSource(bytes), formats: ALL_FORMATS });
    const track = await input.getPrimaryAudioTrack();
    expect(track?.codec).toBe('mp3');
    expect(Math.abs(((await track?.computeDuration()) ?? 0) - 4)).toBeLessThan(0.1);
    const { packetCount } = (await track?.computePacketStats()) ?? { packetCount: 0 };
    expect(packetCount).toBeGreaterThan(100);
  });

  it.each([
    ['[[silent-film]]', { hasAudio: false, durationSeconds: 4, width: 1280 }],
    ['[[short-film:2]]', { hasAudio: true, durationSeconds: 2, width: 1280 }],
    ['[[small-media:2]]', { hasAudio: true, durationSeconds: 4, width: 640 }],
  ])('returns less than the request asks for if a fault says so: %s', async (marker, facts) => {
    const result = await run('fal-ai/veo3.1', { prompt: `${marker} a wave`, duration: '4s' });
    expect(await inspect(result.body.video)).toMatchObject(facts);
  });

  it('upscales a video and removes its background', async () => {
    const input = { prompt: 'a wave', resolution: '480p', duration: '4' };
    const made = await run('bytedance/seedance-2.0/text-to-video', input);
    const video_url = made.body.video.url;
    const upscaled = await run('fal-ai/topaz/upscale/video', { video_url, upscale_factor: 2 });
    const expected = { width: 1708, height: 960, durationSeconds: 4, hasAudio: true };
    expect(await inspect(upscaled.body.video)).toEqual(expected);
    const cut = await run('fal-ai/birefnet/v2/video', { video_url, output_mask: true });
    expect(await inspect(cut.body.mask_video)).toMatchObject({ width: 854 });
    expect(cut.body.video).toMatchObject({ width: 854, height: 480, duration: 4 });
    const { fps, num_frames: frames } = cut.body.video;
    expect(frames).toBe(fps * 4);
  });

  it.each([
    ['fal-ai/veo3.1', { duration: 8 }],
    ['fal-ai/veo3.1', { duration: '7s' }],
    ['fal-ai/kling-video/v3/pro/text-to-video', { duration: '16' }],
    ['fal-ai/kling-video/v3/pro/text-to-video', { multi_prompt: [{ prompt: 'two' }] }],
    ['fal-ai/kling-video/v3/pro/image-to-video', { image_url: 'data:,' }],
    ['bytedance/seedance-2.0/text-to-video', { duration: 8 }],
    ['bytedance/seedance-2.0/text-to-video', { duration: '16' }],
    ['bytedance/seedance-2.0/reference-to-video', { image_urls: Array(10).fill('data:,') }],
    ['fal-ai/topaz/upscale/video', { video_url: 'data:,no-video' }],
  ])('%s refuses %j', async (endpoint, input) => {
    const result = await run(endpoint, { prompt: 'a wave', ...input });
    expect(result.status).toBe(422);
    expect(result.body).toMatchObject({ detail: [{ type: expect.any(String) }] });
  });
});
