/** Prices in responses, in credits, and the price list, made from the tables that price plans. */
import { z } from 'zod';
import type { PriceRule } from '../../catalog/price-rules.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import type { Capability, DraftCall, InputFacts, PublishedModel } from '../../studio/capability.ts';
import { capabilities } from '../../studio/registry.ts';
import { microFromUsd, priceCalls, type Currency } from './planner.ts';

const value = z.union([z.string(), z.number(), z.boolean()]);

/** A rule of catalog/price-rules.ts, in credits. */
export const priceRuleSchema = z
  .object({
    unit: z.enum(['image', 'second', 'character', 'request']),
    quantity: z.object({ of: z.string().nullable(), default: z.number().nullable() }).meta({
      description:
        'How many units: the number of the field `of` rounded up, the characters of its text or the items of its ' +
        'list; of `input` the seconds begun. `default` where that says nothing.',
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
          'Pixels of the size in the field `of`, or of the `input` with its edges times `edgesTimes` (a number, ' +
          'or the field that says it). A unit costs so many times its row as they hold `each`, at least once; ' +
          'with `each` null they only choose the row.',
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
      'A part of a price; the price is the sum of its parts. The first row counts whose `when` the request has, ' +
      'defaults applied, and whose `pixelsMax` holds the pixels; a part without such a row adds nothing. ' +
      '`chargedAs`: what a value that leaves the choice to the model costs as much as.',
  });
export type PriceRuleView = z.infer<typeof priceRuleSchema>;

/** Reservation of one request. */
export const priceExampleSchema = z.object({
  request: z.record(z.string(), z.unknown()),
  input: z
    .object({ width: z.int(), height: z.int(), durationSeconds: z.number() })
    .nullable()
    .meta({ description: 'The measured input, where the price depends on it.' }),
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
/** A call to a provider with its price. */
export type EstimateItem = z.infer<typeof estimateItem>;

/** Calculates the reservation of a Studio request, and its parts. */
export const estimateSchema = z
  .object({
    type: z.string(),
    model: z.string().nullable(),
    credits: z.number().meta({ description: 'What the request reserves, the most it costs.' }),
    items: z.array(estimateItem),
  })
  .meta({ id: 'StudioEstimate' });
export type Estimate = z.infer<typeof estimateSchema>;

/** A model with its price in credits. */
export type PricedModel = Omit<PublishedModel, 'price'> & {
  price: PriceRuleView[];
  example: PriceExample;
};

/** Price of a Studio endpoint. */
export interface PricedCapability {
  capability: Capability;
  models: PricedModel[];
}

/** Assumed properties of an input in the examples. */
const exampleInput: InputFacts & { durationSeconds: number } = {
  width: 1024,
  height: 1024,
  durationSeconds: 10,
};

/** Lists the prices of all Studio models, with an example of each. */
export function createPriceList(config: Currency): readonly PricedCapability[] {
  return capabilities.map((capability) => ({
    capability,
    models: (capability.models ?? []).map(({ price, ...model }) => ({
      ...model,
      price: price.map((rule) => inCredits(rule, config)),
      example: exampleOf(capability, model.selectedBy, config),
    })),
  }));
}

function inCredits({ rows, ...rule }: PriceRule, currency: Currency): PriceRuleView {
  return {
    ...rule,
    rows: rows.map(({ usd, ...row }) => ({
      ...row,
      credits: creditsFromMicro(microFromUsd(currency, usd)),
    })),
  };
}

function exampleOf(
  capability: Capability,
  selectedBy: PublishedModel['selectedBy'],
  config: Currency,
): PriceExample {
  const request = { ...capability.example, ...selectedBy };
  const { calls } = capability.plan(capability.request.parse(request));
  const measured = calls.map(measuredCall);
  const isMeasured = calls.some(({ unitPriceUsd }) => typeof unitPriceUsd !== 'number');
  return {
    request,
    input: isMeasured ? exampleInput : null,
    credits: creditsFromMicro(priceCalls(config, measured).priceMicro),
    notes: calls.flatMap(({ priceNote }) => priceNote ?? []),
  };
}

function measuredCall(call: DraftCall): DraftCall {
  const { unitPriceUsd: price } = call;
  if (typeof price === 'number') return call;
  const { quantity = call.quantity } = price.outputOf(exampleInput);
  return { ...call, quantity, unitPriceUsd: price.usdOf(exampleInput) };
}
