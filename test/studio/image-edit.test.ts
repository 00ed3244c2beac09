import { describe, expect, it } from 'vitest';
import { editModels } from '../../catalog/image-models.ts';
import { imageEdit } from '../../studio/image-edit.ts';
import { planOf, refusalOf } from '../harness/capability.ts';

const base = { prompt: 'add a hat', imageUrls: ['https://example.com/a.png'] };

describe('POST /studio/image/edit: limits of spec §4.7', () => {
  it('accepts the five models of the specification, nano-banana by default', () => {
    expect(editModels.map((model) => model.id)).toEqual([
      'nano-banana',
      'seedream',
      'alpha-image-2',
      'alpha-image-2.5-flare',
      'alpha-image-2.5-sunburst',
    ]);
    expect(planOf(imageEdit, base).model).toBe('nano-banana');
    const refused = refusalOf(imageEdit, { ...base, model: 'alpha-imagen' });
    expect(refused.code).toBe('UNKNOWN_MODEL');
    expect(refused.details?.[0]?.message).toContain('alpha-image-2.5-sunburst');
  });

  it.each(['quality', 'background', 'maskUrl'])('refuses %s of other models by name', (field) => {
    const values = { quality: 'high', background: 'opaque', maskUrl: 'https://example.com/m.png' };
    const value = values[field as keyof typeof values];
    for (const model of ['nano-banana', 'seedream']) {
      const refused = refusalOf(imageEdit, { ...base, model, [field]: value });
      expect(refused.code).toBe('UNSUPPORTED_PARAMETER');
      expect(refused.details).toEqual([{ path: field, message: expect.stringContaining(model) }]);
    }
  });

  it('refuses a transparent background in JPEG', () => {
    const body = {
      ...base,
      model: 'alpha-image-2',
      background: 'transparent',
      outputFormat: 'jpeg',
    };
    expect(refusalOf(imageEdit, body).code).toBe('CONFLICTING_FIELDS');
  });

  it('sends the mask in the field of each provider, and declares every input', () => {
    const maskUrl = 'https://example.com/mask.png';
    const plan = planOf(imageEdit, { ...base, model: 'alpha-image-2', maskUrl, numImages: 6 });
    expect(plan.calls.map((call) => call.quantity)).toEqual([4, 2]);
    const [fal, openai] = plan.calls[0]?.routes ?? [];
    expect(fal).toMatchObject({
      provider: 'fal',
      providerEndpoint: 'openai/gpt-image-2/edit',
      input: { image_urls: base.imageUrls, mask_url: maskUrl, num_images: 4, quality: 'medium' },
    });
    expect(openai).toMatchObject({
      provider: 'openai',
      providerEndpoint: 'images/edits',
      input: { model: 'gpt-image-2', mask_url: maskUrl, n: 4, quality: 'medium' },
    });
    expect(plan.inputs).toEqual([
      { field: 'imageUrls.0', url: base.imageUrls[0], medium: 'image' },
      { field: 'maskUrl', url: maskUrl, medium: 'image' },
    ]);
  });
});
