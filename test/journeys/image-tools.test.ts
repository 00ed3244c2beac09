/** /studio/image/edit, /studio/image/upscale, /studio/image/remove-background and /studio/image/batch. */
import sharp, { type Sharp } from 'sharp';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { drawDisc, download, isPainted, readPixels, drawHalfMask } from '../harness/media.ts';
import { makeForm } from '../harness/uploads.ts';

interface Picture {
  url: string;
  images: { url: string; contentType: string; width: number; height: number }[];
  jobId: string;
  expiresAt: string;
}
interface Batch {
  results: { success: boolean; index: number; data?: string }[];
}

let disc: string;
const gateway = useGateway({ media: 'full', settled: 'last' });
beforeAll(async () => {
  disc = gateway.media.put('/disc.png', await drawDisc(160, 100));
});
afterEach(() => gateway.sandbox.clearFaults());

const callTool = (tool: string, body: object) =>
  gateway.call<StudioBody<Picture & Batch>>(`/api/v1/studio/image/${tool}`, { body });
const readAvailable = async (): Promise<number> =>
  (await gateway.database.balance(gateway.caller.organizationId))?.available ?? 0;

describe('POST /studio/image/edit', () => {
  it('returns edited pictures that decode, and charges each one', async () => {
    const answer = await callTool('edit', {
      prompt: 'paint it blue',
      imageUrls: [disc],
      numImages: 2,
      outputFormat: 'webp',
    });
    expect(answer).toMatchObject({
      status: 200,
      body: {
        data: {
          model: 'nano-banana',
          images: [{ contentType: 'image/webp' }, { contentType: 'image/webp' }],
          metadata: { outputImages: 2, prompt: 'paint it blue', aspectRatio: '8:5' },
        },
        credits: { used: 7.8, cost: 7.8 },
      },
    });
    for (const { url, width, height } of answer.body.data.images) {
      const properties = { format: 'webp', width, height };
      expect(await sharp(await download(url)).metadata()).toMatchObject(properties);
      // The shape follows the input.
      expect(width / height).toBeCloseTo(160 / 100, 1);
    }
  });

  it('changes the white area of the mask and keeps the black area', async () => {
    const answer = await callTool('edit', {
      prompt: 'a garden on the right',
      model: 'alpha-image-2',
      imageUrls: [disc],
      maskUrl: gateway.media.put('/mask.png', await drawHalfMask(160, 100)),
    });
    const edited = await download(answer.body.data.images[0]?.url ?? '');
    expect(await isPainted(edited, 0, 0.1)).toBe(false);
    expect(await isPainted(edited, 0.9, 1)).toBe(true);
  });
});

describe('POST /images/edits', () => {
  /** Sends a photo whose left half is bright, as a phone stores it, with a mask of the same bytes. */
  async function edit(mask: Sharp) {
    const stored = sharp(await drawHalfMask(160, 100)).rotate(90);
    const photo = await stored.jpeg().withMetadata({ orientation: 8 }).toBuffer();
    return gateway.call<{ data: { url: string }[]; error: { message: string; param: string } }>(
      '/api/v1/images/edits',
      {
        body: makeForm({
          prompt: 'a garden on the left',
          model: 'gpt-image-2',
          response_format: 'url',
          image: new File([new Uint8Array(photo)], 'photo.jpg'),
          mask: new File([new Uint8Array(await mask.png().toBuffer())], 'mask.png'),
        }),
      },
    );
  }

  it('changes the transparent area of the mask, whatever its colors', async () => {
    const bright = { width: 80, height: 100, channels: 4, background: '#fff' } as const;
    const left = sharp({ create: { ...bright, background: { r: 255, g: 255, b: 255, alpha: 0 } } });
    const mask = left.extend({ right: 80, background: '#fff' });
    const answer = await edit(mask);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    const edited = await readPixels(await download(answer.body.data[0]?.url ?? ''));
    // The sandbox draws in color; the right half of the photo is white.
    const [red, green, blue] = edited.at(Math.floor(edited.width * 0.95), edited.height / 2);
    expect(Math.min(red, green, blue)).toBeGreaterThan(250);
    // The left half of the photo is black. Shapes are drawn at random places.
    const places = Array.from({ length: 40 }, (_, index) => (index + 0.5) / 40);
    const isChanged = places.some((down) =>
      places.some((across) => {
        const color = edited.at(
          Math.floor(edited.width * across * 0.45),
          Math.floor(edited.height * down),
        );
        return Math.max(...color.slice(0, 3)) > 10;
      }),
    );
    expect(isChanged).toBe(true);
  });

  it('rejects a mask without an alpha channel', async () => {
    const answer = await edit(sharp(await drawHalfMask(160, 100)).removeAlpha());
    expect(answer).toMatchObject({
      status: 400,
      body: {
        error: {
          param: 'mask',
          message:
            'mask: must have an alpha channel: the transparent area is edited (received a PNG without one)',
        },
      },
    });
  });
});

