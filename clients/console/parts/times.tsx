/**
 * Shows times and durations: times relative to now in lists, local times elsewhere. The tooltip of a
 * time has its local time and UTC.
 */
import { useEffect, useState } from 'react';
import { serverNowMs } from '../gateway/client.ts';

const clock = { hour: '2-digit', minute: '2-digit' } as const;
const clockFormat = new Intl.DateTimeFormat(undefined, clock);
const secondFormat = new Intl.DateTimeFormat(undefined, { ...clock, second: '2-digit' });
const dateFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const fullFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });
const minuteMs = 60_000;
/** Time between two updates of a relative time, and the precision of seconds. */
const recentMs = 10_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

const utcDayFormat = new Intl.DateTimeFormat(undefined, {
  month: 'short',
  day: 'numeric',
  timeZone: 'UTC',
});

/** Formats a day in UTC, e.g. `Nov 27`. */
export const formatUtcDay = (day: string | number): string => utcDayFormat.format(new Date(day));

const dayFormat = new Intl.DateTimeFormat(undefined, {
  weekday: 'long',
  day: 'numeric',
  month: 'long',
});

/** Formats the day of a time, e.g. `Friday, November 27`. Returns '' for undefined. */
export const formatDay = (time: string | undefined): string =>
  time === undefined ? '' : dayFormat.format(new Date(time));

interface TimeProps {
  /** Time as an ISO 8601 string, or in Unix milliseconds. */
  time: string | number;
}

/** Formats a time relative to now, e.g. `5 min ago`, `in 24 h` or `3 days ago`. */
function formatRelative(differenceMs: number): string {
  const ms = Math.abs(differenceMs);
  if (ms < recentMs) return 'now';
  const text =
    ms < minuteMs - recentMs
      ? `${Math.round(ms / recentMs) * (recentMs / 1000)} s`
      : ms < hourMs
        ? `${Math.round(ms / minuteMs)} min`
        : ms < 2 * dayMs
          ? `${Math.round(ms / hourMs)} h`
          : `${Math.round(ms / dayMs)} days`;
  return differenceMs < 0 ? `${text} ago` : `in ${text}`;
}

/** Shows a time relative to now. */
export function RelativeTime({ time }: TimeProps) {
  const date = new Date(time);
  const differenceMs = date.getTime() - useNow(recentMs);
  const isFar = Math.abs(differenceMs) > 60 * dayMs;
  return <Time date={date} text={isFar ? dateFormat.format(date) : formatRelative(differenceMs)} />;
}

function Time({ date, text }: { date: Date; text: string }) {
  const iso = date.toISOString();
  return (
    <time dateTime={iso} title={`${fullFormat.format(date)} · ${iso}`}>
      {text}
    </time>
  );
}

/** Shows when the URL of a file expires or has expired; the file stays. */
export function LinkExpiry({ time }: TimeProps) {
  return (
    <>
      link {useNow(minuteMs / 2) < new Date(time).getTime() ? 'expires' : 'expired'}{' '}
      <RelativeTime time={time} />
    </>
  );
}

/** Formats a local time, with its day unless that is today. */
function formatLocal(date: Date, time: Intl.DateTimeFormat): string {
  const day = dateFormat.format(date);
  const clockText = time.format(date);
  return day === dateFormat.format(serverNowMs()) ? clockText : `${day}, ${clockText}`;
}

/** Shows a local date and time. */
export function DateTime({ time }: TimeProps) {
  const date = new Date(time);
  return <Time date={date} text={formatLocal(date, secondFormat)} />;
}

/** Time in a sentence of the API: in ISO 8601, or as `2026-11-28 06:23 UTC`, whose day is optional. */
const timeInText = /((?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d(?::[\d.]{2,6})?(?:Z| UTC))/;

/** Shows a sentence of the API, with its times as local times. */
export function LocalTimes({ text }: { text: string }) {
  return text.split(timeInText).map((part, index) => {
    const date = index % 2 === 1 ? readTime(part) : null;
    return date ? <Time key={index} date={date} text={formatLocal(date, clockFormat)} /> : part;
  });
}

/** Reads a time of a sentence. A time without a day is within twelve hours. */
function readTime(text: string): Date | null {
  const nowMs = serverNowMs();
  const hasDay = text.length > '06:23 UTC'.length;
  const day = hasDay ? '' : `${new Date(nowMs).toISOString().slice(0, 10)}T`;
  const ms = Date.parse(day + text.replace(' UTC', 'Z').replace(' ', 'T'));
  if (Number.isNaN(ms)) return null;
  const days = hasDay ? 0 : Math.round((nowMs - ms) / dayMs);
  return new Date(ms + days * dayMs);
}

/** Returns the current time in Unix ms, and updates it every `intervalMs`. */
export function useNow(intervalMs: number): number {
  const [nowMs, setNowMs] = useState(serverNowMs);
  useEffect(() => {
    const timer = setInterval(() => setNowMs(serverNowMs()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return nowMs;
}

/** Formats a duration, e.g. `820 ms`, `4.2 s`, `3 min 5 s` or `2 h 7 min`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 10) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
