/**
 * Prices of the Studio models as rules: `priceOf` applies them to requests, and GET /pricing publishes them.
 * A price is the sum of its rules; a rule without a row that fits adds nothing.
 */
import type { AudioModel } from './audio-models.ts';
import { assert } from '../domain/errors.ts';
import type { ImagePrice } from './image-model.ts';
import { enlargementsOf, type BackgroundRemover, type Upscaler } from './image-tools.ts';
import type { Fields, ParameterRules } from './model-parameters.ts';
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

/** Rule of a price list. */
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

/** USD of a unit of a request. */
export interface UnitPrice {
  usd: number;
  /** The value that costs the same, where the request leaves the choice to the model. */
  chargedAs?: string;
  /** Prices of results with fewer pixels, which the provider may deliver instead. */
  smaller: { pixelsBelow: number; unitPriceUsd: number }[];
}

/**
 * Prices a unit of a request by a rule.
 * @param fields the request with its defaults
 * @param pixels those of the result, 0 where the request does not decide them
 */
export function priceOf(rule: PriceRule, fields: Fields, pixels = 0): UnitPrice {
  const row = rule.rows.find(
    ({ when, pixelsMax = Infinity }) =>
      pixels <= pixelsMax &&
      Object.entries(when).every(([field, value]) => fields[field] === value),
  );
  assert(row, 'every request has a price');
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

const one = { of: null, default: 1 };

/** Of images, so many as `numImages` says unless told otherwise. */
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
    const alike = Object.keys(table).find((known) => table[known] === price.usd);
    return { when: { [field]: value }, usd: price.usd, ...(alike && { chargedAs: alike }) };
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
export function coverPriceRules(price: ImagePrice): [PriceRule] {
  const [rule] = imagePriceRules(price, {}, one);
  const rows = rule.rows.map((row) => ({ ...row, when: { ...row.when, mode: 'full' } }));
  return [{ ...rule, rows }];
}

/** Of enlargements, each step of one paid for by the pixels of its result. */
export function upscalePriceRules(
  service: Upscaler,
  quantity: PriceRule['quantity'] = one,
): [PriceRule, ...PriceRule[]] {
  const rule = (edgesTimes: number | string, when: PriceRow['when']): PriceRule => ({
    unit: 'image',
    quantity,
    pixels: { of: 'input', edgesTimes, each: service.price.stepPixels, rounding: 'up' },
    rows: [{ when, usd: service.price.usd }],
  });
  const before = Object.keys(service.steps).flatMap((key) => {
    const scaleFactor = Number(key);
    const enlargements = enlargementsOf(service, scaleFactor).slice(0, -1);
    return enlargements.map((enlargement) => rule(enlargement, { scaleFactor }));
  });
  return [rule('scaleFactor', {}), ...before];
}

/** Of background removals, by the resolution where the request names it. */
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
      quantity: quantity ?? one,
      pixels: null,
      // Whoever works on several pictures cannot name a resolution.
      rows: quantity && preset ? [{ when: {}, usd: preset.usd }] : rows,
    },
  ];
}

/** Of a film from a prompt. */
export function filmPriceRules({ usdPerSecond, parameters }: VideoModel): [PriceRule] {
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

/** Of sound and text. */
export function audioPriceRules(
  { per, usd }: AudioModel,
  quantity: PriceRule['quantity'] = one,
): PriceRule[] {
  return [{ unit: per, quantity, pixels: null, rows: [{ when: {}, usd }] }];
}
