/**
 * Prices in responses, and the price list, in credits. Both are computed from the same tables as
 * the prices of job plans.
 */
import { z } from 'zod';
import type { PriceRule } from '../models/price-rules.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { catalogPrices, priceUsd, type PricedWork, type Prices } from '../../ledger/price-book.ts';
import { useOf, type Capability } from '../capabilities/capability.ts';
import type { DraftCall } from '../../domain/draft-plan.ts';
import { assert } from '../../domain/errors.ts';
import { priceMeasured, type InputMeasurements } from '../../domain/measured-price.ts';
import type { PublishedModel } from '../models/published-models.ts';
import { capabilities } from '../capabilities/capability-registry.ts';
import { priceCalls } from './planner.ts';

const value = z.union([z.string(), z.number(), z.boolean()]);

/** Schema of a price rule (studio/models/price-rules.ts), with prices in credits. */
export const priceRuleSchema = z
  .object({
    unit: z.enum(['image', 'second', 'character', 'request']),
    quantity: z.object({ of: z.string().nullable(), default: z.number().nullable() }).meta({
      description:
        'Number of units, taken from the field `of`: its number rounded up, the length of its string in characters, or ' +
        'the number of items in its array. If `of` is `input`, the duration of the input (of all videos together) in seconds, rounded up. `default` applies if the ' +
        'request does not determine the number.',
    }),
    pixels: z
      .object({
        of: z.string(),
        edgesTimes: z.union([z.number(), z.string()]),
        each: z.number().nullable(),
        rounding: z.enum(['up', 'none']),
      })
      .nullable()
      .meta({
        description:
          'Number of pixels on which the price depends: those of the size in the field `of`. If `of` is `input`, those of ' +
          'the input with its width and height multiplied by `edgesTimes` (a number, or the name of the field that contains it). ' +
          'The price of a unit is the price of the row multiplied by (pixels ÷ `each`), but at least the price of the row. ' +
          'If `each` is null, the pixels only select the row.',
      }),
    rows: z.array(
      z.object({
        when: z.record(z.string(), value),
        pixelsMax: z.number().optional(),
        credits: z.number(),
        chargedAs: z.string().optional(),
      }),
    ),
  })
  .meta({
    id: 'PriceRule',
    description:
      'Part of a price; the price is the sum of its parts. The first row applies whose `when` values equal those of ' +
      'the request (with defaults) and whose `pixelsMax` is not exceeded. If no row applies, the part adds nothing. ' +
      '`chargedAs` is the value whose price applies when the request leaves the choice to the model.',
  });
export type PriceRuleView = z.infer<typeof priceRuleSchema>;

/** Schema of an example request with the credits that it would reserve. */
export const priceExampleSchema = z.object({
  request: z.record(z.string(), z.unknown()),
  input: z
    .object({ width: z.int(), height: z.int(), durationSeconds: z.number() })
    .nullable()
    .meta({ description: 'Each measured input, if the price depends on it.' }),
  credits: z.number(),
  notes: z.array(z.string()),
});
export type PriceExample = z.infer<typeof priceExampleSchema>;

const estimateItem = z.object({
  unit: z.string(),
  quantity: z.int(),
  creditsPerUnit: z.number(),
  credits: z.number(),
  note: z.string().optional(),
});
/** Price of one call to a provider. */
export type EstimateItem = z.infer<typeof estimateItem>;

/**
 * Schema of a price estimate: the credits that a Studio request would reserve, in total and per
 * call.
 */
