/** Every image endpoint returns the documented number, size and format of images. */
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startSandbox, stopSandbox, type MadeFile, type SandboxProcess } from './harness.ts';

let sandbox: SandboxProcess;
/** 120×80: red disc on white. */
let disc: string;
/** 60×40, left half white. */
let mask: string;

const dataUri = (png: Buffer) => `data:image/png;base64,${png.toString('base64')}`;
const svg = (width: number, height: number, shapes: string) =>
  sharp(
    Buffer.from(
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">${shapes}</svg>`,
    ),
  )
    .png()
    .toBuffer();

beforeAll(async () => {
  sandbox = await startSandbox({ SANDBOX_LATENCY_MS: '1' });
  const white = '<rect width="100%" height="100%" fill="#fff"/>';
  disc = dataUri(await svg(120, 80, `${white}<circle cx="60" cy="40" r="25" fill="#d00"/>`));
  const black = '<rect width="100%" height="100%"/>';
  mask = dataUri(await svg(60, 40, `${black}<rect width="30" height="40" fill="#fff"/>`));
});
afterAll(async () => stopSandbox(sandbox));

async function run(endpoint: string, input: object) {
  const { result } = await sandbox.finish(await sandbox.submit(endpoint, input));
  expect(result, JSON.stringify(result.body)).toMatchObject({ status: 200 });
  return result.body;
}

/** Downloads a file, checks that its description is true and returns its pixels. */
async function inspect(file: MadeFile) {
  const response = await fetch(file.url);
  const bytes = await response.bytes();
  const metadata = await sharp(bytes).metadata();
  expect(response.headers.get('content-type')).toBe(file.content_type);
  expect(bytes.length).toBe(file.file_size);
  expect(file.content_type).toBe(`image/${metadata.format}`);
  const size = { width: metadata.width, height: metadata.height };
  expect(size).toMatchObject({ ...(file.width && { width: file.width, height: file.height }) });
  const { data, info } = await sharp(bytes).raw().toBuffer({ resolveWithObject: true });
  const at = (x: number, y: number) => {
    const start = (y * info.width + x) * info.channels;
    return [...data.subarray(start, start + info.channels)];
  };
  return { format: metadata.format, size: `${info.width}x${info.height}`, metadata, data, at };
}

async function draw(seed?: number) {
  const body = await run('fal-ai/nano-banana', { prompt: 'a tree', seed });
  return (await inspect(body.images[0])).data;
}

type Row = [endpoint: string, input: object, size: string, format: string, count?: number];

const generated: Row[] = [
  ['fal-ai/nano-banana', { aspect_ratio: '1:1', num_images: 4 }, '1024x1024', 'png', 4],
  ['fal-ai/nano-banana', { aspect_ratio: '9:16', output_format: 'jpeg' }, '768x1360', 'jpeg'],
  ['fal-ai/nano-banana-pro', { resolution: '2K', aspect_ratio: '16:9' }, '2720x1536', 'png'],
  ['fal-ai/nano-banana-pro', { resolution: '4K', output_format: 'webp' }, '4096x4096', 'webp'],
  ['fal-ai/gemini-3.1-flash-image', { resolution: '0.5K', aspect_ratio: '4:1' }, '1024x256', 'png'],
  ['fal-ai/gemini-3.1-flash-image-preview', { aspect_ratio: '16:9' }, '1360x768', 'png'],
  ['fal-ai/bytedance/seedream/v4/text-to-image', {}, '2048x2048', 'png'],
  [
    'fal-ai/bytedance/seedream/v4/text-to-image',
    { image_size: { width: 1600, height: 1200 }, num_images: 6 },
    '1600x1200',
    'png',
    6,
  ],
  ['fal-ai/bytedance/seedream/v4/text-to-image', { image_size: 'auto_4K' }, '4096x4096', 'png'],
  ['fal-ai/gpt-image-1-mini', { image_size: '1536x1024' }, '1536x1024', 'png'],
  ['fal-ai/gpt-image-1.5', { output_format: 'webp', num_images: 2 }, '1024x1024', 'webp', 2],
  ['openai/gpt-image-2', {}, '1024x768', 'png'],
  ['openai/gpt-image-2', { image_size: 'square', output_format: 'jpeg' }, '512x512', 'jpeg'],
  [
    'openai/gpt-image-2.5/flare/text-to-image',
    { image_size: { width: 1920, height: 1088 }, num_images: 10, output_format: 'jpeg' },
    '1920x1088',
    'jpeg',
    10,
  ],
  [
    'openai/gpt-image-2.5/sunburst/text-to-image',
    { image_size: 'portrait_16_9', quality: 'max', output_compression: null },
    '576x1024',
    'png',
  ],
  ['fal-ai/imagen4/preview', { aspect_ratio: '4:3', num_images: 4 }, '1184x880', 'png', 4],
  ['fal-ai/imagen4/preview/ultra', { resolution: '2K' }, '2048x2048', 'png'],
  ['xai/grok-imagine-image', { aspect_ratio: '3:4', num_images: 2 }, '880x1184', 'jpeg', 2],
];

