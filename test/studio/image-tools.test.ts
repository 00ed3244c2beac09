import { describe, expect, it } from 'vitest';
import type { DraftCall } from '../../domain/draft-plan.ts';
import type { InputMeasurements } from '../../domain/measured-price.ts';
import { imageBatch } from '../../studio/capabilities/image-batch.ts';
import { imageRemoveBackground } from '../../studio/capabilities/image-remove-background.ts';
import { imageUpscale } from '../../studio/capabilities/image-upscale.ts';
import { planRequest, catchRejection, isAccepted, priceByInput } from '../harness/capability.ts';

const imageUrl = 'https://example.com/a.png';
const urls = (count: number) =>
  Array.from({ length: count }, (_, index) => `https://example.com/${index}.png`);
const facts = (width: number, height: number): InputMeasurements => {
  return { width, height, durationSeconds: null };
};
const calculateUsd = (call: DraftCall | undefined, measured: InputMeasurements): number => {
  const price = call?.unitPriceUsd;
  if (typeof price !== 'object') throw new Error('the price does not depend on the input');
  return priceByInput(price, measured).unitPriceUsd;
};

describe('POST /studio/image/upscale: limits of spec §4.7', () => {
  it('reaches a factor of six in two steps if the service allows at most four', () => {
    const [first, second, ...more] = planRequest(imageUpscale, { imageUrl, scaleFactor: 6 }).calls;
    expect(more).toEqual([]);
    expect(first?.routes[0]?.input).toMatchObject({
      image_url: imageUrl,
      upscale_factor: 3,
      model: 'Standard V2',
      face_enhancement: true,
    });
    expect(second?.routes[0]?.input).toMatchObject({ upscale_factor: 2 });
    expect(second?.inputFrom).toEqual({ callIndex: 0, field: 'image_url' });
  });

  it('is priced by the pixels of the result, and rejects results that would be too large', () => {
    const [call] = planRequest(imageUpscale, { imageUrl, scaleFactor: 4 }).calls;
    expect(calculateUsd(call, facts(1000, 1000))).toBe(0.08);
    expect(calculateUsd(call, facts(1225, 1225))).toBeCloseTo(0.16);
    expect(calculateUsd(call, facts(2000, 2000))).toBeCloseTo(0.24);
    expect(() => calculateUsd(call, facts(2001, 2000))).toThrow(/64000000/);
  });
});

it('POST /studio/image/remove-background: sends its defaults to the provider, and uses the only model with the largest resolution', () => {
  const input = (body: object) =>
    planRequest(imageRemoveBackground, { imageUrl, ...body }).calls[0]?.routes[0]?.input;
  expect(input({})).toEqual({
    image_url: imageUrl,
    model: 'General Use (Light)',
    operating_resolution: '1024x1024',
    refine_foreground: true,
    output_format: 'png',
  });
  expect(input({ operatingResolution: '2304x2304' })).toMatchObject({
    model: 'General Use (Dynamic)',
    operating_resolution: '2304x2304',
  });
});

describe('POST /studio/image/batch: limits of spec §4.7', () => {
  const remove = { operation: 'remove-background' };
  const upscale = { operation: 'upscale' };
  it.each([
    [{ ...remove, prompts: urls(11) }, false],
    [{ ...remove, prompts: urls(2), imageUrls: urls(2) }, true],
    [{ ...upscale, imageUrls: urls(2), service: 'service_x' }, false],
  ])('%j → %s', (body, taken) => {
    expect(isAccepted(imageBatch, body)).toBe(taken);
  });

  it('names the fields that conflict, and the text that is no URL', () => {
    const conflict = catchRejection(imageBatch, {
      ...remove,
      prompts: urls(1),
      imageUrls: urls(2),
    });
    const paths = [{ path: 'imageUrls' }, { path: 'prompts' }];
    expect(conflict).toMatchObject({ code: 'CONFLICTING_FIELDS', details: paths });
    const wrong = catchRejection(imageBatch, { ...remove, prompts: [...urls(1), 'a cat'] });
    expect(wrong.details?.[0]?.path).toBe('prompts.1');
  });

  it('plans a separate call for every image, and requires none', () => {
    const plan = planRequest(imageBatch, { ...upscale, imageUrls: urls(3), scaleFactor: 6 });
    expect(plan.calls.filter((call) => call.required)).toEqual([]);
    const sources = plan.calls.map((call) => call.inputFrom?.callIndex);
    expect(sources).toEqual([undefined, 0, undefined, 2, undefined, 4]);
    const fields = ['imageUrls.0', 'imageUrls.1', 'imageUrls.2'];
    expect(plan.inputs?.map((input) => input.field)).toEqual(fields);
  });
});
