/** Shows times and durations. */
import { useEffect, useState } from 'react';
import { serverNowMs } from '../gateway/client.ts';

const dateTime = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'short',
});
const minuteMs = 60_000;
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
  if (ms < minuteMs) return 'now';
  const text =
    ms < hourMs
      ? `${Math.round(ms / minuteMs)} min`
      : ms < 2 * dayMs
        ? `${Math.round(ms / hourMs)} h`
        : `${Math.round(ms / dayMs)} days`;
  return differenceMs < 0 ? `${text} ago` : `in ${text}`;
}

/** Shows a time relative to now. The tooltip is the exact time. */
export function RelativeTime({ time }: TimeProps) {
  const nowMs = useNow(minuteMs / 2);
  const date = new Date(time);
  return (
    <time dateTime={date.toISOString()} title={`${dateTime.format(date)} · ${date.toISOString()}`}>
      {formatRelative(date.getTime() - nowMs)}
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

/** Shows a date and time. */
export function DateTime({ time }: TimeProps) {
  const date = new Date(time);
  return (
    <time dateTime={date.toISOString()} title={date.toISOString()}>
      {dateTime.format(date)}
    </time>
  );
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