describe('text to image', () => {
  it.each(generated)('%s %j is %s %s', async (...[endpoint, input, size, format, count = 1]) => {
    const body = await run(endpoint, { prompt: `a bridge for ${endpoint}`, ...input });
    expect(body.images).toHaveLength(count);
    const images = await Promise.all(body.images.map(inspect));
    for (const image of images) expect(image).toMatchObject({ size, format });
    const looks = new Set(images.map(({ data }) => data.toString('base64')));
    expect(looks.size).toBe(count);
  });

  it('returns a transparent background on request', async () => {
    const input = { prompt: 'an icon', background: 'transparent' };
    const body = await run('openai/gpt-image-2.5/flare/text-to-image', input);
    const { metadata, data } = await inspect(body.images[0]);
    expect(metadata.hasAlpha).toBe(true);
    const alphas = new Set(data.filter((_, position) => position % 4 === 3));
    expect(alphas.has(0)).toBe(true);
    expect(alphas.size).toBeGreaterThan(1);
  });

  it('is the same for the same seed and different for another', async () => {
    expect(await draw(5)).toEqual(await draw(5));
    expect(await draw(5)).not.toEqual(await draw(6));
    expect(await draw()).not.toEqual(await draw());
  });

  it('accepts any text as a prompt', async () => {
    const prompt = '</text><script>&amp; \u0000\u0007 \uFFFF 🦊 "quoted" \uD800 ]]> & <';
    const body = await run('fal-ai/nano-banana', { prompt });
    expect(await inspect(body.images[0])).toMatchObject({ size: '1024x1024' });
  });

  it('returns data URIs in sync_mode', async () => {
    const body = await run('fal-ai/nano-banana', { prompt: 'x', sync_mode: true });
    expect(body.images[0].url).toMatch(/^data:image\/png;base64,iVBOR/);
  });
});

describe('image edit', () => {
  const edits: [string, object, string][] = [
    ['fal-ai/nano-banana/edit', {}, '1248x832'],
    ['fal-ai/nano-banana/edit', { aspect_ratio: '1:1' }, '1024x1024'],
    ['fal-ai/nano-banana-pro/edit', { resolution: '2K' }, '2496x1664'],
    ['fal-ai/gemini-3.1-flash-image/edit', { aspect_ratio: '1:1' }, '1024x1024'],
    ['fal-ai/bytedance/seedream/v4/edit', { image_size: 'square_hd' }, '1024x1024'],
    ['fal-ai/gpt-image-1.5/edit', { image_size: '1024x1536' }, '1024x1536'],
    ['fal-ai/gpt-image-1-mini/edit', {}, '1248x832'],
    ['openai/gpt-image-2/edit', { image_size: 'landscape_4_3' }, '1024x768'],
    ['openai/gpt-image-2.5/flare/edit', {}, '1248x832'],
    ['openai/gpt-image-2.5/sunburst/edit', { image_size: 'square' }, '512x512'],
  ];
  it.each(edits)('%s %j is %s and contains its input', async (endpoint, input, size) => {
    const body = await run(endpoint, {
      prompt: 'sky',
      image_urls: [disc, mask],
      seed: 3,
      ...input,
    });
    const image = await inspect(body.images[0]);
    expect(image).toMatchObject({ size, format: 'png' });
    const reds = image.data.filter((value, position) => position % 3 === 0 && value === 0xdd);
    // Shapes that differ by request may cover part of it.
    expect(reds.length).toBeGreaterThan(300);
  });

  it.each(['openai/gpt-image-2/edit', 'fal-ai/gpt-image-1.5/edit'])(
    '%s removes the background on request, and keeps the foreground',
    async (endpoint) => {
      const input = { prompt: 'an icon', image_urls: [disc], background: 'transparent' };
      const body = await run(endpoint, input);
      const { metadata, data, at } = await inspect(body.images[0]);
      expect(metadata.hasAlpha).toBe(true);
      const alphas = new Set(data.filter((_, position) => position % 4 === 3));
      expect(alphas.has(0)).toBe(true);
      expect(at(Math.floor(metadata.width / 2), Math.floor(metadata.height / 2))[3]).toBe(255);
    },
  );

  it('changes only the pixels under the white part of the mask', async () => {
    const input = { prompt: 'sky', image_urls: [disc], mask_url: mask, image_size: 'square' };
    const body = await run('openai/gpt-image-2/edit', input);
    const { at } = await inspect(body.images[0]);
    // The label bar at the bottom is part of every edit: dark at the left, untouched at the right.
    expect(at(250, 508)[0]).toBeLessThan(200);
    expect(at(505, 508)).toEqual([255, 255, 255]);
  });

  it.each([
    ['http://127.0.0.1:9/none.png', 'file_download_error'],
    ['data:text/plain,hello', 'image_load_error'],
  ])('refuses the input %s', async (url, type) => {
    const input = { prompt: 'x', image_urls: [url] };
    const submitted = await sandbox.submit('fal-ai/nano-banana/edit', input);
    const { result } = await sandbox.finish(submitted);
    expect(result).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['body', 'image_urls'], type }] },
    });
  });
});

