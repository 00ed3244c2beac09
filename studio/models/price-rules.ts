/** Price rules of each kind of Studio model. */
import type { AudioModel } from './audio-models.ts';
import type { ImagePrice } from './image-model.ts';
import { calculateEnlargements, type BackgroundRemover, type Upscaler } from './image-tools.ts';
import type { ParameterRules } from './model-parameters.ts';
import type { PriceRow, PriceRule } from './unit-price.ts';
import type { VideoModel } from './video-models.ts';
import type { VideoTool } from './video-tools.ts';

const oneUnit = { of: null, default: 1 };

/** Returns the price rule of an image model. `quantity` defaults to the field `numImages`. */
export function imagePriceRules(
  price: ImagePrice,
  parameters: ParameterRules,
  quantity: PriceRule['quantity'] = { of: 'numImages', default: 1 },
): [PriceRule] {
  const [field = '', usdByValue = {}] = Object.entries(price.usdByField ?? {})[0] ?? [];
  const values = parameters[field]?.oneOf ?? [];
  const rows = values.map((value): PriceRow => {
    const listedUsd = usdByValue[String(value)];
    if (listedUsd !== undefined) return { when: { [field]: value }, usd: listedUsd };
    const valueWithSamePrice = Object.keys(usdByValue).find(
      (known) => usdByValue[known] === price.usd,
    );
    return {
      when: { [field]: value },
      usd: price.usd,
      ...(valueWithSamePrice && { chargedAs: valueWithSamePrice }),
    };
  });
  const each = parameters['imageSize'] && price.includedPixels;
  return [
    {
      unit: 'image',
      quantity,
      pixels:
        each === undefined ? null : { of: 'imageSize', edgesTimes: 1, each, rounding: 'none' },
      rows: rows.length > 0 ? rows : [{ when: {}, usd: price.usd }],
    },
  ];
}

/** Returns the price rule of a song's cover image, which only mode `full` generates. */
export function coverPriceRules(price: ImagePrice): [PriceRule] {
  const [rule] = imagePriceRules(price, {}, oneUnit);
  const rows = rule.rows.map((row) => ({ ...row, when: { ...row.when, mode: 'full' } }));
  return [{ ...rule, rows }];
}

/** Returns the price rules of an upscale: one per step, priced by the pixels of its result. */
export function upscalePriceRules(
  service: Upscaler,
  quantity: PriceRule['quantity'] = oneUnit,
): [PriceRule, ...PriceRule[]] {
  const createRule = (edgesTimes: number | string, when: PriceRow['when']): PriceRule => ({
    unit: 'image',
    quantity,
    pixels: { of: 'input', edgesTimes, each: service.price.stepPixels, rounding: 'up' },
    rows: [{ when, usd: service.price.usd }],
  });
  const earlierSteps = Object.keys(service.steps).flatMap((key) => {
    const scaleFactor = Number(key);
    const enlargements = calculateEnlargements(service, scaleFactor).slice(0, -1);
    return enlargements.map((enlargement) => createRule(enlargement, { scaleFactor }));
  });
  return [createRule('scaleFactor', {}), ...earlierSteps];
}

/**
 * Returns the price rule of a background remover. It has one row per `operatingResolution`, if
 * requests can contain that field.
 */
export function removalPriceRules(
  { usdByResolution, parameters }: BackgroundRemover,
  quantity?: PriceRule['quantity'],
): [PriceRule] {
  const rows = Object.entries(usdByResolution).map(([operatingResolution, usd]): PriceRow => ({
    when: { operatingResolution },
    usd,
  }));
  const defaultRow = rows.find(
    ({ when }) => when['operatingResolution'] === parameters['operatingResolution']?.default,
  );
  return [
    {
      unit: 'image',
      quantity: quantity ?? oneUnit,
      pixels: null,
      // A request for several pictures cannot contain a resolution, so the default applies.
      rows: quantity && defaultRow ? [{ when: {}, usd: defaultRow.usd }] : rows,
    },
  ];
}

/** Returns the price rule of a video model. */
export function videoPriceRules({ usdPerSecond, parameters }: VideoModel): [PriceRule] {
  const defaultSeconds = parameters['durationSeconds']?.default;
  return [
    {
      unit: 'second',
      quantity: {
        of: 'durationSeconds',
        default: typeof defaultSeconds === 'number' ? defaultSeconds : null,
      },
      pixels: null,
      rows: usdPerSecond.map(({ when, usd }) => ({ when, usd })),
    },
  ];
}

/** Returns the price rule of a tool that processes a video. */
export function videoToolPriceRules({ usdPerSecond, scale }: VideoTool): [PriceRule] {
  return [
    {
      unit: 'second',
      quantity: { of: 'input', default: null },
      pixels: { of: 'input', edgesTimes: scale, each: null, rounding: 'none' },
      rows: usdPerSecond.map(({ pixelsMax, usd }) => ({ when: {}, pixelsMax, usd })),
    },
  ];
}

/** Returns the price rule of an audio model. */
export function audioPriceRules(
  { priceUnit, usd }: AudioModel,
  quantity: PriceRule['quantity'] = oneUnit,
): PriceRule[] {
  return [{ unit: priceUnit, quantity, pixels: null, rows: [{ when: {}, usd }] }];
}
