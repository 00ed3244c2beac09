import { describe, expect, it } from 'vitest';
import { imageModels } from '../../catalog/image-models.ts';
import { GatewayError } from '../../domain/errors.ts';
import { imageGenerate } from '../../studio/image-generate.ts';
import { imageUpscale } from '../../studio/image-upscale.ts';

const plan = (body: object) => imageGenerate.plan(imageGenerate.request.parse(body));
const input = (body: object) => plan({ prompt: 'a tree', ...body }).calls[0]?.routes[0]?.input;
const refusal = (body: object): GatewayError => {
  try {
    plan({ prompt: 'a tree', ...body });
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error('the request was taken');
};
const valid = (body: object) =>
  imageGenerate.request.safeParse({ prompt: 'a tree', ...body }).success;

describe('a validation error', () => {
  const issueOf = (body: object) =>
    imageGenerate.request.safeParse({ prompt: 'a tree', ...body }).error?.issues[0];

  it('lists the allowed values', () => {
    expect(issueOf({ imageSize: 'huge' })?.message).toMatch(
      /must be one of square.*, or \{"width"/,
    );
    expect(issueOf({ imageUrls: 7 })?.message).toMatch(/^must be one URL or a list of 1 to 10/);
    expect(
      imageUpscale.request.safeParse({ imageUrl: 'https://a.example/b.png', scaleFactor: 3 }).error
        ?.issues[0]?.message,
    ).toContain('2|4|6');
  });

  it('rejects a blank prompt', () => {
    expect(issueOf({ prompt: '   ' })).toMatchObject({
      path: ['prompt'],
      message: 'must not be blank',
    });
    expect(valid({ prompt: ' a ' })).toBe(true);
  });
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
        if (allowed) expect(plan({ prompt: 'a tree', model: id, [field]: value }).model).toBe(id);
        else {
          const refused = refusal({ model: id, [field]: value });
          expect(refused.code).toBe('UNSUPPORTED_PARAMETER');
          expect(refused.details?.[0]?.path).toBe(field);
        }
      }
      expect(plan({ prompt: 'a tree', model: id, seed: 5 }).model).toBe(id);
      const most = model.generate['numImages']?.max ?? 0;
      const calls = plan({ prompt: 'a tree', model: id, numImages: most }).calls;
      expect(calls.reduce((sum, call) => sum + call.quantity, 0)).toBe(most);
      if (most < 10) {
        expect(refusal({ model: id, numImages: most + 1 }).details?.[0]?.path).toBe('numImages');
      }
      for (const call of calls) expect(call.unitPriceUsd).toBeGreaterThan(0);
    },
  );

  it('are listed in the error for an unknown model', () => {
    const refused = refusal({ model: 'dall-e-2' });
    expect(refused.code).toBe('UNKNOWN_MODEL');
    expect(refused.details?.[0]?.message).toContain('alpha-image-2.5-flare');
  });
});

describe('the limits of spec §8', () => {
  it.each([
    [{ width: 3856, height: 2000 }],
    [{ width: 512, height: 512 }],
    [{ width: 3840, height: 2176 }],
    [{ width: 2064, height: 640 }],
  ])('refuse the custom size %j', (imageSize) => {
    const taken = () => plan({ prompt: 'a tree', model: 'alpha-image-2', imageSize });
    expect(taken).toThrow();
    expect(() => plan({ prompt: 'a tree', model: 'alpha-image-2' })).not.toThrow();
  });

  it('are those of the model if it has its own', () => {
    expect(refusal({ aspectRatio: '7:1' }).details?.[0]?.path).toBe('aspectRatio');
    expect(refusal({ model: 'alpha-imagine', aspectRatio: '21:9' }).code).toBe('INVALID_REQUEST');
    expect(
      refusal({ model: 'alpha-image-2', background: 'transparent', outputFormat: 'jpeg' }).code,
    ).toBe('CONFLICTING_FIELDS');
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
    const body = { prompt: 'a tree', imageUrls: ['https://example.com/a.png'] };
    expect(plan(body).calls[0]?.routes[0]?.providerEndpoint).toBe('fal-ai/nano-banana/edit');
  });

  it('has a higher price for a higher resolution or quality', () => {
    const usd = (body: object) => plan({ prompt: 'a tree', ...body }).calls[0]?.unitPriceUsd;
    expect(usd({ model: 'nano-banana-pro' })).toBe(0.15);
    expect(usd({ model: 'nano-banana-pro', resolution: '4K' })).toBe(0.3);
    expect(usd({ model: 'alpha-image', quality: 'low' })).toBe(0.009);
  });
});
