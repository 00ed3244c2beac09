/** /studio/image/edit, /studio/image/upscale, /studio/image/remove-background and /studio/image/batch. */
import sharp from 'sharp';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { discPicture, download, pixelsOf } from '../harness/media.ts';

interface ToolBody {
  success: boolean;
  data: Picture & Batch;
  credits: { used: number; cost: number; remaining: number };
  error: string;
  details: { path: string; message: string }[];
  jobId: string;
}
interface Picture {
  url: string;
  imageUrl: string;
  images: { url: string; contentType: string; width: number; height: number }[];
  jobId: string;
  storagePath: string | null;
  expiresAt: string;
}
interface Batch {
  total: number;
  successful: number;
  failed: number;
  results: { success: boolean; index: number; data?: string; error?: { code: string } }[];
}

let disc: string;
const gateway = useGateway({ media: 'full' });
beforeAll(async () => {
  disc = gateway.media.put('/disc.png', await discPicture(320, 200));
});
afterEach(() => gateway.sandbox.clearFaults());

const image = (tool: string, body: object) =>
  gateway.call<ToolBody>(`/api/v1/studio/image/${tool}`, { body });
const available = async (): Promise<number> =>
  (await gateway.database.balance(gateway.caller.organizationId))?.available ?? 0;

describe('POST /studio/image/edit', () => {
  it('returns edited pictures that decode, and charges each one', async () => {
    const answer = await image('edit', {
      prompt: 'paint it blue',
      imageUrls: [disc],
      numImages: 2,
      outputFormat: 'webp',
    });
    expect(answer.status).toBe(200);
    expect(answer.body.data).toMatchObject({
      model: 'nano-banana',
      metadata: { outputImages: 2, prompt: 'paint it blue', aspectRatio: '8:5' },
    });
    expect(answer.body.credits).toMatchObject({ used: 7.8, cost: 7.8 });
    const original = await pixelsOf(await download(disc));
    for (const shown of answer.body.data.images) {
      const bytes = await download(shown.url);
      const { format, width, height } = await sharp(bytes).metadata();
      expect({ format, width, height }).toEqual({
        format: 'webp',
        width: shown.width,
        height: shown.height,
      });
      expect(shown.contentType).toBe('image/webp');
      // The shape follows the input.
      expect(width / height).toBeCloseTo(original.width / original.height, 1);
    }
  });

  it('changes the white area of the mask and keeps the black area', async () => {
    const white = { create: { width: 160, height: 200, channels: 3, background: '#fff' } } as const;
    const black = { create: { width: 320, height: 200, channels: 3, background: '#000' } } as const;
    const half = await sharp(white).png().toBuffer();
    const mask = await sharp(black)
      .composite([{ input: half, left: 160, top: 0 }])
      .png()
      .toBuffer();
    const answer = await image('edit', {
      prompt: 'a garden on the right',
      model: 'alpha-image-2',
      imageUrls: [disc],
      maskUrl: gateway.media.put('/mask.png', mask),
    });
    expect(answer.status).toBe(200);
    const [shown] = answer.body.data.images;
    const edited = await pixelsOf(await download(shown?.url ?? ''));
    expect(differsFromWhite(edited, 0)).toBe(0);
    expect(differsFromWhite(edited, 0.9)).toBeGreaterThan(0);
  });

  it('requires an input that can be read', async () => {
    const before = await available();
    const answer = await image('edit', {
      prompt: 'add a hat',
      imageUrls: [`${gateway.media.origin}/missing.png`],
    });
    expect(answer.status).toBe(400);
    expect(answer.body.error).toBe('PROVIDER_REJECTED_INPUT');
    expect(await available()).toBe(before);
  });
});

/** How many of the rightmost pixels, from this share of the width to a tenth more, are not white. */
function differsFromWhite(picture: Awaited<ReturnType<typeof pixelsOf>>, from: number): number {
  let count = 0;
  const start = Math.floor(picture.width * from);
  const end = Math.floor(picture.width * (from + 0.1));
  for (let y = 0; y < picture.height; y += 2) {
    for (let x = start; x < end; x += 2) {
      const [red, green, blue] = picture.at(x, y);
      if (red < 250 || green < 250 || blue < 250) count += 1;
    }
  }
  return count;
}

