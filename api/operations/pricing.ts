/** GET /api/v1/pricing: what everything costs, for programs (JSON) and people (HTML). No key needed. */
import { z } from 'zod';
import type { ChatModel } from '../../catalog/chat-model.ts';
import {
  type PricedCapability,
  priceExampleSchema,
  priceRuleSchema,
  type PriceExample,
  type PriceRuleView,
} from '../studio/prices.ts';
import { defineOperation, ownAnswer, section } from './operation.ts';

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
        'Credits per million tokens; `longInput` applies to all tokens of a longer request.',
    }),
});
type PriceList = z.infer<typeof priceList>;

const round = (credits: number): number => Number(credits.toPrecision(12));

function listOf(
  usdPerCredit: number,
  studio: readonly PricedCapability[],
  chat: readonly ChatModel[],
): PriceList {
  const credits = (price: { inputUsdPerMillion: number; outputUsdPerMillion: number }) => ({
    input: round(price.inputUsdPerMillion / usdPerCredit),
    output: round(price.outputUsdPerMillion / usdPerCredit),
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
    chat: chat.map(({ id, name, cost: { longInput, ...cost } }) => ({
      model: id,
      name,
      ...credits(cost),
      ...(longInput && {
        longInput: { inputTokensAbove: longInput.inputTokensAbove, ...credits(longInput) },
      }),
    })),
  };
}

/** A rule in words: `3.9 per image; 30 (resolution 4K)`. */
function wordsOf({ unit, quantity, pixels, rows }: PriceRuleView): string {
  const words = rows.map(({ when, pixelsMax, credits, chargedAs }) => {
    const conditions = [
      ...Object.entries(when).map(([field, value]) => `${field} ${String(value)}`),
      ...(pixelsMax === undefined ? [] : [`up to ${pixelsMax} pixels`]),
      ...(chargedAs === undefined ? [] : [`as ${chargedAs}`]),
    ];
    return conditions.length === 0 ? String(credits) : `${credits} (${conditions.join(', ')})`;
  });
  const begun = pixels?.rounding === 'up' ? 'begun ' : '';
  const size = pixels?.each ? ` and ${begun}${pixels.each} pixels` : '';
  const preset = quantity.of !== null && quantity.default !== null;
  const count = preset && unit === 'second' ? `; ${quantity.default} unless told` : '';
  return `${words.join('; ')} per ${unit}${size}${count}`;
}

/** What an example costs, in a line. */
function exampleWords({ request, input, credits, notes }: PriceExample): string {
  const what = input
    ? `, an input of ${input.width}×${input.height} pixels and, of a film, ${input.durationSeconds} s`
    : '';
  return `${credits} for ${JSON.stringify(request)}${what}${notes.map((note) => ` (${note})`).join('')}`;
}

/** Lines of llms.txt. */
export function priceLines(studio: readonly PricedCapability[]): string[] {
  return studio.flatMap(({ capability, models }) =>
    models.map(
      ({ id, price }) => `- ${capability.path} ${id}: ${price.map(wordsOf).join(', plus ')}`,
    ),
  );
}

const escapes: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escaped = (text: string): string => text.replaceAll(/[&<>"]/g, (sign) => escapes[sign] ?? '');

type Cells = readonly (string | number)[];

const row = (cells: Cells, tag: string): string =>
  `<tr>${cells.map((cell) => `<${tag}>${escaped(String(cell))}</${tag}>`).join('')}</tr>`;

function tableOf(heads: Cells, rows: readonly Cells[]): string {
  return `<table>\n${[row(heads, 'th'), ...rows.map((cells) => row(cells, 'td'))].join('\n')}\n</table>`;
}

function pageOf({ usdPerCredit, studio, chat }: PriceList): string {
  const studioRows = studio.map(({ endpoint, model, price, example }) => [
    endpoint.replace('POST /api/v1/studio/', ''),
    model,
    price.map(wordsOf).join(', plus '),
    exampleWords(example),
  ]);
  const chatRows = chat.map(({ model, input, output, longInput }) => [
    model,
    input,
    output,
    longInput
      ? `${longInput.input} and ${longInput.output} above ${longInput.inputTokensAbove} tokens`
      : '',
  ]);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Studio Gateway: prices</title>
<style>body{font:16px/1.5 sans-serif;margin:2rem}table{border-collapse:collapse}th,td{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #ccc}</style>
</head>
<body>
<h1>Prices</h1>
<p>In credits; a credit is ${usdPerCredit} USD. The same path plus <code>/estimate</code> tells what a request would cost.</p>
<h2>Studio</h2>
${tableOf(['endpoint', 'model', 'credits', 'example'], studioRows)}
<h2>Chat, per million tokens</h2>
${tableOf(['model', 'input', 'output', 'long inputs'], chatRows)}
</body>
</html>
`;
}

/** The price list. */
export const pricing = section('Prices', {
  getPricing: defineOperation({
    route: 'GET /api/v1/pricing',
    scope: 'open',
    summary: 'Get the price list in credits',
    description: 'JSON, or a page for people if `Accept` prefers text/html.',
    answer: ownAnswer,
    answers: { 200: { description: 'The price list.', schema: priceList } },
    handle({ ctx }, { config, prices, chatCatalog }) {
      const list = listOf(config.USD_PER_CREDIT, prices, chatCatalog.current());
      ctx.vary('Accept');
      if (ctx.accepts(['json', 'html']) === 'html') {
        ctx.type = 'text/html';
        ctx.body = pageOf(list);
      } else ctx.body = list;
    },
  }),
});
