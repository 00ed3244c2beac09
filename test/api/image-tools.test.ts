/** /studio/image/edit, /studio/image/upscale, /studio/image/remove-background and /studio/image/batch. */
import sharp from 'sharp';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { discPicture, download, isPainted, pixelsOf, rightHalfMask } from '../harness/media.ts';

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
const gateway = useGateway({ media: 'full', settled: 'last' });
beforeAll(async () => {
  disc = gateway.media.put('/disc.png', await discPicture(160, 100));
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
      expect(width / height).toBeCloseTo(160 / 100, 1);
    }
  });

  it('changes the white area of the mask and keeps the black area', async () => {
    const answer = await image('edit', {
      prompt: 'a garden on the right',
      model: 'alpha-image-2',
      imageUrls: [disc],
      maskUrl: gateway.media.put('/mask.png', await rightHalfMask(160, 100)),
    });
    expect(answer.status).toBe(200);
    const [shown] = answer.body.data.images;
    const edited = await download(shown?.url ?? '');
    expect([await isPainted(edited, 0, 0.1), await isPainted(edited, 0.9, 1)]).toEqual([
      false,
      true,
    ]);
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

describe('POST /studio/image/upscale', () => {
  it.each([
    ['service_a', 6, 2, 16, 'Standard V2'],
    ['service_b', 6, 1, 2, null],
  ])(
    '%s × %d enlarges by exactly that factor, with a result that expires within the hour',
    async (service, scaleFactor, submits, credits, model) => {
      const answer = await image('upscale', { imageUrl: disc, service, scaleFactor });
      expect(answer.status).toBe(200);
      const [width, height] = [160 * scaleFactor, 100 * scaleFactor];
      expect(answer.body.data).toEqual({
        url: expect.stringContaining(gateway.url),
        imageUrl: answer.body.data.url,
        contentType: 'image/png',
        width,
        height,
        service,
        model,
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
      const inAnHourMs = Date.now() + 3_600_000;
      expect(Date.parse(answer.body.data.expiresAt)).toBeLessThanOrEqual(inAnHourMs);
      const expires = Number(new URL(answer.body.data.url).searchParams.get('expires'));
      expect(expires * 1000).toBeLessThan(inAnHourMs + 1000);
    },
  );

  it('keeps a persisted result for a day', async () => {
    const { data } = (await image('upscale', { imageUrl: disc, persistToStorage: true })).body;
    expect(data).toMatchObject({
      persisted: true,
      storagePath: expect.stringContaining(gateway.caller.organizationId),
    });
    expect(Date.parse(data.expiresAt) - Date.now()).toBeGreaterThan(23 * 3_600_000);
  });

  it.each([
    ['is not there', () => null, 'INVALID_INPUT_URL', ''],
    ['is no picture', () => Buffer.from('hello'), 'INVALID_INPUT_URL', ''],
    ['has too large a result', () => discPicture(1400, 1300), 'INVALID_REQUEST', '64000000'],
  ])(
    'rejects an input that %s before any credits are reserved',
    async (name, makeBytes, error, message) => {
      const bytes = await makeBytes();
      const imageUrl = `${gateway.media.origin}/${encodeURIComponent(name)}`;
      if (bytes) gateway.media.put(`/${encodeURIComponent(name)}`, bytes);
      const submits = await gateway.sandbox.submits({ match: 'topaz/upscale/image' });
      const answer = await image('upscale', { imageUrl, scaleFactor: 6 });
      expect(answer.status).toBe(400);
      expect(answer.body).toMatchObject({
        error,
        details: [{ path: 'imageUrl', message: expect.stringContaining(message) }],
      });
      expect(answer.body.jobId).toBeUndefined();
      expect(await gateway.sandbox.submits({ match: 'topaz/upscale/image' })).toEqual(submits);
    },
  );
});

describe('POST /studio/image/remove-background', () => {
  it('makes the background transparent and keeps the foreground', async () => {
    const answer = await image('remove-background', { imageUrl: disc });
    expect(answer.status).toBe(200);
    expect(answer.body.data).toMatchObject({
      contentType: 'image/png',
      width: 160,
      height: 100,
      model: 'General Use (Light)',
      operatingResolution: '1024x1024',
      persisted: false,
    });
    expect(answer.body.credits.used).toBe(0.5);
    const cut = await pixelsOf(await download(answer.body.data.url));
    for (const [x, y] of [
      [0, 0],
      [159, 0],
      [0, 99],
      [159, 99],
    ] as const) {
      expect(cut.at(x, y)[3]).toBe(0);
    }
    expect(cut.at(80, 50)).toEqual([192, 32, 32, 255]);
  });
});

describe('POST /studio/image/batch', () => {
  const pictures = async (count: number, name: string): Promise<string[]> => {
    const bytes = await discPicture(64, 64);
    return Array.from({ length: count }, (_, index) =>
      gateway.media.put(`/${name}-${index}.png`, bytes),
    );
  };

  it('charges the successful pictures and reports each failed picture in its position', async () => {
    const imageUrls = await pictures(4, 'some');
    for (const index of [1, 3]) {
      await gateway.sandbox.inject({ match: `some-${index}.png`, faults: 'fail-result:500' });
    }
    const before = await available();
    const answer = await image('batch', { operation: 'remove-background', imageUrls });
    expect(answer.status).toBe(200);
    const failed = {
      success: false,
      error: { code: 'PROVIDER_ERROR', message: expect.any(String) },
    };
    const cut = { success: true, data: expect.any(String), expiresAt: expect.any(String) };
    expect(answer.body.data).toEqual({
      total: 4,
      successful: 2,
      failed: 2,
      results: [cut, failed, cut, failed].map((result, index) => ({ ...result, index })),
    });
    for (const { data } of answer.body.data.results.filter(({ success }) => success)) {
      const picture = await pixelsOf(await download(data ?? ''));
      expect([picture.at(0, 0)[3], picture.at(32, 32)[3]]).toEqual([0, 255]);
    }
    expect(answer.body.credits).toMatchObject({ used: 1, cost: 1 });
    expect(before - (await available())).toBe(1_000_000);
  });

  it('neither processes nor reserves unreadable pictures, and does not charge a failed second step', async () => {
    const [one = '', two = ''] = await pictures(2, 'steps');
    const text = gateway.media.put('/no-picture.png', Buffer.from('no picture at all'));
    await gateway.sandbox.inject({ match: '"upscale_factor":2', faults: 'fail:422', times: 1 });
    const before = await available();
    const accepted = await image('batch', {
      operation: 'upscale',
      prompts: ['https://10.0.0.1/x.png', one, text, `${gateway.media.origin}/missing.png`, two],
      scaleFactor: 6,
      async: true,
    });
    expect(accepted.status).toBe(202);
    const done = await gateway.untilDone(accepted.body.data.jobId);
    const { result, billing } = done.body.data as unknown as {
      result: Batch;
      billing: { reserved: number; charged: number };
    };
    expect(result).toMatchObject({ total: 5, successful: 1, failed: 4 });
    expect(result.results.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4]);
    for (const index of [0, 2, 3]) {
      expect(result.results[index]?.error).toEqual({
        code: 'INVALID_INPUT_URL',
        message: expect.any(String),
      });
    }
    const enlarged = result.results.find(({ success }) => success);
    const large = await pixelsOf(await download(enlarged?.data ?? ''));
    expect([large.width, large.height]).toEqual([384, 384]);
    expect(billing).toMatchObject({ reserved: 32, charged: 16 });
    expect(before - (await available())).toBe(16_000_000);
  });

  it('neither processes nor reserves pictures at private addresses', async () => {
    const [one = ''] = await pictures(1, 'private');
    const imageUrls = ['https://10.0.0.1/x.png', one, 'https://nope.invalid/x.png'];
    const answer = await image('batch', { operation: 'remove-background', imageUrls });
    expect(answer.body.data).toMatchObject({ total: 3, successful: 1, failed: 2 });
    expect(answer.body.data.results[0]?.error).toEqual({
      code: 'INVALID_INPUT_URL',
      message: expect.stringContaining('cannot be read'),
    });
    expect(answer.body.credits).toMatchObject({ used: 0.5, cost: 0.5 });
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
  it('are measured and used by URL and by file id, and by anyone with a signed URL', async () => {
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
    const upscaled = await gateway.call<ToolBody>('/api/v1/studio/image/upscale', {
      key: stranger.key,
      body: { imageUrl: publicUrl },
    });
    expect(upscaled.body.data).toMatchObject({ width: 200, height: 120 });
    const film = await gateway.call<ToolBody>('/api/v1/studio/video/upscale', {
      body: { videoUrl: fileId },
    });
    expect(film.body.details[0]?.path).toBe('videoUrl');
  });
});