describe('POST /studio/image/upscale', () => {
  it.each([
    ['service_a', 2, 1, 8],
    ['service_a', 4, 1, 8],
    ['service_a', 6, 2, 16],
    ['service_b', 6, 1, 2],
  ])('%s × %d enlarges by exactly that factor', async (service, scaleFactor, submits, credits) => {
    const answer = await image('upscale', { imageUrl: disc, service, scaleFactor });
    expect(answer.status).toBe(200);
    const [width, height] = [320 * scaleFactor, 200 * scaleFactor];
    expect(answer.body.data).toEqual({
      url: expect.stringContaining(gateway.url),
      imageUrl: answer.body.data.url,
      contentType: 'image/png',
      width,
      height,
      service,
      model: service === 'service_a' ? 'Standard V2' : null,
      scaleFactor,
      persisted: false,
      storagePath: null,
      expiresAt: expect.any(String),
    });
    expect(answer.body.credits).toMatchObject({ used: credits, cost: credits });
    const large = await pixelsOf(await download(answer.body.data.url));
    expect([large.width, large.height]).toEqual([width, height]);
    expect(large.at(width / 2, height / 2)).toEqual([192, 32, 32, 255]);
    expect(large.at(2, 2)).toEqual([255, 255, 255, 255]);
    const [job] = await gateway.database.query<{ id: string }>(
      'SELECT id FROM job ORDER BY created_at DESC LIMIT 1',
    );
    expect(await gateway.sandbox.submits({ jobId: job?.id ?? '' })).toHaveLength(submits);
  });

  it('charges nothing when the second step fails', async () => {
    const before = await available();
    await gateway.sandbox.inject({ match: '"upscale_factor":2', faults: 'fail-result:500' });
    const answer = await image('upscale', { imageUrl: disc, scaleFactor: 6 });
    expect(answer.body.error).toBe('PROVIDER_ERROR');
    expect(await available()).toBe(before);
  });

  it('keeps a persisted result for a day, and lets another result expire within the hour', async () => {
    const kept = await image('upscale', { imageUrl: disc, persistToStorage: true });
    expect(kept.body.data).toMatchObject({
      persisted: true,
      storagePath: expect.stringContaining(gateway.caller.organizationId),
    });
    const passing = await image('upscale', { imageUrl: disc });
    const untilMs = (answer: typeof kept) => Date.parse(answer.body.data.expiresAt) - Date.now();
    expect(untilMs(kept)).toBeGreaterThan(23 * 3_600_000);
    expect(untilMs(passing)).toBeLessThanOrEqual(3_600_000);
    expect(Number(new URL(passing.body.data.url).searchParams.get('expires')) * 1000).toBeLessThan(
      Date.now() + 3_601_000,
    );
  });

  it.each([
    ['is not there', '/gone.png', undefined],
    ['is no picture', '/text.png', Buffer.from('hello')],
  ])('rejects an input that %s before any credits are reserved', async (_name, path, bytes) => {
    if (bytes) gateway.media.put(path, bytes);
    const imageUrl = `${gateway.media.origin}${path}`;
    const submits = await gateway.sandbox.submits({ match: 'topaz/upscale/image' });
    const answer = await image('upscale', { imageUrl });
    expect(answer.status).toBe(400);
    expect(answer.body.error).toBe('INVALID_INPUT_URL');
    expect(answer.body.details[0]?.path).toBe('imageUrl');
    expect(await gateway.sandbox.submits({ match: 'topaz/upscale/image' })).toEqual(submits);
  });

  it('rejects a private address, and a result beyond the pixel limit', async () => {
    const inside = await image('upscale', { imageUrl: 'https://127.0.0.1/a.png' });
    expect(inside.body).toMatchObject({
      error: 'INVALID_INPUT_URL',
      details: [{ path: 'imageUrl' }],
    });
    const large = gateway.media.put('/large.png', await discPicture(2500, 2000));
    const answer = await image('upscale', { imageUrl: large, scaleFactor: 4 });
    expect(answer.body).toMatchObject({
      error: 'INVALID_REQUEST',
      details: [{ path: 'imageUrl', message: expect.stringContaining('64000000') }],
    });
  });
});

