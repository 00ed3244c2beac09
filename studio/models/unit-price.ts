/**
 * Calculates the price of one unit by a price rule. GET /pricing publishes the rules of each model.
 * A price is the sum of the model's rules; a rule without a matching row adds nothing.
 */
import { assert } from '../../domain/errors.ts';
import type { Fields } from './provider-fields.ts';

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
   * input in seconds, rounded up. `default` applies if `of` is null or yields no number.
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
  smaller: { pixelsBelow: number; unitPriceUsd: number }[];
}

/**
 * Calculates the price of one unit of a request.
 * @param fields request fields, including defaults
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
  const stepPixels = rule.pixels?.each ?? null;
  if (stepPixels === null) {
    const smaller = rule.rows.flatMap(({ pixelsMax, usd: unitPriceUsd }) =>
      pixelsMax !== undefined && unitPriceUsd < usd
        ? [{ pixelsBelow: pixelsMax + 1, unitPriceUsd }]
        : [],
    );
    return { usd, ...(chargedAs !== undefined && { chargedAs }), smaller };
  }
  const steps = Math.max(1, Math.ceil(pixels / stepPixels));
  const factor = rule.pixels?.rounding === 'up' ? steps : Math.max(1, pixels / stepPixels);
  return {
    usd: usd * factor,
    ...(chargedAs !== undefined && { chargedAs }),
    smaller: Array.from({ length: steps - 1 }, (_, index) => ({
      pixelsBelow: (index + 1) * stepPixels + 1,
      unitPriceUsd: (index + 1) * usd,
    })),
  };
}
