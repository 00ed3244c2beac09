import { describe, expect, it } from 'vitest';
import { imageEdit } from '../../studio/capabilities/image-edit.ts';
import { planRequest, catchRejection } from '../harness/capability.ts';

const base = { prompt: 'add a hat', imageUrls: ['https://example.com/a.png'] };

describe('POST /studio/image/edit: limits of spec §4.7', () => {
  it('rejects a transparent background in JPEG', () => {
    const body = { model: 'alpha-image-2', background: 'transparent', outputFormat: 'jpeg' };
    expect(catchRejection(imageEdit, { ...base, ...body }).code).toBe('CONFLICTING_FIELDS');
  });

  it('sends the mask in the field of each provider, and declares every input', () => {
    const maskUrl = 'https://example.com/mask.png';
    const plan = planRequest(imageEdit, { ...base, model: 'alpha-image-2', maskUrl, numImages: 6 });
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
