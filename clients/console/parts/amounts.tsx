/** Formats amounts of credits, US dollars and bytes. */
import { useUsdPrice } from '../gateway/pricing.ts';

const exactFormat = new Intl.NumberFormat(undefined, { maximumFractionDigits: 6 });
const twoDecimals = new Intl.NumberFormat(undefined, {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
});
const twoDigits = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 });
const usdOptions = { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' } as const;
const dollarFormat = new Intl.NumberFormat(undefined, usdOptions);
const centFormat = new Intl.NumberFormat(undefined, { ...usdOptions, maximumSignificantDigits: 2 });
/** Format with at most one decimal, e.g. `4.2`. */
export const oneDecimal = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
/** Format of large numbers, e.g. `128K`. */
export const compactNumber = new Intl.NumberFormat(undefined, { notation: 'compact' });

/** Formats an amount with up to six decimals. */
export const formatExact = (amount: number): string => exactFormat.format(amount);

/** Formats credits with two decimals, or amounts below 0.01 with two significant digits. */
export const formatAmount = (amount: number): string =>
  (amount !== 0 && Math.abs(amount) < 0.01 ? twoDigits : twoDecimals).format(amount);

/** Shows credits, with the exact amount and its price in US dollars as the tooltip. */
export function Credits({ amount }: { amount: number }) {
  const toUsd = useUsdPrice();
  const money = toUsd ? ` = ${formatUsd(toUsd(amount))}` : '';
  return (
    <bdi className="amount" title={`${formatExact(amount)} credits${money}`}>
      {formatAmount(amount)}
    </bdi>
  );
}

/** Shows the price of an amount of credits in US dollars, in parentheses. */
export function UsdPrice({ credits }: { credits: number }) {
  const toUsd = useUsdPrice();
  return toUsd && <span className="amount dim">({formatUsd(toUsd(credits))})</span>;
}

/** Shows the maximum price of a request. */
export function MostCredits({ credits }: { credits: number }) {
  return (
    <>
      at most{' '}
      <strong>
        <Credits amount={credits} />
      </strong>{' '}
      credits <UsdPrice credits={credits} />
    </>
  );
}

/** Formats US dollars with cents, or amounts below ten cents with two significant digits. */
function formatUsd(amount: number): string {
  return (Math.abs(amount) < 0.1 && amount !== 0 ? centFormat : dollarFormat).format(amount);
}

const percentFormat = new Intl.NumberFormat(undefined, { style: 'percent' });

/** Formats a share from 0 to 1, e.g. `12%`. */
export const formatShare = (share: number): string => percentFormat.format(share);

const byteUnits = ['bytes', 'kB', 'MB', 'GB', 'TB'] as const;

/** Formats a file size, e.g. `4.2 MB`. */
export function formatBytes(bytes: number): string {
  const unitIndex = Math.min(byteUnits.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${oneDecimal.format(bytes / 1000 ** unitIndex)} ${byteUnits[unitIndex]}`;
}
