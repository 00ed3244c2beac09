import { describe, expect, it } from 'vitest';
import { imageModels } from '../../studio/models/image-models.ts';
import { imageGenerate } from '../../studio/capabilities/image-generate.ts';
import { imageUpscale } from '../../studio/capabilities/image-upscale.ts';
import { planRequest, catchRejection } from '../harness/capability.ts';

const withPrompt = (body: object) => ({ prompt: 'a tree', ...body });
const plan = (body: object) => planRequest(imageGenerate, withPrompt(body));
const route = (body: object) => plan(body).calls[0]?.routes[0];
const input = (body: object) => route(body)?.input;
const rejection = (body: object) => catchRejection(imageGenerate, withPrompt(body));

it('a validation error lists the allowed values', () => {
  const readMessage = (body: object) => rejection(body).details?.[0]?.message;
  expect(readMessage({ imageSize: 'huge' })).toMatch(/must be one of square.*, or \{"width"/);
  expect(readMessage({ imageUrls: 7 })).toMatch(/^must be one input or a list of 1 to 10 inputs/);
  const scaled = { imageUrl: 'https://a.example/b.png', scaleFactor: 3 };
  const { details } = catchRejection(imageUpscale, scaled);
  expect(details?.[0]?.message).toContain('must be one of 2, 4, 6');
});

describe('the models of spec §4.7', () => {
  it.each(imageModels.map((model) => [model.id, model] as const))(
    '%s accepts the fields of its row, and no field of another model',
    (id, model) => {
      const parameters: Record<string, unknown> = {
        aspectRatio: '1:1',
        resolution: '2K',
        width: 2048,
        height: 1024,
        negativePrompt: 'fog',
        quality: 'high',
        background: 'opaque',
        imageSize: 'square_hd',
        imageUrls: 'https://example.com/a.png',
      };
      for (const [field, value] of Object.entries(parameters)) {
        const allowed = model.generate[field] !== undefined;
        if (allowed) expect(plan({ model: id, [field]: value }).model).toBe(id);
        else {
          const { code, details } = rejection({ model: id, [field]: value });
          expect([code, details?.[0]?.path]).toEqual(['UNSUPPORTED_PARAMETER', field]);
        }
      }
      expect(plan({ model: id, seed: 5 }).model).toBe(id);
      const most = model.generate['numImages']?.max ?? 0;
      const calls = plan({ model: id, numImages: most }).calls;
      expect(calls.reduce((sum, call) => sum + call.quantity, 0)).toBe(most);
      if (most < 10) {
        expect(rejection({ model: id, numImages: most + 1 }).details?.[0]?.path).toBe('numImages');
      }
      for (const call of calls) expect(call.unitPriceUsd).toBeGreaterThan(0);
    },
  );
});

describe('the limits of spec §8', () => {
  it.each([
    [{ width: 3856, height: 2000 }],
    [{ width: 512, height: 512 }],
    [{ width: 3840, height: 2176 }],
    [{ width: 2064, height: 640 }],
  ])('reject the custom size %j', (imageSize) => {
    const { details } = rejection({ model: 'alpha-image-2', imageSize });
    expect(details?.[0]?.path).toMatch(/^imageSize/);
  });

  it('are those of the model if it has its own', () => {
    expect(rejection({ aspectRatio: '7:1' }).details?.[0]?.path).toBe('aspectRatio');
    expect(rejection({ model: 'alpha-imagine', aspectRatio: '21:9' }).code).toBe('INVALID_REQUEST');
    const conflict = { background: 'transparent', outputFormat: 'jpeg' };
    expect(rejection({ model: 'alpha-image-2', ...conflict }).code).toBe('CONFLICTING_FIELDS');
  });
});

describe('the input of a provider call', () => {
  it.each([
    [
      { aspectRatio: '16:9', outputFormat: 'webp', seed: 3 },
      { aspect_ratio: '16:9', output_format: 'webp', seed: 3 },
    ],
    [{ model: 'nano-banana-pro', resolution: '4K' }, { resolution: '4K' }],
    [
      { model: 'seedream', width: 2048, height: 1024 },
      { image_size: { width: 2048, height: 1024 } },
    ],
    [{ model: 'seedream', width: 2048 }, { image_size: { width: 2048, height: 2048 } }],
    [
      { model: 'alpha-image', aspectRatio: '3:2', quality: 'low' },
      { image_size: '1536x1024', quality: 'low' },
    ],
    [{ model: 'alpha-image-2' }, { image_size: 'landscape_4_3' }],
    [
      { model: 'alpha-image-2.5-flare', imageSize: { width: 1024, height: 640 } },
      { image_size: { width: 1024, height: 640 } },
    ],
    [{ imageUrls: 'https://example.com/a.png' }, { image_urls: ['https://example.com/a.png'] }],
  ])('for %j', (body, expected) => {
    expect(input(body)).toMatchObject(expected);
  });

  it('contains no field that the upstream does not support', () => {
    expect(input({ model: 'seedream', outputFormat: 'webp' })).not.toHaveProperty('output_format');
    expect(input({ model: 'alpha-image', quality: 'auto' })).not.toHaveProperty('quality');
    expect(input({ model: 'alpha-image-2', seed: 5 })).not.toHaveProperty('seed');
    expect(input({ async: true })).not.toHaveProperty('async');
    expect(input({ model: 'alpha-imagen-ultra', negativePrompt: 'fog' })).toEqual({
      num_images: 1,
      prompt: 'a tree\n\nDo not show: fog',
    });
  });

  it('has at most as many images as the provider accepts, and a seed that differs between calls', () => {
    const { calls } = plan({ prompt: 'an orchard', numImages: 10, seed: 7 });
    expect(calls.map(({ routes }) => routes[0]?.input)).toMatchObject([
      { num_images: 4, seed: 7 },
      { num_images: 4, seed: 11 },
      { num_images: 2, seed: 15 },
    ]);
  });

  it('goes to the edit endpoint if there are reference images', () => {
    const endpoint = route({ imageUrls: ['https://example.com/a.png'] })?.providerEndpoint;
    expect(endpoint).toBe('fal-ai/nano-banana/edit');
  });
});
