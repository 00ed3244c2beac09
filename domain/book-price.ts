/**
 * Prices of the price book, as they are copied into what is accepted. All amounts are integers. The
 * rounding rule: the catalog's price of a unit, or of the tokens of a chat, is rounded up to a
 * micro-credit; a markup on it is rounded up to a micro-credit again.
 */

/** Units of a fixed price. `request`: a recording, a film or another result of one request. */
export const fixedUnits = ['image', 'second', 'character', 'request'] as const;
/** Unit of a price: that of a Studio call, or the tokens of a chat. */
export type PriceUnit = (typeof fixedUnits)[number] | 'token';

/** Price of a row of the price book; `row` is its id. */
export type BookPrice = { row: string } &
  /** `markup`: hundredths of a percent that are added to the catalog's price. */
  (
    | { kind: 'markup'; markup: number }
    | { kind: 'unit'; unit: (typeof fixedUnits)[number]; unitMicro: number }
    /** Prices of a million tokens. */
    | { kind: 'tokens'; inputMicro: number; outputMicro: number }
  );

/** Returns the different ids of rows. */
export const listRows = (ids: readonly (string | undefined)[]): string[] => [
  ...new Set(ids.filter((id) => id !== undefined)),
];

const divideUp = (dividend: bigint, divisor: bigint): number =>
  Number((dividend + divisor - 1n) / divisor);

/** Adds the markup of a price to the catalog's price in micro-credits. */
function addMarkup(costMicro: number, price: BookPrice | null): number {
  if (price?.kind !== 'markup') return costMicro;
  return divideUp(BigInt(costMicro) * BigInt(10_000 + price.markup), 10_000n);
}

/** Returns the price of a unit in micro-credits. `costMicro`: its price in the catalog. */
export function priceUnit(costMicro: number, price: BookPrice | null): number {
  return price?.kind === 'unit' ? price.unitMicro : addMarkup(costMicro, price);
}

/** Returns the price of the tokens of a chat in micro-credits. `costMicro`: their price in the catalog. */
export function priceTokens(
  costMicro: number,
  { inputTokens, outputTokens }: { inputTokens: number; outputTokens: number },
  price: BookPrice | null,
): number {
  if (price?.kind !== 'tokens') return addMarkup(costMicro, price);
  const { inputMicro, outputMicro } = price;
  const micro =
    BigInt(inputTokens) * BigInt(inputMicro) + BigInt(outputTokens) * BigInt(outputMicro);
  return divideUp(micro, 1_000_000n);
}