describe('POST /studio/image/remove-background', () => {
  it('makes the background transparent and keeps the foreground', async () => {
    const answer = await image('remove-background', { imageUrl: disc });
    expect(answer.status).toBe(200);
    expect(answer.body.data).toMatchObject({
      contentType: 'image/png',
      width: 320,
      height: 200,
      model: 'General Use (Light)',
      operatingResolution: '1024x1024',
      persisted: false,
    });
    expect(answer.body.credits.used).toBe(0.5);
    const cut = await pixelsOf(await download(answer.body.data.url));
    for (const [x, y] of [
      [0, 0],
      [319, 0],
      [0, 199],
      [319, 199],
    ] as const) {
      expect(cut.at(x, y)[3]).toBe(0);
    }
    expect(cut.at(160, 100)).toEqual([192, 32, 32, 255]);
  });
});

describe('POST /studio/image/batch', () => {
  const pictures = async (count: number, name: string): Promise<string[]> => {
    const bytes = await discPicture(64, 64);
    return Array.from({ length: count }, (_, index) =>
      gateway.media.put(`/${name}-${index}.png`, bytes),
    );
  };

  it('processes every picture, in order', async () => {
    const imageUrls = await pictures(4, 'all');
    const answer = await image('batch', { operation: 'remove-background', imageUrls });
    expect(answer.status).toBe(200);
    expect(answer.body.data).toEqual({
      total: 4,
      successful: 4,
      failed: 0,
      results: imageUrls.map((_, index) => ({
        success: true,
        index,
        data: expect.any(String),
        expiresAt: expect.any(String),
      })),
    });
    expect(answer.body.credits.used).toBeCloseTo(2);
    for (const result of answer.body.data.results) {
      const cut = await pixelsOf(await download(result.data ?? ''));
      expect([cut.at(0, 0)[3], cut.at(32, 32)[3]]).toEqual([0, 255]);
    }
  });

  it('charges the successful pictures and reports each failed picture in its position', async () => {
    const imageUrls = await pictures(5, 'some');
    for (const index of [1, 3]) {
      await gateway.sandbox.inject({ match: `some-${index}.png`, faults: 'fail-result:500' });
    }
    const before = await available();
    const answer = await image('batch', { operation: 'remove-background', imageUrls });
    expect(answer.status).toBe(200);
    expect(answer.body.data).toMatchObject({ total: 5, successful: 3, failed: 2 });
    expect(answer.body.data.results.map((result) => [result.index, result.success])).toEqual([
      [0, true],
      [1, false],
      [2, true],
      [3, false],
      [4, true],
    ]);
    expect(answer.body.data.results[1]?.error?.code).toBe('PROVIDER_ERROR');
    expect(answer.body.credits).toMatchObject({ used: 1.5, cost: 1.5 });
    expect(before - (await available())).toBe(1_500_000);
  });

  it('upscales, fails only unreadable pictures, and does not charge a failed second step', async () => {
    const [good = '', broken = ''] = await pictures(2, 'steps');
    const missing = `${gateway.media.origin}/steps-missing.png`;
    await gateway.sandbox.inject({ match: '"upscale_factor":2', faults: 'fail:422', times: 1 });
    const before = await available();
    const answer = await image('batch', {
      operation: 'upscale',
      prompts: [good, missing, broken],
      scaleFactor: 6,
    });
    expect(answer.status).toBe(200);
    expect(answer.body.data).toMatchObject({ total: 3, successful: 1, failed: 2 });
    expect(answer.body.data.results[1]).toMatchObject({ success: false, index: 1 });
    const enlarged = answer.body.data.results.find((result) => result.success);
    const large = await pixelsOf(await download(enlarged?.data ?? ''));
    expect([large.width, large.height]).toEqual([384, 384]);
    expect(before - (await available())).toBe(16_000_000);
  });

  it.each(['remove-background', 'upscale'])(
    '%s: unreadable inputs are neither processed nor reserved, and the others are',
    async (operation) => {
      const [one = '', two = ''] = await pictures(2, `some-of-${operation}`);
      const imageUrls = ['https://10.0.0.1/x.png', one, 'https://nope.invalid/x.png', two];
      const before = await available();
      const accepted = await image('batch', { operation, imageUrls, async: true });
      expect(accepted.status).toBe(202);
      const done = await gateway.untilDone(accepted.body.data.jobId);
      const { result, billing } = done.body.data as unknown as {
        result: Batch;
        billing: { reserved: number; charged: number };
      };
      expect(result).toMatchObject({ total: 4, successful: 2, failed: 2 });
      expect(result.results.map(({ index, success }) => [index, success])).toEqual([
        [0, false],
        [1, true],
        [2, false],
        [3, true],
      ]);
      expect(result.results[0]?.error).toEqual({
        code: 'INVALID_INPUT_URL',
        message: expect.stringContaining('cannot be read'),
      });
      expect(billing.reserved).toBe(billing.charged);
      expect(before - (await available())).toBe(billing.charged * 1e6);
    },
  );

  it('upscales a valid picture next to an invalid and a missing one', async () => {
    const [good = ''] = await pictures(1, 'alone');
    const text = gateway.media.put('/no-picture.png', Buffer.from('no picture at all'));
    const imageUrls = [text, good, `${gateway.media.origin}/alone-missing.png`];
    const body = { operation: 'upscale', imageUrls, scaleFactor: 6 };
    const answer = await image('batch', body);
    expect(answer.status).toBe(200);
    expect(answer.body.data).toMatchObject({ total: 3, successful: 1, failed: 2 });
    const [wrong, large, missing] = answer.body.data.results;
    expect([wrong?.error?.code, missing?.error?.code]).toEqual(Array(2).fill('INVALID_INPUT_URL'));
    const picture = await pixelsOf(await download(large?.data ?? ''));
    expect(picture.width).toBe(384);
  });

  it('is rejected as a whole, before any credits are reserved, when no input is readable', async () => {
    const imageUrls = ['https://10.0.0.1/x.png', `${gateway.media.origin}/gone.png`];
    const answer = await image('batch', { operation: 'upscale', imageUrls });
    expect([answer.status, answer.body.error]).toEqual([400, 'INVALID_INPUT_URL']);
    expect(answer.body.details.map(({ path }) => path)).toEqual(['imageUrls.0', 'imageUrls.1']);
    expect(answer.body.jobId).toBeUndefined();
  });

  it('fails as a whole and is released when no picture succeeds', async () => {
    const before = await available();
    const imageUrls = [`${gateway.media.origin}/none-1.png`, `${gateway.media.origin}/none-2.png`];
    const answer = await image('batch', { operation: 'remove-background', imageUrls });
    expect(answer.body.error).toBe('PROVIDER_REJECTED_INPUT');
    expect(await available()).toBe(before);
  });
});