describe('upscale and background removal', () => {
  it.each([
    ['fal-ai/topaz/upscale/image', { upscale_factor: 3 }, '360x240', 'jpeg'],
    ['fal-ai/topaz/upscale/image', { output_format: 'png', model: 'CGI' }, '240x160', 'png'],
    ['fal-ai/seedvr/upscale/image', { upscale_factor: 1.5 }, '180x120', 'jpeg'],
    ['fal-ai/seedvr/upscale/image', { upscale_mode: 'target' }, '1620x1080', 'jpeg'],
  ])('%s %j is %s %s', async (...[endpoint, input, size, format]) => {
    const { image } = await run(endpoint, { image_url: disc, ...input });
    const [width = 0, height = 0] = size.split('x').map(Number);
    const upscaled = await inspect(image);
    expect(upscaled).toMatchObject({ size, format });
    const [red = 0, green = 0] = upscaled.at(width / 2, height / 2);
    expect(red).toBeGreaterThan(190);
    expect(green).toBeLessThan(40);
  });

  it('upscales an image over HTTP, also one of its own results', async () => {
    const made = await run('openai/gpt-image-2', { prompt: 'x', image_size: 'square' });
    const { image } = await run('fal-ai/topaz/upscale/image', { image_url: made.images[0].url });
    expect(await inspect(image)).toMatchObject({ size: '1024x1024' });
  });

  it('refuses a result that would be too large', async () => {
    const big = await run('fal-ai/nano-banana-pro', { prompt: 'x', resolution: '4K' });
    const input = { image_url: big.images[0].url, upscale_factor: 4 };
    const submitted = await sandbox.submit('fal-ai/topaz/upscale/image', input);
    expect((await sandbox.finish(submitted)).result).toMatchObject({
      status: 422,
      body: { detail: [{ type: 'image_too_large' }] },
    });
  });

  it.each(['png', 'webp'])('returns the foreground as %s, with its mask', async (format) => {
    const input = { image_url: disc, output_format: format, output_mask: true };
    const body = await run('fal-ai/birefnet/v2', input);
    const cut = await inspect(body.image);
    expect(cut).toMatchObject({ size: '120x80', format });
    expect(cut.at(2, 2)[3]).toBe(0);
    expect(cut.at(60, 40)[3]).toBe(255);
    expect(cut.at(60, 40)[0]).toBeGreaterThan(190);
    const found = await inspect(body.mask_image);
    expect(found.at(2, 2)[0]).toBeLessThan(10);
    expect(found.at(60, 40)[0]).toBeGreaterThan(245);
  });

  it('returns an object from an image without a background', async () => {
    const made = await run('fal-ai/nano-banana', { prompt: 'x' });
    const { image } = await run('fal-ai/birefnet/v2', { image_url: made.images[0].url });
    const { data, size } = await inspect(image);
    expect(size).toBe('1024x1024');
    const alphas = data.filter((_, position) => position % 4 === 3);
    const share = alphas.reduce((sum, alpha) => sum + alpha, 0) / (alphas.length * 255);
    expect(share).toBeGreaterThan(0.02);
    expect(share).toBeLessThan(0.98);
  });

  it('allows the largest resolution only with the dynamic model', async () => {
    const input = { image_url: disc, operating_resolution: '2304x2304' };
    const { result } = await sandbox.finish(await sandbox.submit('fal-ai/birefnet/v2', input));
    expect(result.status).toBe(422);
    await run('fal-ai/birefnet/v2', { ...input, model: 'General Use (Dynamic)' });
  });
});

describe('limits', () => {
  it.each([
    ['fal-ai/nano-banana', { num_images: 5 }],
    ['fal-ai/bytedance/seedream/v4/text-to-image', { num_images: 7 }],
    ['fal-ai/bytedance/seedream/v4/text-to-image', { image_size: { width: 5000, height: 1000 } }],
    ['openai/gpt-image-2', { num_images: 5 }],
    ['openai/gpt-image-2', { image_size: { width: 1000, height: 1000 } }],
    ['openai/gpt-image-2.5/flare/text-to-image', { num_images: 11 }],
    ['openai/gpt-image-2.5/flare/text-to-image', { image_size: { width: 3840, height: 1024 } }],
    ['openai/gpt-image-2', { background: 'transparent', output_format: 'jpeg' }],
    ['fal-ai/imagen4/preview', { num_images: 5 }],
    ['xai/grok-imagine-image', { num_images: 5 }],
    ['fal-ai/nano-banana-pro', { resolution: '8K' }],
  ])('%s refuses %j', async (endpoint, input) => {
    const submitted = await sandbox.submit(endpoint, { prompt: 'x', ...input });
    expect((await sandbox.finish(submitted)).result.status).toBe(422);
  });
});
