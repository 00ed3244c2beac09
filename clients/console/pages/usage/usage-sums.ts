/** Computes usage by day for the chart and its tables. */
import { serverNowMs, type Schemas } from '../../gateway/client.ts';

type Row = Schemas['UsageSummary']['rows'][number];

/** Property by which each day's usage is split, or null if it is not split. */
export type Split = 'model' | 'key' | 'type' | null;

/** Credits and requests per day of one model, key or type. */
export interface Series {
  /** Id of the model, key or type. Null for the sum of the smallest series, shown as "Other". */
  id: string | null;
  credits: number[];
  requests: number[];
}

/** Usage by day. */
export interface DailySums {
  /** All days of the period in UTC, e.g. `2026-11-22`. */
  days: string[];
  /** Series, most expensive first. */
  series: Series[];
}

const dayMs = 86_400_000;
/** Number of chart colors. If there are more series, the last color is for "Other". */
const seriesMax = 8;

/** Returns the start of the period of `days` days that ends today. */
export function calculatePeriodStart(days: number): string {
  const today = Math.floor(serverNowMs() / dayMs) * dayMs;
  // The filter `after` is exclusive.
  return new Date(today - (days - 1) * dayMs - 1).toISOString();
}

/** Groups the rows of GET /usage/summary into one series per model, key or type. */
export function sumByDay(summary: Schemas['UsageSummary'], split: Split): DailySums {
  const { after, before, rows } = summary;
  const days: string[] = [];
  for (let startMs = Date.parse(after) + 1; startMs <= Date.parse(before); startMs += dayMs) {
    days.push(new Date(startMs).toISOString().slice(0, 10));
  }
  const groups = Map.groupBy(rows, (row) => findSeriesId(row, split));
  const series = [...groups]
    .map(([id, group]) => buildSeries(id, days, group))
    .toSorted((one, other) => sum(other.credits) - sum(one.credits));
  if (series.length <= seriesMax) return { days, series };
  const smallestSeries = series.slice(seriesMax - 1);
  const otherSeries: Series = {
    id: null,
    credits: days.map((_, day) => sum(smallestSeries.map(({ credits }) => credits[day] ?? 0))),
    requests: days.map((_, day) => sum(smallestSeries.map(({ requests }) => requests[day] ?? 0))),
  };
  return { days, series: [...series.slice(0, seriesMax - 1), otherSeries] };
}

function findSeriesId({ model, keyId, type }: Row, split: Split): string {
  const names = { model: model ?? 'no model', key: keyId ?? '', type: type ?? '' };
  return split === null ? 'all' : names[split];
}

function buildSeries(id: string, days: readonly string[], rows: readonly Row[]): Series {
  const byDay = new Map(rows.map((row) => [row.day, row]));
  return {
    id,
    credits: days.map((day) => byDay.get(day)?.credits ?? 0),
    requests: days.map((day) => byDay.get(day)?.requests ?? 0),
  };
}

/** Adds numbers. */
export const sum = (numbers: readonly number[]): number =>
  numbers.reduce((total, number) => total + number, 0);