export const estimateSchema = z
  .object({
    type: z.string(),
    model: z.string().nullable(),
    credits: z.number().meta({ description: 'Credits that the request reserves.' }),
    maxCredits: z.number().meta({
      description:
        'Most that the request is charged. More than `credits` only where a provider may report a longer recording than was measured.',
    }),
    items: z.array(estimateItem),
    expectedCredits: z.number().optional().meta({
      description:
        'Only for pipelines: price of what the steps are planned to deliver. `credits` also covers what may differ.',
    }),
    creditsBeforeApproval: z.number().optional().meta({
      description:
        'Only for pipelines with `approve`: most that is spent before a decision is needed.',
    }),
    steps: z
      .array(
        z.object({
          id: z.string(),
          use: z.string(),
          model: z.string().nullable(),
          credits: z.number().meta({ description: 'Reserved price of the step.' }),
          maxCredits: z.number().meta({ description: 'Most that the step is charged.' }),
          expectedCredits: z.number(),
        }),
      )
      .optional()
      .meta({ description: 'Only for pipelines: prices of the steps.' }),
  })
  .meta({ id: 'StudioEstimate' });
export type Estimate = z.infer<typeof estimateSchema>;

/** Model with its price in credits. */
export type PricedModel = Omit<PublishedModel, 'price'> & {
  price: PriceRuleView[];
  example: PriceExample;
};

/** Studio endpoint with the prices of its models. */
export interface PricedCapability {
  capability: Capability;
  models: PricedModel[];
}

/** Measurements of the input that an example assumes if its price depends on the input. */
const exampleInput: InputMeasurements & { durationSeconds: number } = {
  width: 1024,
  height: 1024,
  durationSeconds: 10,
};

/** Builds the price list of all Studio models, with an example for each model. */
export function createPriceList(prices: Prices): readonly PricedCapability[] {
  return capabilities.map((capability) => ({
    capability,
    models: (capability.models ?? []).map(({ price, ...model }) => ({
      ...model,
      price: price.map((rule) =>
        toCredits(rule, prices, { use: useOf(capability), model: model.id }),
      ),
      example: buildPriceExample(capability, model.selectedBy, prices),
    })),
  }));
}

/**
 * Creates the function that builds the price list of a caller. That of the catalog is built once, because
 * most callers have it.
 */
export function createPriceLists(usdPerCredit: number) {
  const catalog = createPriceList(catalogPrices(usdPerCredit));
  return (prices: Prices): readonly PricedCapability[] =>
    prices.name === '' ? catalog : createPriceList(prices);
}

function toCredits({ rows, ...rule }: PriceRule, prices: Prices, work: PricedWork): PriceRuleView {
  // A fixed price does not depend on pixels.
  const isFixed = prices.find(work, rule.unit)?.kind === 'unit';
  return {
    ...rule,
    ...(isFixed && { pixels: null }),
    rows: rows.map(({ usd, pixelsMax, ...row }) => ({
      ...row,
      ...(pixelsMax !== undefined && !isFixed && { pixelsMax }),
      credits: creditsFromMicro(priceUsd(prices, usd, { ...work, unit: rule.unit }).unitPriceMicro),
    })),
  };
}

function buildPriceExample(
  capability: Capability,
  selectedBy: PublishedModel['selectedBy'],
  prices: Prices,
): PriceExample {
  const request = { ...capability.example, ...selectedBy };
  const { calls, model } = capability.plan(capability.request.parse(request));
  const measured = calls.map(measureExample);
  const isMeasured = calls.some(({ unitPriceUsd }) => typeof unitPriceUsd !== 'number');
  return {
    request,
    input: isMeasured ? exampleInput : null,
    credits: creditsFromMicro(
      priceCalls(prices, { use: useOf(capability), model }, measured).priceMicro,
    ),
    notes: calls.flatMap(({ priceNote }) => priceNote ?? []),
  };
}

function measureExample(call: DraftCall): DraftCall {
  const { unitPriceUsd: price } = call;
  if (typeof price === 'number') return call;
  const measured = price.inputs.map(({ url }) => ({ ...exampleInput, url }));
  const priced = priceMeasured(price.rule, measured);
  assert(!('violates' in priced), 'the example exceeds the limits of the model');
  return { ...call, ...priced };
}
