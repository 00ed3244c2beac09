/** Pictures of a synchronous POST /studio/image/generate: what the response says, and what the file is. */
import { createHash } from 'node:crypto';
import sharp from 'sharp';
import { expect, it } from 'vitest';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { download } from '../harness/media.ts';

interface Pictures {
  images: { url: string; contentType: string; expiresAt: string }[];
  metadata: { aspectRatio: string };
}

const gateway = useGateway({ media: 'full', settled: 'last' });

/** Makes a picture, and returns the response with its only picture. */
async function draw(request: object) {
  const path = '/api/v1/studio/image/generate';
  const { status, body } = await gateway.call<StudioBody<Pictures>>(path, { body: request });
  const [image] = body.data.images;
  if (!image) throw new Error(`no picture, but ${status}`);
  return { body, image };
}

it('a picture decodes, is charged exactly once, and is readable only with its signature', async () => {
  const before = await gateway.database.balance(gateway.caller.organizationId);
  const request = { prompt: 'a lighthouse at dawn', aspectRatio: '16:9' };
  const { body, image } = await draw(request);
  const [width, height] = [1360, 768];
  expect(body).toEqual({
    success: true,
    data: {
      model: 'nano-banana',
      images: [
        {
          url: expect.stringMatching(/^http/),
          contentType: 'image/png',
          width,
          height,
          contentCredentials: 'gateway',
          expiresAt: expect.any(String),
        },
      ],
      metadata: { outputImages: 1, ...request },
    },
    credits: { used: 3.9, cost: 3.9, remaining: (before?.available ?? 0) / 1e6 - 3.9 },
  });
  const file = await fetch(image.url);
  const bytes = Buffer.from(await file.arrayBuffer());
  expect(file.headers.get('content-type')).toBe('image/png');
  expect(await sharp(bytes).metadata()).toMatchObject({ width, height });
  const [stored] = await gateway.database.query<{ sha256: string }>(
    'SELECT sha256 FROM artifact ORDER BY created_at DESC LIMIT 1',
  );
  expect(createHash('sha256').update(bytes).digest('hex')).toBe(stored?.sha256);

  for (const change of [
    (url: URL) => url.searchParams.set('expires', '9999999999'),
    (url: URL) => url.searchParams.set('signature', 'x'),
    (url: URL) => url.searchParams.delete('signature'),
    (url: URL) => (url.pathname = url.pathname.replace('0-0', '0-1')),
  ]) {
    const changed = new URL(image.url);
    change(changed);
    expect([changed.href, (await fetch(changed)).status]).toEqual([changed.href, 404]);
  }
  const part = await fetch(image.url, { headers: { range: 'bytes=1-3' } });
  expect([part.status, await part.text()]).toEqual([206, 'PNG']);
  expect(part.headers.get('content-range')).toMatch(/^bytes 1-3\/\d+$/);
  expect(part.headers.get('x-content-type-options')).toBe('nosniff');
});

it('the response has the actual aspect ratio and the expiry of the URL', async () => {
  const { body, image } = await draw({ prompt: 'an unshaped plum', model: 'alpha-image-2' });
  expect(body.data.metadata.aspectRatio).toBe('4:3');
  const expires = Number(new URL(image.url).searchParams.get('expires'));
  const expiresAtMs = Date.parse(image.expiresAt);
  expect(Math.abs(expires - expiresAtMs / 1000)).toBeLessThan(2);
  expect(expiresAtMs - Date.now()).toBeGreaterThan(23.9 * 3_600_000);
});

it.each(['jpeg', 'webp'])(
  'a picture has the format %s, although the provider does not support it',
  async (format) => {
    const size = { width: 1024, height: 1280 };
    const { image } = await draw({
      prompt: 'a fig',
      model: 'seedream',
      ...size,
      outputFormat: format,
    });
    const bytes = await download(image.url);
    expect(await sharp(bytes).metadata()).toMatchObject({ format, ...size });
    expect(image.contentType).toBe(`image/${format}`);
  },
);

it('a picture keeps a transparent background', async () => {
  const { image } = await draw({
    prompt: 'a plum',
    model: 'alpha-image-2',
    background: 'transparent',
    outputFormat: 'webp',
    imageSize: { width: 1024, height: 640 },
  });
  expect((await sharp(await download(image.url)).stats()).isOpaque).toBe(false);
});
