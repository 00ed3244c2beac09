/**
 * A second provider for a model: called only when the first provider certainly did not accept the
 * call.
 */
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { imageGenerate } from '../../studio/capabilities/image-generate.ts';
import { planRequest } from '../harness/capability.ts';
import { useGateway } from '../harness/gateway.ts';
import { drawDisc, download, isPainted, drawHalfMask } from '../harness/media.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

const model = 'alpha-image-2';
const callTool = (tool: string, body: object) =>
  gateway.call(`/api/v1/studio/image/${tool}`, { body: { model, ...body } });
const readEndpoints = async (match: string): Promise<string[]> =>
  (await gateway.sandbox.submits({ match })).map((submit) => submit.endpoint);

describe.concurrent('a first provider that accepts calls', () => {
  it.each([
    ['it may have accepted the call', '[[reset-after-accept]] [[no-webhook]]', 'OUTCOME_UNKNOWN'],
    ['the input is invalid', '[[policy]]', 'CONTENT_POLICY'],
  ])('is not replaced when %s', async (why, markers, error) => {
    const answer = await callTool('generate', { prompt: `${markers} a mill where ${why}` });
    expect(answer.body.error).toBe(error);
    expect(await readEndpoints(`a mill where ${why}`)).toEqual(['openai/gpt-image-2']);
  });
});

describe('a first provider that certainly accepts no call', () => {
  // It rejects every submit, so each job calls it before the second provider.
  beforeAll(() =>
    gateway.sandbox.inject({ match: 'openai/gpt-image-2', faults: 'submit:503x999' }),
  );

  it.concurrent('is replaced by the second, with one paid call and the same price', async () => {
    const answer = await callTool('generate', {
      prompt: 'a second mill',
      numImages: 2,
      imageSize: { width: 1280, height: 720 },
      outputFormat: 'webp',
    });
    expect(answer).toMatchObject({ status: 200, body: { credits: { used: 12 } } });
    const [submit, ...more] = await gateway.sandbox.submits({ match: 'a second mill' });
    expect(more).toEqual([]);
    expect(submit?.endpoint).toContain('images/generations');
    expect(submit?.body).toMatchObject({ model: 'gpt-image-2', n: 2, size: '1280x720' });
    const pictures = await Promise.all(answer.body.data.images.map(({ url }) => download(url)));
    const properties = { format: 'webp', width: 1280, height: 720 };
    for (const bytes of pictures) expect(await sharp(bytes).metadata()).toMatchObject(properties);
    expect(new Set(pictures.map((bytes) => bytes.toString('base64'))).size).toBe(2);
  });

  it.each([
    ['square', '1024x1024'],
    ['landscape_16_9', '1280x720'],
    ['portrait_4_3', '768x1024'],
  ])('is replaced for %s, in a size that the second provider supports', (imageSize, size) => {
    const { calls } = planRequest(imageGenerate, { prompt: 'a mill', model, imageSize });
    expect(calls[0]?.routes[1]).toMatchObject({ provider: 'openai', input: { size } });
  });

  it.concurrent("is replaced for edits, with the mask converted to the second provider's format", async () => {
    const edge = 768;
    const answer = await callTool('edit', {
      prompt: 'a lake on the right',
      imageUrls: [gateway.media.put('/disc.png', await drawDisc(edge, edge))],
      maskUrl: gateway.media.put('/mask.png', await drawHalfMask(edge, edge)),
    });
    expect(answer.status).toBe(200);
    expect((await readEndpoints('a lake on the right')).join()).toContain('images/edits');
    const edited = await download(answer.body.data.images[0]?.url ?? '');
    expect(await isPainted(edited, 0, 0.2)).toBe(false);
    expect(await isPainted(edited, 0.8, 1)).toBe(true);
  });

  it.concurrent('receives a GIF as PNG', async () => {
    const gif = await sharp(await drawDisc(768, 768))
      .gif()
      .toBuffer();
    const imageUrls = [gateway.media.put('/disc.gif', gif)];
    const answer = await callTool('edit', { prompt: 'a lake from a GIF', imageUrls });
    expect(answer.status, answer.body.message).toBe(200);
    expect((await readEndpoints('a lake from a GIF')).join()).toContain('images/edits');
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
  ])(
    'with %s leads to %s and a released reservation, after at most one paid call',
    async (faults, code, status) => {
      const text = `a mill that meets ${faults.split(':')[0]}`;
      const answer = await callTool('generate', { prompt: `[[${faults}]] ${text}` });
      expect(answer).toMatchObject({ status, body: { error: code } });
      expect((await readEndpoints(text)).length).toBeLessThanOrEqual(1);
    },
  );

  it.concurrent('is replaced by the second, whose delivered images alone are charged', async () => {
    const answer = await callTool('generate', {
      prompt: '[[partial:2]] two of four mills',
      numImages: 4,
      quality: 'low',
      imageSize: 'square_hd',
    });
    expect(answer).toMatchObject({
      status: 200,
      body: { data: { images: [{}, {}] }, credits: { used: 2 } },
    });
  });
});