describe('inputs that are stored files', () => {
  it('are measured and used by URL and by file id, and only by their organization', async () => {
    const bytes = await discPicture(100, 60);
    const granted = await gateway.call<{ fileId: string; uploadUrl: string; publicUrl: string }>(
      '/api/v1/storage/upload-url',
      { body: { contentType: 'image/png', size: bytes.length } },
    );
    const { fileId, uploadUrl, publicUrl } = granted.body;
    const put = await fetch(uploadUrl, {
      method: 'PUT',
      body: new Uint8Array(bytes),
      headers: { 'content-type': 'image/png' },
    });
    expect(put.ok).toBe(true);
    for (const imageUrl of [fileId, publicUrl]) {
      const answer = await image('upscale', { imageUrl });
      expect(answer.body.data).toMatchObject({ width: 200, height: 120 });
    }
    const stranger = await gateway.newCaller({ credits: 100 });
    const upscaled = (imageUrl: string) =>
      gateway.call<ToolBody>('/api/v1/studio/image/upscale', {
        key: stranger.key,
        body: { imageUrl },
      });
    for (const imageUrl of [fileId, publicUrl.replace(/\?.*/, '')]) {
      expect((await upscaled(imageUrl)).body).toMatchObject({
        error: 'INVALID_INPUT_URL',
        details: [{ path: 'imageUrl' }],
      });
    }
    // A signed URL opens for anyone who has it.
    expect((await upscaled(publicUrl)).body.data).toMatchObject({ width: 200, height: 120 });
    const film = await gateway.call<ToolBody>('/api/v1/studio/video/upscale', {
      body: { videoUrl: fileId },
    });
    expect(film.body.details[0]?.path).toBe('videoUrl');
  });
});
