/**
 * Price rules of the Studio models. `calculateUnitPrice` applies them to requests, and GET /pricing
 * publishes them. A price is the sum of its rules; a rule without a matching row adds nothing.
 */
import type { AudioModel } from './audio-models.ts';
import { assert } from '../domain/errors.ts';
import type { ImagePrice } from './image-model.ts';
import { calculateEnlargements, type BackgroundRemover, type Upscaler } from './image-tools.ts';
import type { Fields } from './provider-fields.ts';
import type { ParameterRules } from './model-parameters.ts';
import type { VideoModel } from './video-models.ts';
import type { VideoTool } from './video-tools.ts';

type Value = string | number | boolean;

/**
 * Price of a unit in USD. It applies to requests whose fields (including defaults) have all values
 * in `when`.
 */
export interface PriceRow {
  when: Readonly<Record<string, Value>>;
  /** Additional condition: maximum number of pixels of the result. */
  pixelsMax?: number;
  usd: number;
  /** Value whose price applies if the value in `when` lets the model choose, such as `auto`. */
  chargedAs?: string;
}

/** Pixels that a price depends on. */
export interface PricedPixels {
  /**
   * Source of the pixel count: the request field with the size, or `input` for the measured input.
   */
  of: string;
  /** Factor that multiplies the edges: a number, or the request field that contains it. */
  edgesTimes: number | string;
  /**
   * Pixels per step: the row's price is multiplied by the number of steps, at least 1. Null if the
   * number of pixels only selects the row.
   */
  each: number | null;
  /** If `up`, the number of steps is rounded up to an integer. */
  rounding: 'up' | 'none';
}

/** Rule of a price list: the price of a unit and the number of units. */
export interface PriceRule {
  unit: 'image' | 'second' | 'character' | 'request';
  /**
   * Number of units. `of` is the request field that determines it: a number (rounded up), the
   * characters of a string, or the length of a list; `input` means the measured seconds of the
   * input, rounded up. `default` applies if `of` gives no number.
   */
  quantity: { of: string | null; default: number | null };
  pixels: PricedPixels | null;
  /** Price rows; the first matching row applies. */
  rows: readonly PriceRow[];
}

/** Price of a unit of a request in USD. */
export interface UnitPrice {
  usd: number;
  /** Value whose price applies if the request lets the model choose. */
  chargedAs?: string;
  /** Prices of results with fewer pixels, which the provider may deliver instead. */
  smaller: { pixelsBelow: number; unitPriceUsd: number }[];
}

/**
 * Returns the price of a unit of a request.
 * @param fields fields of the request with their defaults
 * @param pixels number of pixels of the result; 0 if the request does not determine it
 */
export function calculateUnitPrice(rule: PriceRule, fields: Fields, pixels = 0): UnitPrice {
  const row = rule.rows.find(
    ({ when, pixelsMax = Infinity }) =>
      pixels <= pixelsMax &&
      Object.entries(when).every(([field, value]) => fields[field] === value),
  );
  assert(row, 'no row of the price rule matches the request');
  const { usd, chargedAs } = row;
  const each = rule.pixels?.each ?? null;
  if (each === null) {
    const smaller = rule.rows.flatMap(({ pixelsMax, usd: unitPriceUsd }) =>
      pixelsMax !== undefined && unitPriceUsd < usd
        ? [{ pixelsBelow: pixelsMax + 1, unitPriceUsd }]
        : [],
    );
    return { usd, ...(chargedAs !== undefined && { chargedAs }), smaller };
  }
  const steps = Math.max(1, Math.ceil(pixels / each));
  const share = rule.pixels?.rounding === 'up' ? steps : Math.max(1, pixels / each);
  return {
    usd: usd * share,
    ...(chargedAs !== undefined && { chargedAs }),
    smaller: Array.from({ length: steps - 1 }, (_, index) => ({
      pixelsBelow: (index + 1) * each + 1,
      unitPriceUsd: (index + 1) * usd,
    })),
  };
}

const oneUnit = { of: null, default: 1 };

/** Returns the price rule of images. `quantity` defaults to `numImages`. */
export function imagePriceRules(
  price: ImagePrice,
  parameters: ParameterRules,
  quantity: PriceRule['quantity'] = { of: 'numImages', default: 1 },
): [PriceRule] {
  const [field = '', table = {}] = Object.entries(price.by ?? {})[0] ?? [];
  const values = parameters[field]?.oneOf ?? [];
  const rows = values.map((value): PriceRow => {
    const listedUsd = table[String(value)];
    if (listedUsd !== undefined) return { when: { [field]: value }, usd: listedUsd };
    const equalValue = Object.keys(table).find((known) => table[known] === price.usd);
    return {
      when: { [field]: value },
      usd: price.usd,
      ...(equalValue && { chargedAs: equalValue }),
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

/**
 * Returns the price rules of an upscale: one rule per step, priced by the pixels of the step's
 * result.
 */
export function upscalePriceRules(
  service: Upscaler,
  quantity: PriceRule['quantity'] = oneUnit,
): [PriceRule, ...PriceRule[]] {
  const rule = (edgesTimes: number | string, when: PriceRow['when']): PriceRule => ({
    unit: 'image',
    quantity,
    pixels: { of: 'input', edgesTimes, each: service.price.stepPixels, rounding: 'up' },
    rows: [{ when, usd: service.price.usd }],
  });
  const earlierSteps = Object.keys(service.steps).flatMap((key) => {
    const scaleFactor = Number(key);
    const enlargements = calculateEnlargements(service, scaleFactor).slice(0, -1);
    return enlargements.map((enlargement) => rule(enlargement, { scaleFactor }));
  });
  return [rule('scaleFactor', {}), ...earlierSteps];
}

/**
 * Returns the price rule of background removals, by `operatingResolution` if the request can
 * contain it.
 */
export function removalPriceRules(
  { usdByResolution, parameters }: BackgroundRemover,
  quantity?: PriceRule['quantity'],
): [PriceRule] {
  const rows = Object.entries(usdByResolution).map(([operatingResolution, usd]): PriceRow => ({
    when: { operatingResolution },
    usd,
  }));
  const preset = rows.find(
    ({ when }) => when['operatingResolution'] === parameters['operatingResolution']?.default,
  );
  return [
    {
      unit: 'image',
      quantity: quantity ?? oneUnit,
      pixels: null,
      // A request for several pictures cannot contain a resolution, so the default resolution
      // applies.
      rows: quantity && preset ? [{ when: {}, usd: preset.usd }] : rows,
    },
  ];
}

/** Returns the price rule of generated videos. */
export function videoPriceRules({ usdPerSecond, parameters }: VideoModel): [PriceRule] {
  const preset = parameters['durationSeconds']?.default;
  return [
    {
      unit: 'second',
      quantity: { of: 'durationSeconds', default: typeof preset === 'number' ? preset : null },
      pixels: null,
      rows: usdPerSecond.map(({ when, usd }) => ({ when, usd })),
    },
  ];
}

/** Returns the price rule of tools that process a video. */
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
  { per, usd }: AudioModel,
  quantity: PriceRule['quantity'] = oneUnit,
): PriceRule[] {
  return [{ unit: per, quantity, pixels: null, rows: [{ when: {}, usd }] }];
}
