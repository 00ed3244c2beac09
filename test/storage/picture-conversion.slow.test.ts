/**
 * Pictures that are converted when they arrive: at each door, with what the answer and the file list
 * say, and attacks on the decoders, which cost the API no CPU.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { createAcceptFile } from '../../storage/picture-conversion.ts';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { download } from '../harness/media.ts';
import { makeForm, signUpload, uploadFile } from '../harness/uploads.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

/** Pictures of 640×480 pixels that are red in their upper left corner. */
const heic = (): Promise<Buffer> => readFile(join(import.meta.dirname, 'media', 'plain.heic'));
const avif = (transparent = false): Promise<Buffer> => {
  const left = sharp({ create: { width: 320, height: 480, channels: 4, background: '#d22' } });
  const ground = { r: 20, g: 20, b: 220, alpha: transparent ? 0 : 1 };
  const whole = left.extend({ right: 320, background: ground });
  return (transparent ? whole : whole.removeAlpha()).avif({ effort: 0, quality: 90 }).toBuffer();
};
const converted: [string, () => Promise<Buffer>, string, string][] = [
  ['HEIC', heic, 'HEIC', 'image/jpeg'],
  ['AVIF', () => avif(), 'AVIF', 'image/jpeg'],
  ['AVIF with transparency', () => avif(true), 'AVIF', 'image/png'],
];

const upscale = (body: object) =>
  gateway.call<StudioBody<{ width: number; height: number; url: string }>>(
    '/api/v1/studio/image/upscale',
    { body: { service: 'service_b', scaleFactor: 2, ...body } },
  );

/** Expects the upscaled picture of 640×480 pixels, red in its corner. */
async function expectUpscaled({
  status,
  body,
}: Awaited<ReturnType<typeof upscale>>): Promise<void> {
  expect([status, body.message]).toEqual([200, undefined]);
  expect(body.data).toMatchObject({ width: 1280, height: 960 });
  const [submit] = (await gateway.sandbox.submits({ match: 'image_url' })).slice(-1);
  const sent = await download(String(submit?.body['image_url']));
  expect(['jpeg', 'png']).toContain((await sharp(sent).metadata()).format);
  const [red = 0, green = 0, blue = 0] = await sharp(sent)
    .extract({ left: 10, top: 20, width: 1, height: 1 })
    .raw()
    .toBuffer();
  expect(red).toBeGreaterThan(150);
  expect(Math.max(green, blue)).toBeLessThan(100);
}

describe.each(converted)('%s', (_name, make, convertedFrom, contentType) => {
  it('is converted when it is uploaded, whatever was declared', async () => {
    const bytes = await make();
    for (const body of [
      {},
      { filename: 'IMG_1.HEIC' },
      { contentType: 'image/avif', size: bytes.length },
    ]) {
      const { url, fileId, uploadUrl, headers } = await signUpload(gateway, body);
      const put = await fetch(uploadUrl, { method: 'PUT', headers, body: new Uint8Array(bytes) });
      const received = (await put.json()) as { size: number };
      expect(received).toMatchObject({ fileId, contentType, convertedFrom });
      const stored = await fetch(url);
      expect(stored.headers.get('content-type')).toBe(contentType);
      expect((await stored.arrayBuffer()).byteLength).toBe(received.size);
      const files = await gateway.call<{ data: object[] }>('/api/v1/storage/files');
      expect(files.body.data[0]).toMatchObject({ fileId, contentType, convertedFrom });
    }
    await expectUpscaled(await upscale({ imageUrl: (await uploadFile(gateway, bytes)).url }));
  });

  it('is converted at every other door', async () => {
    const bytes = await make();
    await expectUpscaled(await upscale({ imageUrl: gateway.media.put('/photo', bytes) }));
    await expectUpscaled(
      await upscale({ imageUrl: `data:image/png;base64,${bytes.toString('base64')}` }),
    );
    const estimate = await gateway.call<StudioBody<{ credits: number }>>(
      '/api/v1/studio/image/upscale/estimate',
      { body: { imageUrl: gateway.media.put('/photo', bytes), service: 'service_b' } },
    );
    expect([estimate.status, estimate.body.data.credits > 0]).toEqual([200, true]);
    const image = new File([new Uint8Array(bytes)], 'photo.heic');
    const form = makeForm({
      prompt: 'a lake',
      model: 'gpt-image-2',
      response_format: 'url',
      image,
    });
    expect((await gateway.call('/api/v1/images/edits', { body: form })).status).toBe(200);
  });
});

describe('a file that cannot be converted', () => {
  const resize = (bytes: Buffer, width: number): Buffer => {
    for (let at = bytes.indexOf('ispe'); at >= 0; at = bytes.indexOf('ispe', at + 1)) {
      bytes.writeUInt32BE(width, at + 8);
    }
    return bytes;
  };
  it.each<[string, () => Promise<Buffer>, RegExp]>([
    [
      'HEIC that states 100 megapixels',
      async () => resize(await heic(), 2_200_000),
      /has \d+ pixels/,
    ],
    [
      'AVIF that states 100 megapixels',
      async () => resize(await avif(), 2_200_000),
      /has \d+ pixels/,
    ],
    [
      'HEIC that states other pixels',
      async () => resize(await heic(), 60_000),
      /is a damaged HEIC/,
    ],
    [
      'HEIC of zeros',
      async () => {
        const bytes = await heic();
        return bytes.fill(0, bytes.indexOf('mdat') + 4);
      },
      /is a damaged HEIC/,
    ],
    [
      'AVIF of zeros',
      async () => {
        const bytes = await avif();
        return bytes.fill(0, bytes.indexOf('mdat') + 4);
      },
      /is a damaged AVIF/,
    ],
    [
      'HEIC without its description',
      async () => (await heic()).subarray(0, 40),
      /is a damaged or cut-off HEIC/,
    ],
    ['AVIF cut off', async () => (await avif()).subarray(0, -60), /is a damaged AVIF/],
  ])('%s is rejected by name, at little cost', async (_name, make, message) => {
    const bytes = await make();
    const path = await gateway.api.services.storage.spoolPath();
    await writeFile(path, bytes);
    // The gateway of the test works in this thread too, so the cheapest attempt counts.
    const costsMs: number[] = [];
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const before = process.threadCpuUsage();
      await expect(gateway.api.services.acceptFile(path)).rejects.toThrow(message);
      const { user, system } = process.threadCpuUsage(before);
      costsMs.push((user + system) / 1000);
    }
    expect(Math.min(...costsMs)).toBeLessThan(50);
  });

  it('is HEIC, if the operator does not allow it', async () => {
    const path = await gateway.api.services.storage.spoolPath();
    await writeFile(path, await heic());
    await expect(createAcceptFile({ heic: false })(path)).rejects.toThrow(
      'is HEIC, which this gateway does not convert',
    );
  });
});
