import { createHash } from 'node:crypto';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ media: 'full' });

const path = '/api/v1/studio/image/generate';
const generate = (body: object, headers: Record<string, string> = {}) =>
  gateway.call(path, { body, headers });

describe('a synchronous image', () => {
  it('returns a picture that decodes, and is charged exactly once', async () => {
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
    const [image] = answer.body.data.images;
    const file = await fetch(image?.url ?? '');
    const bytes = Buffer.from(await file.arrayBuffer());
    expect(file.headers.get('content-type')).toBe('image/png');
    expect(await sharp(bytes).metadata()).toMatchObject({ width: 1360, height: 768 });
    const [stored] = await gateway.database.query<{ sha256: string }>(
      'SELECT sha256 FROM artifact ORDER BY created_at DESC LIMIT 1',
    );
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(stored?.sha256);
  });
});

describe('the picture properties in a response', () => {
  it('are the actual aspect ratio and the expiry of the URL', async () => {
    const answer = await generate({ prompt: 'a plum that nobody shaped', model: 'alpha-image-2' });
    const data = answer.body.data as unknown as {
      images: { url: string; expiresAt: string }[];
      metadata: { aspectRatio: string };
    };
    expect(data.metadata.aspectRatio).toBe('4:3');
    const [picture] = data.images;
    const expires = Number(new URL(picture?.url ?? '').searchParams.get('expires'));
    const leftMs = Date.parse(picture?.expiresAt ?? '') - Date.now();
    expect(Math.abs(expires - Date.parse(picture?.expiresAt ?? '') / 1000)).toBeLessThan(2);
    expect(leftMs).toBeGreaterThan(23.9 * 3_600_000);
  });
});

describe('output formats', () => {
  it.each(['jpeg', 'png', 'webp'])(
    'include %s, although the provider does not support it',
    async (format) => {
      const answer = await generate({
        prompt: 'a fig',
        model: 'seedream',
        width: 1024,
        height: 1280,
        outputFormat: format,
      });
      const [image] = answer.body.data.images;
      const bytes = Buffer.from(await (await fetch(image?.url ?? '')).arrayBuffer());
      expect(await sharp(bytes).metadata()).toMatchObject({ format, width: 1024, height: 1280 });
      expect(image?.contentType).toBe(`image/${format}`);
    },
  );

  it('keep a transparent background', async () => {
    const answer = await generate({
      prompt: 'a plum',
      model: 'alpha-image-2',
      background: 'transparent',
      outputFormat: 'webp',
      imageSize: { width: 1024, height: 640 },
    });
    const [image] = answer.body.data.images;
    const bytes = Buffer.from(await (await fetch(image?.url ?? '')).arrayBuffer());
    const { isOpaque } = await sharp(bytes).stats();
    expect(isOpaque).toBe(false);
  });
});

describe('a stored file', () => {
  it('is readable only with its signature, and supports range requests', async () => {
    const answer = await generate({ prompt: 'a key and a lock' });
    const [image] = answer.body.data.images;
    const url = new URL(image?.url ?? '');
    const status = async (change: (url: URL) => void): Promise<number> => {
      const changed = new URL(url);
      change(changed);
      return (await fetch(changed)).status;
    };
    expect(await status(() => {})).toBe(200);
    expect(await status((u) => u.searchParams.set('expires', '9999999999'))).toBe(404);
    expect(await status((u) => u.searchParams.set('signature', 'x'))).toBe(404);
    expect(await status((u) => u.searchParams.delete('signature'))).toBe(404);
    expect(await status((u) => (u.pathname = u.pathname.replace('0-0', '0-1')))).toBe(404);
    expect(await status((u) => (u.pathname = '/files/../../etc/passwd'))).toBe(404);
    expect(await status((u) => (u.pathname = '/files/%2e%2e%2fsecrets.json'))).toBe(404);
    const part = await fetch(url, { headers: { range: 'bytes=1-3' } });
    expect(part.status).toBe(206);
    expect(await part.text()).toBe('PNG');
    expect(part.headers.get('content-range')).toMatch(/^bytes 1-3\/\d+$/);
    expect(part.headers.get('x-content-type-options')).toBe('nosniff');
  });
});