describe('POST /studio/image/upscale', () => {
  it.each([
    ['service_a', 6, 2, 16, 'Standard V2'],
    ['service_b', 6, 1, 2, null],
  ])(
    '%s × %d enlarges by exactly that factor, with a result that expires within the hour',
    async (service, scaleFactor, submits, credits, model) => {
      const answer = await callTool('upscale', { imageUrl: disc, service, scaleFactor });
      expect(answer.status).toBe(200);
      const [width, height] = [160 * scaleFactor, 100 * scaleFactor];
      const { url, expiresAt } = answer.body.data;
      expect(answer.body.data).toEqual({
        url: expect.stringContaining(gateway.url),
        imageUrl: url,
        contentType: 'image/png',
        width,
        height,
        service,
        model,
        scaleFactor,
        persisted: false,
        storagePath: null,
        contentCredentials: 'gateway',
        expiresAt: expect.any(String),
      });
      expect(answer.body.credits).toMatchObject({ used: credits, cost: credits });
      const large = await readPixels(await download(url));
      expect([large.width, large.height]).toEqual([width, height]);
      expect(large.at(width / 2, height / 2)).toEqual([192, 32, 32, 255]);
      expect(large.at(2, 2)).toEqual([255, 255, 255, 255]);
      const job = (await gateway.database.jobs(gateway.caller.organizationId)).at(-1);
      expect(await gateway.sandbox.submits({ jobId: job?.id ?? '' })).toHaveLength(submits);
      const inAnHourMs = Date.now() + 3_600_000;
      expect(Date.parse(expiresAt)).toBeLessThanOrEqual(inAnHourMs);
      const expires = Number(new URL(url).searchParams.get('expires'));
      expect(expires * 1000).toBeLessThan(inAnHourMs + 1000);
    },
  );

  it('keeps a persisted result for a day', async () => {
    const { data } = (await callTool('upscale', { imageUrl: disc, persistToStorage: true })).body;
    expect(data).toMatchObject({
      persisted: true,
      storagePath: expect.stringContaining(gateway.caller.organizationId),
    });
    expect(Date.parse(data.expiresAt) - Date.now()).toBeGreaterThan(23 * 3_600_000);
  });

  it.each([
    ['is not there', () => null, 'INVALID_INPUT_URL', ''],
    ['is no picture', () => Buffer.from('hello'), 'INVALID_INPUT_URL', ''],
    ['has too large a result', () => drawDisc(1400, 1300), 'INVALID_REQUEST', '64000000'],
  ])(
    'rejects an input that %s before any credits are reserved',
    async (name, makeBytes, error, message) => {
      const bytes = await makeBytes();
      const path = `/${encodeURIComponent(name)}`;
      const imageUrl = gateway.media.origin + path;
      if (bytes) gateway.media.put(path, bytes);
      const submits = await gateway.sandbox.submits({ match: 'topaz/upscale/image' });
      const answer = await callTool('upscale', { imageUrl, scaleFactor: 6 });
      const details = [{ path: 'imageUrl', message: expect.stringContaining(message) }];
      expect(answer).toMatchObject({ status: 400, body: { error, details } });
      expect(answer.body.jobId).toBeUndefined();
      expect(await gateway.sandbox.submits({ match: 'topaz/upscale/image' })).toEqual(submits);
    },
  );
});

it('POST /studio/image/remove-background makes the background transparent and keeps the foreground', async () => {
  const answer = await callTool('remove-background', { imageUrl: disc });
  expect(answer.body).toMatchObject({
    data: {
      contentType: 'image/png',
      width: 160,
      height: 100,
      model: 'General Use (Light)',
      operatingResolution: '1024x1024',
      persisted: false,
    },
    credits: { used: 0.5 },
  });
  const cut = await readPixels(await download(answer.body.data.url));
  for (const x of [0, 159]) expect([cut.at(x, 0)[3], cut.at(x, 99)[3]]).toEqual([0, 0]);
  expect(cut.at(80, 50)).toEqual([192, 32, 32, 255]);
});

