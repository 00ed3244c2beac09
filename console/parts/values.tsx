/** Amounts, times, ids and states in one format. */
import { useEffect, useState } from 'react';
import { useUsdOf } from '../gateway/pricing.ts';
import { idTail, wordsOf } from './names.ts';

const exact = new Intl.NumberFormat(undefined, { maximumFractionDigits: 6 });
const twoDecimals = new Intl.NumberFormat(undefined, {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
});
const twoDigits = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 });
const usd = { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' } as const;
const dollars = new Intl.NumberFormat(undefined, usd);
const cents = new Intl.NumberFormat(undefined, { ...usd, maximumSignificantDigits: 2 });
const rounded = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const moments = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const spans = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });

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
  const usdOf = useUsdOf();
  const money = usdOf ? ` = ${moneyText(usdOf(amount))}` : '';
  return (
    <span className="amount" title={`${exactText(amount)} credits${money}`}>
      {amountText(amount)}
    </span>
  );
}

/** Shows the price of credits in US dollars. */
export function Money({ credits }: { credits: number }) {
  const usdOf = useUsdOf();
  return usdOf && <span className="amount dim">{moneyText(usdOf(credits))}</span>;
}

/** Formats US dollars; amounts below a dollar with two digits. */
function moneyText(amount: number): string {
  return (Math.abs(amount) < 1 && amount !== 0 ? cents : dollars).format(amount);
}

const sizes = ['bytes', 'kB', 'MB', 'GB', 'TB'] as const;

/** Formats a size: `0 bytes`, `4.2 MB`. */
export function bytesText(bytes: number): string {
  const power = Math.min(sizes.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${rounded.format(bytes / 1000 ** power)} ${sizes[power]}`;
}

const steps = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const;

/** Shows the time since or until `at` (ISO 8601, or Unix ms); the time itself is in the tooltip. */
export function Ago({ at }: { at: string | number }) {
  const now = useNow(30_000);
  const time = new Date(at);
  const difference = time.getTime() - now;
  const [unit, length] = steps.find(([, ms]) => Math.abs(difference) >= ms) ?? ['second', 1000];
  const text = unit === 'second' ? 'now' : spans.format(Math.round(difference / length), unit);
  return (
    <time dateTime={time.toISOString()} title={moments.format(time)}>
      {text}
    </time>
  );
}

/** Shows a date and time. */
export function Moment({ at }: { at: string | number }) {
  const time = new Date(at);
  return <time dateTime={time.toISOString()}>{moments.format(time)}</time>;
}

/** Returns the time in Unix ms, updated at each interval. */
export function useNow(intervalMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return now;
}

/** Formats a duration: `820 ms`, `4.2 s`, `3 min 5 s`. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

const tones: Record<string, string> = {
  completed: 'good',
  delivered: 'good',
  charged: 'good',
  active: 'good',
  done: 'good',
  clean: 'good',
  failed: 'bad',
  suspended: 'bad',
  gone: 'bad',
  silent: 'bad',
  'not clean': 'bad',
  canceled: 'mute',
  released: 'mute',
  waiting: 'mute',
  revoked: 'mute',
  refunded: 'mute',
  overdue: 'bad',
};

/** Shows a state as a word with a color. */
export function State({ of }: { of: string }) {
  return <span className={`state ${tones[of] ?? 'busy'}`}>{wordsOf(of)}</span>;
}

/** Shows the end of an id; the whole id is in the tooltip. */
export function Tail({ of }: { of: string }) {
  return (
    <code className="tail" title={of}>
      {idTail(of)}
    </code>
  );
}

/** Shows an id with a button that copies it. */
export function Id({ of }: { of: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <button
      type="button"
      className="id"
      title={`Copy ${of}`}
      onClick={() => {
        void navigator.clipboard.writeText(of).then(() => setCopied(true));
        setTimeout(() => setCopied(false), 1500);
      }}
    >
      <code>{of}</code>
      <span role="status">{copied ? ' copied' : ''}</span>
    </button>
  );
}
