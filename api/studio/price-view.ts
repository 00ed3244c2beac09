/** Prices as answers tell them, in credits. */
import { z } from 'zod';

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
/** See `priceRuleSchema`. */
export type PriceRuleView = z.infer<typeof priceRuleSchema>;

/** What one request would reserve. */
export const priceExampleSchema = z.object({
  request: z.record(z.string(), z.unknown()),
  input: z
    .object({ width: z.int(), height: z.int(), durationSeconds: z.number() })
    .nullable()
    .meta({ description: 'The measured input, where the price depends on it.' }),
  credits: z.number(),
  notes: z.array(z.string()),
});
/** See `priceExampleSchema`. */
export type PriceExample = z.infer<typeof priceExampleSchema>;

const estimateItem = z.object({
  unit: z.string(),
  quantity: z.int(),
  creditsPerUnit: z.number(),
  credits: z.number(),
  note: z.string().optional(),
});
/** A call to a provider, by its price. */
export type EstimateItem = z.infer<typeof estimateItem>;

/** What a Studio request would reserve, and what that is made of. */
export const estimateSchema = z
  .object({
    type: z.string(),
    model: z.string().nullable(),
    credits: z.number().meta({ description: 'What the request reserves, the most it costs.' }),
    items: z.array(estimateItem),
  })
  .meta({ id: 'StudioEstimate' });
/** See `estimateSchema`. */
export type Estimate = z.infer<typeof estimateSchema>;
