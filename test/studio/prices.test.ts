import { describe, expect, it } from 'vitest';
import { imageModels } from '../../studio/models/image-models.ts';
import { imageSizes } from '../../studio/models/image-model.ts';
import { backgroundRemovers, upscalers } from '../../studio/models/image-tools.ts';
import type { ParameterRules } from '../../studio/models/model-parameters.ts';
import { videoModels } from '../../studio/models/video-models.ts';
import { microFromCredits } from '../../domain/credits.ts';
import type { Capability } from '../../studio/capabilities/capability.ts';
import type { DraftCall } from '../../domain/draft-plan.ts';
import { imageEdit } from '../../studio/capabilities/image-edit.ts';
import { imageGenerate } from '../../studio/capabilities/image-generate.ts';
import { imageRemoveBackground } from '../../studio/capabilities/image-remove-background.ts';
import { imageUpscale } from '../../studio/capabilities/image-upscale.ts';
import { videoGenerate } from '../../studio/capabilities/video-generate.ts';
import { videoMerge } from '../../studio/capabilities/video-merge.ts';
import { videoRemoveBackground } from '../../studio/capabilities/video-remove-background.ts';
import { videoUpscale } from '../../studio/capabilities/video-upscale.ts';
import { planRequest, priceByInput } from '../harness/capability.ts';

const usdPerCredit = 0.01;
const imageUrl = 'https://example.com/a.png';
const prompt = 'a tree';

/** Every combination of the fields a price can depend on. */
function combinations(rules: ParameterRules): Record<string, unknown>[] {
  const values: Record<string, readonly unknown[]> = {
    imageSize: Object.keys(imageSizes),
    durationSeconds: [rules['durationSeconds']?.min, rules['durationSeconds']?.max],
  };
  const sizes = ['resolution', 'imageSize', 'scaleFactor', 'operatingResolution'];
  const priced = ['quality', ...sizes, 'durationSeconds', 'generateAudio'];
  return priced
    .filter((field) => rules[field] !== undefined)
    .reduce<Record<string, unknown>[]>(
      (found, field) =>
        found.flatMap((body) =>
          [undefined, ...(rules[field]?.oneOf ?? values[field] ?? [])].map((value) => ({
            ...body,
            ...(value !== undefined && { [field]: value }),
          })),
        ),
      [{}],
    );
}

type Row = [string, Capability, Record<string, unknown>];
/** Returns a row for each combination of the priced fields of a model. */
const makeRows = (id: string, capability: Capability, rules: ParameterRules, base: object): Row[] =>
  combinations(rules).map((body) => [id, capability, { ...base, ...body }]);
const rows: Row[] = [
  ...imageModels.flatMap(({ id, generate, edit }) => [
    ...makeRows(id, imageGenerate, generate, { prompt, model: id }),
    ...(edit ? makeRows(id, imageEdit, edit, { prompt, imageUrls: [imageUrl], model: id }) : []),
  ]),
  ...upscalers.flatMap(({ id, parameters }) =>
    makeRows(id, imageUpscale, parameters, { imageUrl, service: id }),
  ),
  ...backgroundRemovers.flatMap(({ id, parameters }) =>
    makeRows(id, imageRemoveBackground, parameters, { imageUrl, model: id }),
  ),
  ...videoModels.flatMap(({ id, parameters }) =>
    makeRows(id, videoGenerate, parameters, { prompt, model: id }),
  ),
  ['video-upscale', videoUpscale, { videoUrl: imageUrl }],
  ['video-remove-background', videoRemoveBackground, { videoUrl: imageUrl }],
  ['video-merge', videoMerge, { videoUrls: [imageUrl, imageUrl] }],
];

const inputs = [
  { width: 64, height: 64, durationSeconds: 0.3 },
  { width: 1280, height: 720, durationSeconds: 12.5 },
];
const calculateUsd = ({ unitPriceUsd }: DraftCall): number[] =>
  typeof unitPriceUsd === 'number'
    ? [unitPriceUsd]
    : inputs.map((facts) => priceByInput(unitPriceUsd, facts).unitPriceUsd);

describe('the price of every row', () => {
  it('is a positive whole number of micro-credits, never below its USD', () => {
    expect(rows.length).toBeGreaterThan(150);
    for (const [id, capability, body] of rows) {
      for (const call of planRequest(capability, body).calls) {
        for (const usd of calculateUsd(call)) {
          const micro = microFromCredits(usd / usdPerCredit);
          const what = `${capability.type} ${id} ${JSON.stringify(body)}`;
          expect(usd, what).toBeGreaterThan(0);
          expect(Number.isSafeInteger(micro) && micro > 0, what).toBe(true);
          expect(micro * usdPerCredit, what).toBeGreaterThanOrEqual(usd * 1e6 - 1e-3);
          // One rounding rule: up, by less than one micro-credit.
          expect(micro - (usd / usdPerCredit) * 1e6, what).toBeLessThan(1);
        }
      }
    }
  });

  it('equals the catalog’s credits in examples that can be checked by hand', () => {
    const credits = (capability: Capability, body: object) =>
      planRequest(capability, body).calls.reduce(
        (sum, call) => sum + call.quantity * ((calculateUsd(call)[0] ?? 0) / usdPerCredit),
        0,
      );
    const tree = { prompt: 'a tree' };
    expect(credits(imageGenerate, tree)).toBeCloseTo(3.9);
    expect(credits(imageGenerate, { ...tree, numImages: 10 })).toBeCloseTo(39);
    const pro = { ...tree, model: 'nano-banana-pro' };
    expect(credits(imageGenerate, { ...pro, resolution: '4K' })).toBe(30);
    expect(credits(imageGenerate, pro)).toBe(15);
    const low = { ...tree, model: 'alpha-image', quality: 'low' };
    expect(credits(imageGenerate, low)).toBeCloseTo(0.9);
    const gpt = { ...tree, model: 'alpha-image-2' };
    expect(credits(imageGenerate, gpt)).toBeCloseTo(6);
    expect(credits(imageGenerate, { ...gpt, quality: 'auto' })).toBeCloseTo(22);
    const wide = { width: 2048, height: 2048 };
    expect(credits(imageGenerate, { ...gpt, imageSize: wide, quality: 'low' })).toBeCloseTo(4);
    expect(credits(videoGenerate, tree)).toBeCloseTo(320);
  });
});

it('credits are rounded up to micro-credits, so that no price becomes 0', () => {
  expect(microFromCredits(0.000_000_1)).toBe(1);
  expect(microFromCredits(3.900_000_4)).toBe(3_900_001);
  // A binary fraction above the decimal one adds nothing.
  expect(microFromCredits(0.1 + 0.2)).toBe(300_000);
});
