/** Plans of pipelines, without a server: prices that are known before anything starts. */
import { describe, expect, it } from 'vitest';
import { editModels, imageModels } from '../../studio/models/image-models.ts';
import { videoModels } from '../../studio/models/video-models.ts';
import { pipelines } from '../../studio/pipelines/pipeline-requests.ts';
import { planOpenPrices } from '../../studio/pipelines/step-prices.ts';
import { calculateChargeMaxMicro, priceDraft } from '../../studio/requests/planner.ts';
import { catalogPrices } from '../../ledger/price-book.ts';
import { planRequest } from '../harness/capability.ts';

const prices = catalogPrices(0.01);
const priceSteps = (steps: object[]) =>
  priceDraft(prices, pipelines, planOpenPrices(planRequest(pipelines, { steps }), 0.01));
const result = { $from: 'first' };
const small = { use: 'image/remove-background', body: { imageUrl: result } };
const big = (service: string, scaleFactor: number) => ({
  use: 'image/upscale',
  body: { imageUrl: result, service, scaleFactor },
});

const resolutions = (rules: { resolution?: { oneOf?: readonly unknown[] } } | undefined) =>
  rules?.resolution?.oneOf ?? [undefined];
const pictures = [
  ...imageModels.flatMap(({ id, generate }) =>
    resolutions(generate).map((resolution) => ({
      use: 'image/generate',
      body: { prompt: 'a lamp', model: id, resolution },
    })),
  ),
  ...editModels.map(({ id }) => ({
    use: 'image/edit',
    body: { prompt: 'a lamp', model: id, imageUrls: ['https://example.com/a.png'] },
  })),
];
const films = videoModels.flatMap(({ id, parameters }) =>
  resolutions(parameters).map((resolution) => ({
    use: 'video/generate',
    body: { prompt: 'a lamp', model: id, resolution },
  })),
);

describe('a result of which only the most pixels are planned', () => {
  it.each(pictures)(
    '$use $body.model $body.resolution has upscales of a known price',
    (picture) => {
      const first = { id: 'first', ...picture };
      for (const service of ['service_a', 'service_b']) {
        for (const scaleFactor of [2, 4, 6]) {
          const second = { id: 'second', ...big(service, scaleFactor) };
          const { steps } = priceSteps([first, second]);
          expect(steps[1]?.maxMicro).toBeGreaterThan(0);
          expect(steps[1]?.maxMicro).toBe(steps[1]?.expectedMicro);
        }
      }
      const cut = { id: 'second', ...small };
      const third = {
        id: 'third',
        ...big('service_a', 2),
        body: { imageUrl: { $from: 'second' } },
      };
      expect(priceSteps([first, cut, third]).steps[2]?.maxMicro).toBeGreaterThan(0);
    },
  );

  it.each(films)('$use $body.model $body.resolution has upscales of a known price', (film) => {
    const second = { id: 'second', use: 'video/upscale', body: { videoUrl: result } };
    const { steps } = priceSteps([{ id: 'first', ...film }, second]);
    expect(steps[1]?.expectedMicro).toBeGreaterThan(0);
  });

  it('costs as much as a square of that many pixels', () => {
    const picture = { id: 'first', use: 'image/generate', body: { prompt: 'a lamp' } };
    // 1.1 megapixels become 17.6: three started blocks of 8 megapixels.
    const { steps } = priceSteps([picture, { id: 'second', ...big('service_b', 4) }]);
    expect(steps[1]).toMatchObject({ maxMicro: 6_000_000, expectedMicro: 6_000_000 });
  });
});

describe('a recording of the caller', () => {
  const transcript = (more: object = {}) => ({
    id: 'text',
    use: 'audio/transcribe',
    body: { fileId: `file_${'0'.repeat(32)}` },
    ...more,
  });
  const measured = {
    kind: 'file' as const,
    storageKey: 'k/a.mp3',
    durationSeconds: 13,
    sizeBytes: 20_000,
    type: { extension: 'mp3', contentType: 'audio/mpeg' },
  };
  const price = (steps: object[], more: object = {}) => {
    const draft = planRequest(pipelines, { steps, ...more }).recordings?.complete([measured]);
    if (!draft) throw new Error('the pipeline has no recording');
    return priceDraft(prices, pipelines, draft);
  };
  // 13 seconds are measured, and 20,000 bytes can hold 200.
  const [reservedMicro, mostMicro] = [79_430, 1_222_000];

  it('reserves the measured seconds, and may be charged as many as its bytes can hold', () => {
    const priced = price([transcript()]);
    expect(priced.priceMicro).toBe(reservedMicro);
    expect(calculateChargeMaxMicro(priced)).toBe(mostMicro);
    expect(priced.steps).toMatchObject([{ allowanceMicro: mostMicro - reservedMicro }]);
  });

  it.each([
    ['maxCredits', [transcript()], { maxCredits: mostMicro / 1e6 - 0.000001 }],
    ['steps.0.maxCredits', [transcript({ maxCredits: mostMicro / 1e6 - 0.000001 })], {}],
  ])('is rejected if %s does not contain these seconds', (path, steps, more) => {
    expect(() => price(steps, more)).toThrow(`${path}: must be at least 1.222,`);
  });

  it('is accepted if maxCredits contains them', () => {
    const maxCredits = mostMicro / 1e6;
    expect(price([transcript({ maxCredits })], { maxCredits }).priceMicro).toBe(reservedMicro);
  });
});
