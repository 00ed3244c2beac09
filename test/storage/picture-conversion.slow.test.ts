/**
 * Pictures that are converted when they arrive: at each door, with what the answer and the file list
 * say, and attacks on the decoders, which cost the API no CPU.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import type { UploadUrl } from '../../api/endpoints/upload-urls.ts';
import { createAcceptFile } from '../../storage/picture-conversion.ts';
import type { Storage } from '../../storage/storage.ts';
import type { UploadsDeps } from '../../storage/upload-rows.ts';
import { checkObject } from '../../storage/uploads.ts';
import { newFolder } from '../harness/folders.ts';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { makeHeif, type HeifOptions } from '../harness/heif.ts';
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
    const declared = [
      { filename: 'IMG_1.HEIC' },
      {},
      { contentType: 'image/avif', size: bytes.length },
    ];
    for (const body of convertedFrom === 'HEIC' ? declared : declared.slice(-1)) {
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

/** Sends an upload URL's file past the API, as callers of an S3 store do. */
async function storeDirectly({ storagePath }: UploadUrl, bytes: Buffer): Promise<void> {
  const { storage } = gateway.api.services;
  const path = await storage.spoolPath();
  await writeFile(path, bytes);
  await storage.put(storagePath, path);
}

describe('an upload that is converted when it is first used', () => {
  /** Reads the upload and checks its object with these functions of the storage. */
  async function check({ fileId }: UploadUrl, functions: Partial<Storage> = {}) {
    const { uploads, storage } = gateway.api.services;
    const upload = await uploads.find(fileId);
    if (!upload) throw new Error('no upload');
    const deps = { ...gateway.api.services, storage: { ...storage, ...functions } };
    return checkObject(deps as unknown as UploadsDeps, upload);
  }

  it.each([
    ['before', false],
    ['after', true],
  ])('survives a process that ends %s it has stored the result', async (_name, isStored) => {
    const bytes = await heic();
    const signed = await signUpload(gateway, { filename: 'IMG_1.HEIC', size: bytes.length });
    await storeDirectly(signed, bytes);
    const { storage } = gateway.api.services;
    const replace: Storage['replace'] = async (key, path) => {
      if (isStored) await storage.replace(key, path);
      throw new Error('the process ended');
    };
    await expect(check(signed, { replace })).rejects.toThrow('the process ended');
    await expectUpscaled(await upscale({ imageUrl: signed.url }));
    const files = await gateway.call<{ data: object[] }>('/api/v1/storage/files?kind=upload');
    const { fileId } = signed;
    expect(files.body.data[0]).toMatchObject({
      fileId,
      contentType: 'image/jpeg',
      convertedFrom: 'HEIC',
    });
  });

  it('is accepted by several requests that use it at the same time', async () => {
    const bytes = await heic();
    const signed = await signUpload(gateway, { size: bytes.length });
    await storeDirectly(signed, bytes);
    const types = await Promise.all([check(signed), check(signed), check(signed)]);
    expect(types).toEqual(types.map(() => 'image/jpeg'));
    const { size } = gateway.api.services.storage;
    const [row] = await gateway.database.query(
      'SELECT size_bytes::int AS bytes, converted_from FROM upload WHERE id = $1',
      [signed.fileId],
    );
    expect(row).toEqual({ bytes: await size(signed.storagePath), converted_from: 'HEIC' });
  });
});

/** Colors of the sixteen squares of 32×32 pixels in patches.heic, row by row. */
const patches = Buffer.from(
  'ff000000ff000000ffffffff000000808080c878505aa03c3c5ab4f0c828b4288c1e96a0fa961464' +
    '3c28dcdcc846465a',
  'hex',
);

/** Converts a color of Display P3 to sRGB, as a color-managed viewer does. */
function toSrgb(color: number[]): number[] {
  const linear = color.map((value) =>
    value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4,
  );
  const matrix = [
    [1.22494, -0.22494, 0],
    [-0.042057, 1.042057, 0],
    [-0.019638, -0.078636, 1.098274],
  ];
  return matrix.map((row) => {
    const sum = row.reduce((total, factor, index) => total + factor * (linear[index] ?? 0), 0);
    const value = Math.min(1, Math.max(0, sum));
    return 255 * (value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055);
  });
}

