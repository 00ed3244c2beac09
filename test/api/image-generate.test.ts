import { createHash } from 'node:crypto';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { download } from '../harness/media.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

const generate = (body: object) => gateway.call('/api/v1/studio/image/generate', { body });

describe('a synchronous image', () => {
  it('returns a picture that decodes, is charged exactly once, and is readable only with its signature', async () => {
    const before = await gateway.database.balance(gateway.caller.organizationId);
    const answer = await generate({ prompt: 'a lighthouse at dawn', aspectRatio: '16:9' });
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      success: true,
      data: {
        model: 'nano-banana',
        images: [
          {
            url: expect.stringMatching(/^http/),
            contentType: 'image/png',
            width: 1360,
            height: 768,
            expiresAt: expect.any(String),
          },
        ],
        metadata: { outputImages: 1, prompt: 'a lighthouse at dawn', aspectRatio: '16:9' },
      },
      credits: { used: 3.9, cost: 3.9, remaining: (before?.available ?? 0) / 1e6 - 3.9 },
    });
    const url = answer.body.data.images[0]?.url ?? '';
    const file = await fetch(url);
    const bytes = Buffer.from(await file.arrayBuffer());
    expect(file.headers.get('content-type')).toBe('image/png');
    expect(await sharp(bytes).metadata()).toMatchObject({ width: 1360, height: 768 });
    const [stored] = await gateway.database.query<{ sha256: string }>(
      'SELECT sha256 FROM artifact ORDER BY created_at DESC LIMIT 1',
    );
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(stored?.sha256);

    for (const change of [
      (u: URL) => u.searchParams.set('expires', '9999999999'),
      (u: URL) => u.searchParams.set('signature', 'x'),
      (u: URL) => u.searchParams.delete('signature'),
      (u: URL) => (u.pathname = u.pathname.replace('0-0', '0-1')),
      (u: URL) => (u.pathname = '/files/../../etc/passwd'),
      (u: URL) => (u.pathname = '/files/%2e%2e%2fsecrets.json'),
    ]) {
      const changed = new URL(url);
      change(changed);
      expect([changed.href, (await fetch(changed)).status]).toEqual([changed.href, 404]);
    }
    const part = await fetch(url, { headers: { range: 'bytes=1-3' } });
    expect(part.status).toBe(206);
    expect(await part.text()).toBe('PNG');
    expect(part.headers.get('content-range')).toMatch(/^bytes 1-3\/\d+$/);
    expect(part.headers.get('x-content-type-options')).toBe('nosniff');
  });

  it('has the actual aspect ratio and the expiry of its URL in the response', async () => {
    const answer = await generate({ prompt: 'a plum that nobody shaped', model: 'alpha-image-2' });
    const data = answer.body.data as unknown as {
      images: { url: string; expiresAt: string }[];
      metadata: { aspectRatio: string };
    };
    expect(data.metadata.aspectRatio).toBe('4:3');
    const [picture] = data.images;
    const expires = Number(new URL(picture?.url ?? '').searchParams.get('expires'));
    const expiresAtMs = Date.parse(picture?.expiresAt ?? '');
    expect(Math.abs(expires - expiresAtMs / 1000)).toBeLessThan(2);
    expect(expiresAtMs - Date.now()).toBeGreaterThan(23.9 * 3_600_000);
  });

  it.each(['jpeg', 'webp'])(
    'has the format %s, although the provider does not support it',
    async (format) => {
      const [width, height] = [1024, 1280];
      const answer = await generate({
        prompt: 'a fig',
        model: 'seedream',
        width,
        height,
        outputFormat: format,
      });
      const [image] = answer.body.data.images;
      const metadata = await sharp(await download(image?.url ?? '')).metadata();
      expect(metadata).toMatchObject({ format, width, height });
      expect(image?.contentType).toBe(`image/${format}`);
    },
  );

  it('keeps a transparent background', async () => {
    const answer = await generate({
      prompt: 'a plum',
      model: 'alpha-image-2',
      background: 'transparent',
      outputFormat: 'webp',
      imageSize: { width: 1024, height: 640 },
    });
    const { isOpaque } = await sharp(await download(answer.body.data.images[0]?.url ?? '')).stats();
    expect(isOpaque).toBe(false);
  });
});
