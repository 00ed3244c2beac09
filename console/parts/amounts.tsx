/** Amounts of credits, money and bytes. */
import { useUsdPrice } from '../gateway/pricing.ts';

const exact = new Intl.NumberFormat(undefined, { maximumFractionDigits: 6 });
const twoDecimals = new Intl.NumberFormat(undefined, {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
});
const twoDigits = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 });
const usd = { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' } as const;
const dollars = new Intl.NumberFormat(undefined, usd);
const cents = new Intl.NumberFormat(undefined, { ...usd, maximumSignificantDigits: 2 });
const oneDecimal = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

/** Formats an amount with all its decimals, up to six. */
export const exactText = (amount: number): string => exact.format(amount);

/**
 * Formats credits with two decimals; amounts below 0.01 with two digits, because two decimals would
 * show zero.
 */
export const amountText = (amount: number): string =>
  (amount !== 0 && Math.abs(amount) < 0.01 ? twoDigits : twoDecimals).format(amount);

/** Shows credits; the exact amount and its price are in the tooltip. */
export function Credits({ amount }: { amount: number }) {
  const toUsd = useUsdPrice();
  const money = toUsd ? ` = ${moneyText(toUsd(amount))}` : '';
  return (
    <span className="amount" title={`${exactText(amount)} credits${money}`}>
      {amountText(amount)}
    </span>
  );
}

/** Shows the price of credits in US dollars. */
export function Money({ credits }: { credits: number }) {
  const toUsd = useUsdPrice();
  return toUsd && <span className="amount dim">{moneyText(toUsd(credits))}</span>;
}

/** Formats US dollars; amounts below a dollar with two digits. */
function moneyText(amount: number): string {
  return (Math.abs(amount) < 1 && amount !== 0 ? cents : dollars).format(amount);
}

const sizes = ['bytes', 'kB', 'MB', 'GB', 'TB'] as const;

/** Formats a size: `0 bytes`, `4.2 MB`. */
export function bytesText(bytes: number): string {
  const power = Math.min(sizes.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${oneDecimal.format(bytes / 1000 ** power)} ${sizes[power]}`;
}
