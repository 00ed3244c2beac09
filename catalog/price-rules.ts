/**
 * Prices of the Studio models as rules that a program can apply, made from the very rows that requests are
 * priced by. A price is the sum of its rules; a rule of which no row fits adds nothing.
 */
import type { AudioModel } from './audio-models.ts';
import { imagePriceUsd, type ImagePrice } from './image-model.ts';
import type { BackgroundRemover, Upscaler } from './image-tools.ts';
import type { ParameterRules } from './model-parameters.ts';
import type { VideoModel, VideoTool } from './video-models.ts';

type Value = string | number | boolean;

/** USD of a unit where the request, with its defaults, has all values of `when`. */
export interface PriceRow {
  when: Readonly<Record<string, Value>>;
  /** And where the result has no more pixels than this. */
  pixelsMax?: number;
  usd: number;
  /** The value that costs the same, of one that leaves the choice to the model. */
  chargedAs?: string;
}

/** Pixels that decide about a price. */
export interface PricedPixels {
  /** Those of the size in this field, or of the `input` with its edges times `edgesTimes` (a number or a field). */
  of: string;
  edgesTimes: number | string;
  /** A unit costs so many times its row as the pixels hold this many, at least once; null: they choose the row. */
  each: number | null;
  /** `up`: whole times. */
  rounding: 'up' | 'none';
}

/** See the file's head. */
export interface PriceRule {
  unit: 'image' | 'second' | 'character' | 'request';
  /**
   * How many units: a field's number, rounded up, its text's characters or its list's length; of the `input` the
   * seconds begun; `default` where that says nothing.
   */
  quantity: { of: string | null; default: number | null };
  pixels: PricedPixels | null;
  /** The first that fits. */
  rows: readonly PriceRow[];
}

const one = { of: null, default: 1 };

/** Of images, so many as `numImages` says unless told otherwise. */
export function imagePriceRules(
  price: ImagePrice,
  parameters: ParameterRules,
  quantity: PriceRule['quantity'] = { of: 'numImages', default: 1 },
): PriceRule[] {
  const [field = '', table = {}] = Object.entries(price.by ?? {})[0] ?? [];
  const values = parameters[field]?.oneOf ?? [];
  const rows = values.map((value): PriceRow => {
    const usd = imagePriceUsd(price, { [field]: value });
    const alike = Object.keys(table).find((known) => table[known] === usd);
    const isOpen = table[String(value)] === undefined && alike !== undefined;
    return { when: { [field]: value }, usd, ...(isOpen && { chargedAs: alike }) };
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

/** Of an image of a song's cover, in full mode only. */
export function coverPriceRules(price: ImagePrice): PriceRule[] {
  return imagePriceRules(price, {}, one).map((rule) => ({
    ...rule,
    rows: rule.rows.map((row) => ({ ...row, when: { ...row.when, mode: 'full' } })),
  }));
}

/** Of enlargements, each step of one paid for by the pixels of its result. */
export function upscalePriceRules(
  { price, steps }: Upscaler,
  quantity: PriceRule['quantity'] = one,
): PriceRule[] {
  const rule = (edgesTimes: number | string, when: PriceRow['when']): PriceRule => ({
    unit: 'image',
    quantity,
    pixels: { of: 'input', edgesTimes, each: price.stepPixels, rounding: 'up' },
    rows: [{ when, usd: price.usd }],
  });
  const before = Object.entries(steps).flatMap(([scaleFactor, factors]) =>
    factors.slice(0, -1).map((_, index) =>
      rule(
        factors.slice(0, index + 1).reduce((product, factor) => product * factor, 1),
        { scaleFactor: Number(scaleFactor) },
      ),
    ),
  );
  return [rule('scaleFactor', {}), ...before];
}

/** Of background removals, by the resolution where the request names it. */
export function removalPriceRules(
  { usdByResolution, parameters }: BackgroundRemover,
  quantity?: PriceRule['quantity'],
): PriceRule[] {
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
      quantity: quantity ?? one,
      pixels: null,
      // Whoever works on several pictures cannot name a resolution.
      rows: quantity && preset ? [{ when: {}, usd: preset.usd }] : rows,
    },
  ];
}

/** Of a film from a prompt. */
export function filmPriceRules({ usdPerSecond, parameters }: VideoModel): PriceRule[] {
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

/** Of work on a finished film. */
export function videoToolPriceRules({ usdPerSecond, scale }: VideoTool): PriceRule[] {
  return [
    {
      unit: 'second',
      quantity: { of: 'input', default: null },
      pixels: { of: 'input', edgesTimes: scale, each: null, rounding: 'none' },
      rows: usdPerSecond.map(({ pixelsMax, usd }) => ({ when: {}, pixelsMax, usd })),
    },
  ];
}

/** Of sound and text. */
export function audioPriceRules(
  { per, usd }: AudioModel,
  quantity: PriceRule['quantity'] = one,
): PriceRule[] {
  return [{ unit: per, quantity, pixels: null, rows: [{ when: {}, usd }] }];
}
