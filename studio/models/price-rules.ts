/** Price rules of each kind of Studio model. */
import { assert } from '../../domain/errors.ts';
import {
  calculatePixelPrice,
  type CheaperSize,
  type PixelPrice,
} from '../../domain/measured-price.ts';
import type { Fields, ParameterRules } from './model-parameters.ts';
import type { AudioModel } from './audio-models.ts';
import type { ImagePrice } from './image-model.ts';
import { calculateEnlargements, type BackgroundRemover, type Upscaler } from './image-tools.ts';
import type { VideoModel } from './video-models.ts';
import type { VideoMerger, VideoTool } from './video-tools.ts';

type FieldValue = string | number | boolean;

/** Price of one unit in USD for requests whose fields (with defaults) have the values in `when`. */
export interface PriceRow {
  when: Readonly<Record<string, FieldValue>>;
  /** Maximum number of pixels of the result, as an additional condition. */
  pixelsMax?: number;
  usd: number;
  /** Value whose price is charged if the value in `when`, such as `auto`, lets the model choose. */
  chargedAs?: string;
}

/** Number of pixels that a price depends on: its source, factor and rounding. */
export interface PricedPixels {
  /** Source of the pixels: the request field with the size, or `input` for the measured input. */
  of: string;
  /** Factor that multiplies the edges: a number, or the request field that contains it. */
  edgesTimes: number | string;
  /**
   * Number of pixels per step; the price of the row is multiplied by the number of steps, which is
   * at least 1. Null if the number of pixels only selects the row.
   */
  each: number | null;
  /** Rounding of the number of steps. `up`: to the next higher integer; `none`: no rounding. */
  rounding: 'up' | 'none';
}

/** Rule of a price list: the price of one unit and the number of units. */
export interface PriceRule {
  unit: 'image' | 'second' | 'character' | 'request';
  /**
   * Number of units. `of` is the request field that determines it: a number is rounded up, a string
   * counts by its characters, and a list by its items. `input` is the measured duration of the
   * input (of all videos together) in seconds, rounded up. `default` applies if `of` is null or yields no number.
   */
  quantity: { of: string | null; default: number | null };
  pixels: PricedPixels | null;
  /** Price rows; the first matching row applies. */
  rows: readonly PriceRow[];
}

/** Price of one unit that a request asks for. */
export interface UnitPrice {
  usd: number;
  /** Value whose price is charged because the request lets the model choose; otherwise absent. */
  chargedAs?: string;
  /** Prices in USD of results with fewer pixels than requested, which the provider may deliver. */
  smaller: CheaperSize[];
}

/**
 * Calculates the price of one unit of a request.
 * @param fields request fields, including defaults
 * @param pixels number of pixels of the result; 0 if the request does not determine it
 */
export function calculateUnitPrice(rule: PriceRule, fields: Fields, pixels = 0): UnitPrice {
  const row = rule.rows.find(
    (candidate) => pixels <= (candidate.pixelsMax ?? Infinity) && isSelected(candidate, fields),
  );
  assert(row, 'no row of the price rule matches the request');
  const { chargedAs } = row;
  const price = calculatePixelPrice(toPixelPrice(rule, fields), pixels);
  assert(price, 'no row of the price rule has enough pixels');
  return { ...price, ...(chargedAs !== undefined && { chargedAs }) };
}

/** Returns the rows of a rule that apply to the fields of a request, without their conditions. */
export function toPixelPrice({ rows, pixels }: PriceRule, fields: Fields): PixelPrice {
  return {
    rows: rows
      .filter((row) => isSelected(row, fields))
      .map(({ usd, pixelsMax }) => ({ usd, ...(pixelsMax !== undefined && { pixelsMax }) })),
    each: pixels?.each ?? null,
    rounding: pixels?.rounding ?? 'none',
  };
}

const isSelected = ({ when }: PriceRow, fields: Fields): boolean =>
  Object.entries(when).every(([field, value]) => fields[field] === value);

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

/** Returns the price rule of the tool that merges videos. */
export function mergePriceRules({ usdPerSecond }: VideoMerger): [PriceRule] {
  return [
    {
      unit: 'second',
      quantity: { of: 'input', default: null },
      pixels: null,
      rows: [{ when: {}, usd: usdPerSecond }],
    },
  ];
}
