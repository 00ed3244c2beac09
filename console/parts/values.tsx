/** Amounts, times, ids and states, each shown alike everywhere. */
import { useEffect, useState } from 'react';

const amounts = new Intl.NumberFormat(undefined, { maximumFractionDigits: 6 });
const rounded = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const moments = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const spans = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });

/** An amount as it is written: credits to the micro-credit where there are any. */
export const amountText = (amount: number): string => amounts.format(amount);

/** Credits. */
export function Credits({ amount }: { amount: number }) {
  return <span className="amount">{amountText(amount)}</span>;
}

const sizes = ['bytes', 'kB', 'MB', 'GB', 'TB'] as const;

/** `0 bytes`, `4.2 MB`. */
export function bytesText(bytes: number): string {
  const power = Math.min(sizes.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${rounded.format(bytes / 1000 ** power)} ${sizes[power]}`;
}

const steps = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const;

/** How long ago; the time itself where a pointer rests. `at`: ISO 8601, or Unix milliseconds. */
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

/** A moment in full. */
export function Moment({ at }: { at: string | number }) {
  const time = new Date(at);
  return <time dateTime={time.toISOString()}>{moments.format(time)}</time>;
}

/** Unix milliseconds, again at each interval while it is shown. */
export function useNow(intervalMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return now;
}

/** `820 ms`, `4.2 s`, `3 min 5 s`. */
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
};

/** A state as a word with a colour; the word alone tells all. */
export function State({ of }: { of: string }) {
  return <span className={`state ${tones[of] ?? 'busy'}`}>{of.replaceAll('_', ' ')}</span>;
}

/** An id that can be copied. */
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
