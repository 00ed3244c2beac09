/** GET /api/v1/pricing: lists all prices in credits, without an API key. */
import { z } from 'zod';
import type { ChatModel } from '../../chat/models.ts';
import type { Prices } from '../../ledger/price-book.ts';
import { listPriceOf } from './model-entry.ts';
import {
  type PricedCapability,
  priceExampleSchema,
  priceRuleSchema,
  type PriceRuleView,
} from '../../studio/requests/prices.ts';
import { describeConstant } from '../http/constants.ts';
import { defineEndpoint, defineSection, rawResponse } from './endpoint.ts';

const tokenPrice = { input: z.number(), output: z.number() };

const priceList = z.object({
  usdPerCredit: z.number(),
  studio: z.array(
    z.object({
      endpoint: z.string(),
      model: z.string(),
      displayName: z.string(),
      price: z.array(priceRuleSchema),
      example: priceExampleSchema,
    }),
  ),
  chat: z
    .array(
      z.object({
        model: z.string(),
        name: z.string(),
        ...tokenPrice,
        longInput: z.object({ inputTokensAbove: z.int(), ...tokenPrice }).optional(),
      }),
    )
    .meta({
      description:
        'Prices in credits per million tokens. `longInput` applies to all tokens of a request that has more than `inputTokensAbove` input tokens.',
    }),
});
type PriceList = z.infer<typeof priceList>;

const roundCredits = (credits: number): number => Number(credits.toPrecision(12));

function buildPriceList(
  prices: Prices,
  studio: readonly PricedCapability[],
  chat: readonly ChatModel[],
): PriceList {
  const { usdPerCredit } = prices;
  const toCreditPrices = (price: { inputUsdPerMillion: number; outputUsdPerMillion: number }) => ({
    input: roundCredits(price.inputUsdPerMillion / usdPerCredit),
    output: roundCredits(price.outputUsdPerMillion / usdPerCredit),
  });
  return {
    usdPerCredit,
    studio: studio.flatMap(({ capability, models }) =>
      models.map(({ id, displayName, price, example }) => ({
        endpoint: `POST /api/v1${capability.path}`,
        model: id,
        displayName,
        price,
        example,
      })),
    ),
    chat: chat.map(listPriceOf(prices)).map(({ id, name, cost: { longInput, ...cost } }) => ({
      model: id,
      name,
      ...toCreditPrices(cost),
      ...(longInput && {
        longInput: { inputTokensAbove: longInput.inputTokensAbove, ...toCreditPrices(longInput) },
      }),
    })),
  };
}

/** Describes a price rule in one line, for example `3.9; 30 (resolution 4K) per image`. */
function describeRule({ unit, quantity, pixels, rows }: PriceRuleView): string {
  const prices = rows.map(({ when, pixelsMax, credits, chargedAs }) => {
    const conditions = [
      ...Object.entries(when).map(([field, value]) => `${field} ${String(value)}`),
      ...(pixelsMax === undefined ? [] : [`up to ${pixelsMax} pixels`]),
      ...(chargedAs === undefined ? [] : [`as ${chargedAs}`]),
    ];
    return conditions.length === 0 ? String(credits) : `${credits} (${conditions.join(', ')})`;
  });
  const roundingWord = pixels?.rounding === 'up' ? 'started ' : '';
  const size = pixels?.each ? ` and ${roundingWord}${pixels.each} pixels` : '';
  const hasDefaultQuantity = quantity.of !== null && quantity.default !== null;
  const count =
    hasDefaultQuantity && unit === 'second' ? `; ${quantity.default} seconds by default` : '';
  return `${prices.join('; ')} per ${unit}${size}${count}`;
}

/** Returns the lines of llms.txt that list the Studio prices. */
export function listPriceLines(studio: readonly PricedCapability[]): string[] {
  return studio.flatMap(({ capability, models }) =>
    models.map(
      ({ id, price }) => `- ${capability.path} ${id}: ${price.map(describeRule).join(', plus ')}`,
    ),
  );
}

/** Endpoint that returns the price list. */
export const pricing = defineSection('Prices', {
  getPricing: defineEndpoint({
    route: 'GET /api/v1/pricing',
    scope: 'open',
    summary: 'Get the price list in credits',
    description:
      'Lists the prices of callers without prices of their own; `GET /api/v1/models` and `GET /api/v1/studio/models` list the caller’s.',
    response: rawResponse,
    responses: describeConstant(priceList),
    async handle({ ctx }, { constants, priceBook, listPrices, chatCatalog }) {
      // Models retire while a process runs; none are added.
      const chatModels = chatCatalog.listCurrent();
      const prices = await priceBook.at(null);
      const name = `${ctx.path} ${chatModels.length} ${prices.name}`;
      await constants.send(ctx, { name, type: 'application/json' }, () =>
        JSON.stringify(buildPriceList(prices, listPrices(prices), chatModels)),
      );
    },
  }),
});