describe('the colors of a converted picture', () => {
  const patchesOfHeic = () => readFile(join(import.meta.dirname, 'media', 'patches.heic'));
  const patchesOfAvif = async () => {
    const pixels = Array.from({ length: 128 * 128 }, (_, at) => {
      const patch = Math.floor(at / 4096) * 4 + Math.floor((at % 128) / 32);
      return [...patches.subarray(patch * 3, patch * 3 + 3)];
    });
    const raw = { width: 128, height: 128, channels: 3 } as const;
    return sharp(new Uint8Array(pixels.flat()), { raw })
      .avif({ effort: 0, quality: 95, chromaSubsampling: '4:4:4' })
      .toBuffer();
  };
  const readP3 = async (): Promise<Buffer> => {
    const pixel = sharp({ create: { width: 1, height: 1, channels: 3, background: '#fff' } });
    const { icc } = await sharp(await pixel.withIccProfile('p3').png().toBuffer()).metadata();
    return icc ?? Buffer.alloc(0);
  };
  const gray = async (): Promise<Buffer> => {
    const profile = Buffer.from(await readP3());
    profile.write('GRAY', 16, 'latin1');
    return profile;
  };
  /** Number of Display P3 in the box `colr`. */
  const primaries = 12;

  it.each<[string, () => Promise<Partial<HeifOptions> & { from: Buffer }>]>([
    [
      'a turned HEIC of six tiles with the profile of Display P3, like those of iPhones',
      async () => ({
        from: await patchesOfHeic(),
        grid: [3, 2],
        turns: 1,
        color: await readP3(),
        otherProfile: await gray(),
      }),
    ],
    [
      'a HEIC that names Display P3',
      async () => ({ from: await patchesOfHeic(), color: primaries }),
    ],
    ['a HEIC without a profile', async () => ({ from: await patchesOfHeic() })],
    [
      'a turned AVIF with the profile of Display P3',
      async () => ({ from: await patchesOfAvif(), turns: 3, color: await readP3() }),
    ],
    [
      'an AVIF of tiles that names Display P3',
      async () => ({ from: await patchesOfAvif(), grid: [2, 1], color: primaries }),
    ],
  ])('are those of %s', async (_name, load) => {
    const options = await load();
    const path = join(newFolder(), 'picture');
    await writeFile(path, makeHeif({ tile: [128, 128], ...options }));
    const { turns = 0, grid: [columns, rows] = [1, 1], color } = options;
    const size = { width: 128 * columns, height: 128 * rows };
    expect(await gateway.api.services.acceptFile(path)).toMatchObject(
      turns % 2 === 0 ? size : { width: size.height, height: size.width },
    );
    const { data, info } = await sharp(await readFile(path))
      .rotate(90 * turns)
      .raw()
      .toBuffer({ resolveWithObject: true });
    for (let patch = 0; patch < 16; patch += 1) {
      const stored = [...patches.subarray(patch * 3, patch * 3 + 3)];
      const seen = color === undefined ? stored : toSrgb(stored);
      const [x, y] = [(patch % 4) * 32 + 16, Math.floor(patch / 4) * 32 + 16];
      const at = (y * info.width + x) * info.channels;
      for (const [channel, value] of seen.entries()) {
        const difference = Math.abs((data[at + channel] ?? 0) - value);
        expect(difference, `patch ${patch}, channel ${channel}`).toBeLessThanOrEqual(2.5);
      }
    }
  });
});

describe('a file that cannot be converted', () => {
  const makeTiles = async (options: Partial<HeifOptions>): Promise<Buffer> => {
    const from = await readFile(join(import.meta.dirname, 'media', 'patches.heic'));
    return makeHeif({ from, tile: [128, 128], ...options });
  };
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
    [
      'HEIC of 2,500 tiles that states one',
      async () => makeTiles({ grid: [50, 50], size: [128, 128] }),
      /is a damaged HEIC/,
    ],
    ['HEIC of 10,000 tiles', async () => makeTiles({ grid: [100, 100] }), /has \d+ pixels/],
    ['AVIF cut off', async () => (await avif()).subarray(0, -60), /is a damaged AVIF/],
  ])('%s is rejected by name, at little cost', async (_name, make, message) => {
    const bytes = await make();
    const path = join(newFolder(), 'picture');
    await writeFile(path, bytes);
    // The gateway of the test works in this thread too, so the cheapest attempt counts.
    const costsMs: number[] = [];
    for (let attempt = 0; attempt < 5 && Math.min(...costsMs) >= 50; attempt += 1) {
      const before = process.threadCpuUsage();
      await expect(gateway.api.services.acceptFile(path)).rejects.toThrow(message);
      const { user, system } = process.threadCpuUsage(before);
      costsMs.push((user + system) / 1000);
    }
    expect(Math.min(...costsMs)).toBeLessThan(50);
  });

  it('is HEIC, if the operator does not allow it', async () => {
    const path = join(newFolder(), 'picture');
    await writeFile(path, await heic());
    await expect(createAcceptFile({ heic: false })(path)).rejects.toThrow(
      'is HEIC, which this gateway does not convert',
    );
  });
});
