/**
 * A second provider for a model: called only when the first provider certainly did not accept the
 * call (design §3.6).
 */
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { discPicture, download, pixelsOf } from '../harness/media.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

const image = (tool: string, body: object) =>
  gateway.call(`/api/v1/studio/image/${tool}`, { body });
const endpoints = async (match: string): Promise<string[]> =>
  (await gateway.sandbox.submits({ match })).map((submit) => submit.endpoint);

describe('a first provider that accepts calls', () => {
  it('serves them', async () => {
    const answer = await image('generate', { prompt: 'a first mill', model: 'alpha-image-2' });
    expect(answer.status).toBe(200);
    expect(await endpoints('a first mill')).toEqual(['openai/gpt-image-2']);
  });

  it('is not replaced when it may have accepted the call', async () => {
    const answer = await image('generate', {
      prompt: '[[reset-after-accept]] [[no-webhook]] a third mill',
      model: 'alpha-image-2',
    });
    expect(answer.body.error).toBe('OUTCOME_UNKNOWN');
    expect(await endpoints('a third mill')).toEqual(['openai/gpt-image-2']);
  });

  it('is not replaced when the input is invalid', async () => {
    const answer = await image('generate', {
      prompt: '[[policy]] a fourth mill',
      model: 'alpha-image-2',
    });
    expect(answer.body.error).toBe('CONTENT_POLICY');
    expect(await endpoints('a fourth mill')).toEqual(['openai/gpt-image-2']);
  });
});

describe('a first provider that certainly accepts no call', () => {
  // It rejects every submit, so each job calls it before the second provider.
  beforeAll(() =>
    gateway.sandbox.inject({ match: 'openai/gpt-image-2', faults: 'submit:503x999' }),
  );

  it.concurrent('is replaced by the second, with one paid call and the same price', async () => {
    const answer = await image('generate', {
      prompt: 'a second mill',
      model: 'alpha-image-2',
      numImages: 3,
      imageSize: { width: 1280, height: 720 },
      outputFormat: 'webp',
    });
    expect(answer.status).toBe(200);
    expect(answer.body.credits.used).toBe(18);
    const [submit, ...more] = await gateway.sandbox.submits({ match: 'a second mill' });
    expect(more).toEqual([]);
    expect(submit?.endpoint).toContain('images/generations');
    expect(submit?.body).toMatchObject({ model: 'gpt-image-2', n: 3, size: '1280x720' });
    expect(answer.body.data.images).toHaveLength(3);
    const seen = new Set<string>();
    for (const shown of answer.body.data.images) {
      const bytes = await download(shown.url);
      expect(await sharp(bytes).metadata()).toMatchObject({
        format: 'webp',
        width: 1280,
        height: 720,
      });
      seen.add(bytes.toString('base64'));
    }
    expect(seen.size).toBe(3);
  });

  it.concurrent.each([
    ['square', [1024, 1024]],
    ['landscape_16_9', [1280, 720]],
    ['portrait_4_3', [768, 1024]],
  ])('is replaced for %s, in a size that the second provider supports', async (imageSize, size) => {
    const answer = await image('generate', { prompt: 'a mill', model: 'alpha-image-2', imageSize });
    expect(answer.body.data.images[0]).toMatchObject({ width: size[0], height: size[1] });
  });

  it.concurrent("is replaced for edits, with the mask converted to the second provider's format", async () => {
    const edge = 768;
    const canvas = {
      create: { width: edge, height: edge, channels: 3, background: '#000' },
    } as const;
    const white = {
      create: { width: edge / 2, height: edge, channels: 3, background: '#fff' },
    } as const;
    const mask = await sharp(canvas)
      .composite([{ input: await sharp(white).png().toBuffer(), left: edge / 2, top: 0 }])
      .png()
      .toBuffer();
    const answer = await image('edit', {
      prompt: 'a lake on the right',
      model: 'alpha-image-2',
      imageUrls: [gateway.media.put('/disc.png', await discPicture(edge, edge))],
      maskUrl: gateway.media.put('/mask.png', mask),
    });
    expect(answer.status).toBe(200);
    expect((await endpoints('a lake on the right')).join()).toContain('images/edits');
    const edited = await pixelsOf(await download(answer.body.data.images[0]?.url ?? ''));
    const touched = (from: number, to: number): boolean => {
      for (let x = Math.floor(edited.width * from); x < edited.width * to; x += 3) {
        for (let y = 0; y < edited.height; y += 3) {
          const [red, green, blue] = edited.at(x, y);
          if (Math.min(red, green, blue) < 250) return true;
        }
      }
      return false;
    };
    expect(touched(0, 0.2)).toBe(false);
    expect(touched(0.8, 1)).toBe(true);
  });

  it.concurrent.each([
    ['policy', 'CONTENT_POLICY', 400],
    ['fail:400', 'PROVIDER_REJECTED_INPUT', 400],
    ['submit:503x99', 'PROVIDER_ERROR', 500],
    ['submit:500', 'PROVIDER_ERROR', 500],
    ['proxy-error:502', 'OUTCOME_UNKNOWN', 500],
    ['reset-after-accept', 'OUTCOME_UNKNOWN', 500],
    ['truncated-media', 'PROVIDER_ERROR', 500],
    ['wrong-type-media', 'PROVIDER_ERROR', 500],
    ['empty-media', 'PROVIDER_ERROR', 500],
  ])(
    'with %s leads to %s and a released reservation, after at most one paid call',
    async (faults, code, status) => {
      const words = `a mill that meets ${faults.split(':')[0]}`;
      const answer = await image('generate', {
        prompt: `[[${faults}]] ${words}`,
        model: 'alpha-image-2',
      });
      expect([answer.status, answer.body.error]).toEqual([status, code]);
      expect((await endpoints(words)).length).toBeLessThanOrEqual(1);
    },
  );

  it.concurrent('is replaced by the second, whose delivered images alone are charged', async () => {
    const answer = await image('generate', {
      prompt: '[[partial:2]] two of four mills',
      model: 'alpha-image-2',
      numImages: 4,
      quality: 'low',
      imageSize: 'square_hd',
    });
    expect(answer.status).toBe(200);
    expect(answer.body.data.images).toHaveLength(2);
    expect(answer.body.credits.used).toBe(2);
  });
});
