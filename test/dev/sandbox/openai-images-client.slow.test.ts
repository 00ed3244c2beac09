/** The vendor’s own client works with the sandbox’s image endpoints, and the images are real. */
import OpenAI, { APIError, AuthenticationError, NotFoundError, toFile } from 'openai';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { catchFailure } from '../../harness/failures.ts';
import { useSandbox } from '../../harness/sandbox.ts';

const model = 'gpt-image-2.5-flare';

const sandbox = useSandbox();
let client: OpenAI;
const clientWith = (apiKey: string) =>
  new OpenAI({ apiKey, baseURL: `${sandbox.url}/openai/v1`, maxRetries: 0 });
beforeAll(() => {
  client = clientWith(sandbox.openaiKey);
});

function decode(image: OpenAI.Image | undefined): Buffer {
  return Buffer.from(image?.b64_json ?? '', 'base64');
}

const catchVendorError = (promise: Promise<unknown>) => catchFailure(promise, APIError);

/** A plain picture of one colour. */
const plain = (width: number, height: number, background: string): Promise<Buffer> =>
  sharp({ create: { width, height, channels: 3, background } })
    .png()
    .toBuffer();

/** A picture that is transparent in its left half. */
async function leftMask(width: number, height: number): Promise<Buffer> {
  const right = await plain(width / 2, height, '#000');
  const empty = { r: 0, g: 0, b: 0, alpha: 0 };
  return sharp({ create: { width, height, channels: 4, background: empty } })
    .composite([{ input: right, left: width / 2, top: 0 }])
    .png()
    .toBuffer();
}

describe('generations', () => {
  it('return the requested number of different images, in the requested size and format', async () => {
    const answer = await client.images.generate({
      model,
      prompt: 'a lighthouse at dusk',
      n: 2,
      size: '1536x864',
      quality: 'low',
      output_format: 'webp',
    });
    expect(answer.data).toHaveLength(2);
    const [first, second] = (answer.data ?? []).map((image) => decode(image));
    const made = { format: 'webp', width: 1536, height: 864 };
    expect(await sharp(first).metadata()).toMatchObject(made);
    expect(first?.equals(second ?? Buffer.alloc(0))).toBe(false);
    expect(answer).toMatchObject({ size: '1536x864', quality: 'low', output_format: 'webp' });
    const { input_tokens: input = 0, output_tokens: output = 0 } = answer.usage ?? {};
    expect(output).toBeGreaterThan(0);
    expect(answer.usage?.total_tokens).toBe(input + output);
  });

  it('name the parameter that they reject', async () => {
    const base = { model, prompt: 'a bowl' };
    const table = [
      [{ ...base, size: '1000x1000' }, 'size', 'invalid_value'],
      [{ ...base, n: 11 }, 'n', 'invalid_value'],
      [{ ...base, model: 'gpt-image-1.5', size: '1536x864' }, 'size', 'invalid_value'],
      [{ ...base, model: 'gpt-image-2', quality: 'max' }, 'quality', 'invalid_value'],
      [{ ...base, seed: 3 }, 'seed', 'unknown_parameter'],
      [{ model }, 'prompt', 'missing_required_parameter'],
    ] as const;
    for (const [body, param, code] of table) {
      const error = await catchVendorError(client.post('/images/generations', { body }));
      expect(error).toMatchObject({ status: 400, param, code, type: 'invalid_request_error' });
    }
    expect(await sandbox.submits({ match: 'a bowl' })).toHaveLength(0);
  });

  it('reject a retired model and an invalid key', async () => {
    const dead = client.images.generate({ model: 'gpt-image-1', prompt: 'a fossil' });
    expect(await catchVendorError(dead)).toBeInstanceOf(NotFoundError);
    const rejected = clientWith('wrong').images.generate({ model, prompt: 'a thief' });
    expect(await catchVendorError(rejected)).toBeInstanceOf(AuthenticationError);
  });
});

describe('edits', () => {
  it('change only the transparent pixels of the mask', async () => {
    const [image, mask] = await Promise.all([plain(1024, 1024, '#3366cc'), leftMask(1024, 1024)]);
    const { data, usage } = await client.images.edit({
      model,
      image: await toFile(image, 'blue.png', { type: 'image/png' }),
      mask: await toFile(mask, 'mask.png', { type: 'image/png' }),
      prompt: 'stars over the sea',
    });
    const edited = sharp(decode(data?.[0]));
    expect(await edited.metadata()).toMatchObject({ width: 1024, height: 1024, format: 'png' });
    const half = async (left: number) => {
      const region = { left, top: 0, width: 500, height: 1024 };
      const pixels = await edited.clone().extract(region).png().toBuffer();
      return (await sharp(pixels).stats()).channels.map(({ stdev }) => stdev);
    };
    expect(Math.max(...(await half(0)))).toBeGreaterThan(5);
    expect(Math.max(...(await half(524)))).toBeLessThan(1);
    expect(usage?.input_tokens_details.image_tokens).toBeGreaterThan(0);
  });

  it('accept several images and keep the aspect ratio of the first', async () => {
    const pictures = await Promise.all([plain(600, 400, '#a00'), plain(300, 300, '#0a0')]);
    const image = await Promise.all(
      pictures.map(async (bytes, index) => toFile(bytes, `${index}.png`, { type: 'image/png' })),
    );
    const { data, size } = await client.images.edit({ model, image, prompt: 'join them', n: 2 });
    expect(data).toHaveLength(2);
    expect(size).toBe('1536x1024');
    expect(await sandbox.submits({ match: 'join them' })).toMatchObject([
      {
        endpoint: 'openai/v1/images/edits',
        body: { n: '2', 'image[]': [{ name: '0.png' }, { name: '1.png' }] },
      },
    ]);
  });

  it('reject a mask of another size and a file that is not an image', async () => {
    const image = await toFile(await plain(64, 64, '#fff'), 'a.png', { type: 'image/png' });
    const mask = await toFile(await leftMask(32, 32), 'm.png', { type: 'image/png' });
    const small = await catchVendorError(client.images.edit({ model, image, mask, prompt: 'x' }));
    expect(small).toMatchObject({ status: 400, param: 'mask' });
    const text = await toFile(Buffer.from('no picture'), 'a.png', { type: 'image/png' });
    const broken = await catchVendorError(client.images.edit({ model, image: text, prompt: 'x' }));
    expect(broken).toMatchObject({ status: 400, code: 'invalid_image_file' });
  });
});