describe('POST /studio/image/batch', () => {
  const servePictures = async (...names: string[]): Promise<string[]> => {
    const bytes = await drawDisc(64, 64);
    return names.map((name) => gateway.media.put(`/${name}.png`, bytes));
  };

  const unreadable = {
    success: false,
    error: { code: 'INVALID_INPUT_URL', message: expect.any(String) },
  };

  it('charges the successful pictures and reports each failed picture in its position', async () => {
    const imageUrls = await servePictures('some-0', 'some-1', 'some-2', 'some-3');
    imageUrls.push('https://10.0.0.1/x.png');
    await gateway.sandbox.inject({ match: 'birefnet', faults: 'fail-result:500', times: 2 });
    const before = await readAvailable();
    const answer = await callTool('batch', { operation: 'remove-background', imageUrls });
    const error = { code: 'PROVIDER_ERROR', message: expect.any(String) };
    const failed = { success: false, error };
    const stored = { contentCredentials: 'gateway', expiresAt: expect.any(String) };
    const cut = { success: true, data: expect.any(String), ...stored };
    expect(answer.body.data).toEqual({
      total: 5,
      successful: 2,
      failed: 3,
      results: expect.any(Array),
    });
    const { results } = answer.body.data;
    // The calls run at the same time, so any two of them can meet the faults.
    expect(results.slice(0, 4).toSorted((a, b) => Number(a.success) - Number(b.success))).toEqual(
      [failed, failed, cut, cut].map((result) => ({ ...result, index: expect.any(Number) })),
    );
    expect(results.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4]);
    expect(results[4]).toEqual({ ...unreadable, index: 4 });
    for (const { data } of answer.body.data.results.filter(({ success }) => success)) {
      const picture = await readPixels(await download(data ?? ''));
      expect([picture.at(0, 0)[3], picture.at(32, 32)[3]]).toEqual([0, 255]);
    }
    expect(answer.body.credits).toMatchObject({ used: 1, cost: 1 });
    expect(before - (await readAvailable())).toBe(1_000_000);
  });

  it('neither processes nor reserves unreadable pictures, and does not charge a failed second step', async () => {
    const [one] = await servePictures('steps-0');
    const two = gateway.media.put('/steps-1.png', await drawDisc(32, 32));
    const text = gateway.media.put('/no-picture.png', Buffer.from('no picture at all'));
    await gateway.sandbox.inject({ match: '"upscale_factor":2', faults: 'fail:422', times: 1 });
    const before = await readAvailable();
    const accepted = await callTool('batch', {
      operation: 'upscale',
      prompts: ['https://10.0.0.1/x.png', one, text, `${gateway.media.origin}/missing.png`, two],
      scaleFactor: 6,
      async: true,
    });
    expect(accepted.status).toBe(202);
    const { result, billing } = (await gateway.untilDone(accepted.body.data.jobId)).body.data;
    const { results } = result as unknown as Batch;
    expect(result).toMatchObject({
      total: 5,
      successful: 1,
      failed: 4,
      results: [unreadable, {}, unreadable, unreadable, {}].map((each, index) => ({
        ...each,
        index,
      })),
    });
    const enlarged = results.find(({ success }) => success);
    const large = await readPixels(await download(enlarged?.data ?? ''));
    const size = enlarged?.index === 1 ? 384 : 192;
    expect([large.width, large.height]).toEqual([size, size]);
    expect(billing).toMatchObject({ reserved: 32, charged: 16 });
    expect(before - (await readAvailable())).toBe(16_000_000);
  });

  it('is rejected as a whole, before any credits are reserved, when no input is readable', async () => {
    const imageUrls = ['https://10.0.0.1/x.png', `${gateway.media.origin}/gone.png`];
    const answer = await callTool('batch', { operation: 'upscale', imageUrls });
    expect([answer.status, answer.body.error]).toEqual([400, 'INVALID_INPUT_URL']);
    expect(answer.body.details.map(({ path }) => path)).toEqual(['imageUrls.0', 'imageUrls.1']);
    expect(answer.body.jobId).toBeUndefined();
  });
});
