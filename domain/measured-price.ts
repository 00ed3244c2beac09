/**
 * Prices that depend on the size or the length of a picture or film. The rules are data, so that the
 * plan of a pipeline can contain the rule for a file that does not exist yet.
 */
import { priceUnit, type BookPrice } from './book-price.ts';
import type { ExpectedOutput } from './job-plan.ts';
import type { JsonObject } from './json.ts';
import { priceMerge, type MergeRule } from './merged-video.ts';

/** Measured properties of an input. */
export interface InputMeasurements {
  /** Width in pixels; 0 for recordings. */
  width: number;
  /** Height in pixels; 0 for recordings. */
  height: number;
  /** Duration in seconds; null for pictures. */
  durationSeconds: number | null;
  /** Whether a video or recording has sound; absent for pictures. */
  hasAudio?: boolean;
}

/** Measured input, with the URL or storage reference that the provider's input contains. */
export interface MeasuredInput extends InputMeasurements {
  url: string;
}

/** Price of one unit in USD, which depends on a number of pixels. */
export interface PixelPrice {
  /** The first row with a sufficient `pixelsMax` applies. */
  rows: readonly { pixelsMax?: number; usd: number }[];
  /**
   * Number of pixels per step; the price of the row is multiplied by the number of steps, which is
   * at least 1. Null if the number of pixels only selects the row.
   */
  each: number | null;
  /** Rounding of the number of steps. `up`: to the next higher integer; `none`: no rounding. */
  rounding: 'up' | 'none';
}

/** Cheaper output that the provider may deliver instead, with its unit price in USD. */
export interface CheaperSize {
  pixelsBelow: number;
  unitPriceUsd: number;
}

/** Price and limits of a call by the measurements of its inputs. */
export type MeasuredRule = SizeRule | MergeRule;

/** Price and limits of a call by the measurements of its only input. */
interface SizeRule extends PixelPrice {
  kind: 'size';
  /** Noun of the input in error messages. */
  subject: 'picture' | 'video';
  /** Factor from the edges of the input to those of the result that determines the price. */
  scale: number;
  /** True if each started second of the input is a unit; otherwise the result is one unit. */
  bySecond: boolean;
  limits: {
    secondsMax?: number;
    /** Maximum length of the longer edge of the result, in pixels. */
    resultEdgeMax?: number;
    /** Maximum number of pixels of the final result, whose edges are `scaleFactor` times longer. */
    resultPixelsMax?: number;
    scaleFactor?: number;
  };
}

/** Price and properties of the output of a call whose input is measured. */
export interface MeasuredCall {
  unitPriceUsd: number;
  /** Number of units; absent if the call has the planned number. */
  quantity?: number;
  expected: ExpectedOutput;
  variants: CheaperSize[];
  /** Input of the provider, if it contains measurements. */
  input?: JsonObject;
}

/**
 * Returns the discounts of an output that is cheaper than the planned one, in micro-credits; null if
 * there are none. `variantCostMicro`: price of a unit of it in the catalog.
 */
export function findDiscounts(
  planned: { unitPriceMicro: number; unitCostMicro: number; book?: BookPrice | null | undefined },
  variantCostMicro: number,
): { unitDiscountMicro: number; unitCostDiscountMicro: number } | null {
  const { unitPriceMicro, unitCostMicro, book = null } = planned;
  const unitDiscountMicro = Math.max(0, unitPriceMicro - priceUnit(variantCostMicro, book));
  const unitCostDiscountMicro = unitCostMicro - variantCostMicro;
  return unitCostDiscountMicro > 0 ? { unitDiscountMicro, unitCostDiscountMicro } : null;
}

/** Limit that the measured inputs violate: the index of the input, or null for all together. */
export interface Violation {
  violates: number | null;
  message: string;
}

/** Calculates the price of one unit in USD, and those of results with fewer pixels. */
export function calculatePixelPrice(
  { rows, each, rounding }: PixelPrice,
  pixels: number,
): { usd: number; smaller: CheaperSize[] } | null {
  const row = rows.find(({ pixelsMax = Infinity }) => pixels <= pixelsMax);
  if (!row) return null;
  const { usd } = row;
  if (each === null) {
    const smaller = rows.flatMap(({ pixelsMax, usd: unitPriceUsd }) =>
      pixelsMax !== undefined && unitPriceUsd < usd
        ? [{ pixelsBelow: pixelsMax + 1, unitPriceUsd }]
        : [],
    );
    return { usd, smaller };
  }
  const steps = Math.max(1, Math.ceil(pixels / each));
  const factor = rounding === 'up' ? steps : Math.max(1, pixels / each);
  const smaller = Array.from({ length: steps - 1 }, (_, index) => ({
    pixelsBelow: (index + 1) * each + 1,
    unitPriceUsd: (index + 1) * usd,
  }));
  return { usd: usd * factor, smaller };
}

/** Prices a call by the measurements of its inputs. Returns the violated limit instead. */
export function priceMeasured(
  rule: MeasuredRule,
  inputs: readonly MeasuredInput[],
): MeasuredCall | Violation {
  if (rule.kind === 'merge') return priceMerge(rule, inputs);
  const [input = noInput] = inputs;
  const message = findViolation(rule, input);
  if (message !== null) return { violates: 0, message };
  const width = input.width * rule.scale;
  const height = input.height * rule.scale;
  const price = calculatePixelPrice(rule, width * height);
  if (!price) {
    const text = `the ${rule.subject} is too large (received ${formatSize(input)})`;
    return { violates: 0, message: text };
  }
  const { durationSeconds } = input;
  return {
    unitPriceUsd: price.usd,
    // Every started second is charged.
    ...(rule.bySecond && { quantity: Math.max(1, Math.ceil(durationSeconds ?? 0)) }),
    expected: {
      width,
      height,
      ...(rule.bySecond && durationSeconds !== null && { durationSeconds }),
    },
    variants: price.smaller,
  };
}

const noInput: InputMeasurements = { width: 0, height: 0, durationSeconds: null };

const formatSize = ({ width, height }: InputMeasurements): string => `${width}×${height}`;

function findViolation(
  { subject, scale, limits }: SizeRule,
  input: InputMeasurements,
): string | null {
  const { width, height, durationSeconds } = input;
  const { secondsMax = Infinity, resultEdgeMax = Infinity } = limits;
  const { resultPixelsMax = Infinity, scaleFactor = scale } = limits;
  const seconds = durationSeconds ?? 0;
  if (seconds > secondsMax) {
    return `the ${subject} must last at most ${secondsMax} seconds (received ${Math.ceil(seconds)})`;
  }
  if (Math.max(width, height) * scale > resultEdgeMax) {
    return `the ${subject} must have edges of at most ${resultEdgeMax / scale} pixels (received ${formatSize(input)})`;
  }
  if (width * height * scaleFactor ** 2 > resultPixelsMax) {
    return `the upscaled ${subject} must have at most ${resultPixelsMax} pixels (received ${formatSize(input)} pixels and scale factor ${scaleFactor})`;
  }
  return null;
}
