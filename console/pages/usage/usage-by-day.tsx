/** Usage by day: as a chart, as a table and as CSV. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { useSearchParams } from 'wouter';
import { answered, api } from '../../gateway/client.ts';
import { useWho } from '../../gateway/session.ts';
import { Empty, Loading, Refusal } from '../../parts/states.tsx';
import { Credits } from '../../parts/values.tsx';
import { beginOf, dailySums, sum, type DailySums, type Series, type Split } from './usage-sums.ts';
import { UsageChart, type Shape } from './usage-chart.tsx';

const periods = [
  [7, '7 days'],
  [30, '30 days'],
  [90, '90 days'],
  [365, '1 year'],
] as const;
const splits = ['model', 'key', 'type'] as const;
const path = '/api/v1/usage/summary';

/** Shows charges by day. */
export function UsageByDay() {
  const [search, setSearch] = useSearchParams();
  const days = periods.find(([count]) => String(count) === search.get('days'))?.[0] ?? 30;
  const split = splits.find((each) => each === search.get('by')) ?? null;
  const shape: Shape = search.get('shape') === 'lines' ? 'lines' : 'stacked';
  const change = (name: string, value: string): void =>
    setSearch(
      (before) => {
        before.set(name, value);
        return before;
      },
      { replace: true },
    );
  const query = { groupBy: split ? `day,${split}` : 'day', after: beginOf(days) };
  const csv = `${path}?${new URLSearchParams({ ...query, format: 'csv' }).toString()}`;
  return (
    <section className="card stack">
      <div className="head">
        <h2>By day</h2>
        <a className="button" href={csv} download={`usage-${split ?? 'day'}-${days}-days.csv`}>
          Download as CSV
        </a>
      </div>
      <div className="choices">
        <label>
          Period
          <select value={days} onChange={({ target }) => change('days', target.value)}>
            {periods.map(([count, text]) => (
              <option key={count} value={count}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <label>
          Split by
          <select value={split ?? ''} onChange={({ target }) => change('by', target.value)}>
            <option value="">None</option>
            {splits.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <label>
          Chart
          <select value={shape} onChange={({ target }) => change('shape', target.value)}>
            <option value="stacked">stacked bars</option>
            <option value="lines">lines</option>
          </select>
        </label>
      </div>
      <Sums query={query} split={split} shape={shape} />
    </section>
  );
}

interface SumsProps {
  query: { groupBy: string; after: string };
  split: Split;
  shape: Shape;
}

function Sums({ query, split, shape }: SumsProps) {
  const { data, error } = useQuery({
    queryKey: ['usage', 'summary', query],
    queryFn: async () => ({
      // Stored with the response, so that the previous response is shown with its own split until
      // the next one arrives.
      by: split,
      sums: dailySums(await answered(api.GET(path, { params: { query } })), split),
    }),
    placeholderData: keepPreviousData,
  });
  const [day, setDay] = useState<number | null>(null);
  const names = useNames(split);
  if (error) return <Refusal error={error} />;
  if (!data) return <Loading />;
  const { sums } = data;
  if (sums.series.length === 0) {
    return <Empty title="No usage in this period">Create a job in the playground.</Empty>;
  }
  const nameOf = ({ id }: Series): string => (id === null ? 'Other' : (names.get(id) ?? id));
  return (
    <>
      <div className="usage">
        <UsageChart sums={sums} shape={shape} point={setDay} />
        <Totals sums={sums} day={day} nameOf={nameOf} />
      </div>
      <DayTable sums={sums} nameOf={nameOf} />
    </>
  );
}

/** Returns the names of keys by their ids; empty if the session may not read them. */
function useNames(split: Split): ReadonlyMap<string, string> {
  const isAllowed = useWho().refuses('keys:read') === null;
  const { data } = useQuery({
    queryKey: ['keys'],
    queryFn: () => answered(api.GET('/api/v1/api-keys')),
    enabled: isAllowed && split === 'key',
  });
  return useMemo(() => new Map((data?.keys ?? []).map(({ keyId, name }) => [keyId, name])), [data]);
}

interface TableProps {
  sums: DailySums;
  nameOf: (series: Series) => string;
}

/** Shows the totals of the day under the pointer, or of the period. */
function Totals({ sums: { days, series }, day, nameOf }: TableProps & { day: number | null }) {
  const totalOf = (numbers: readonly number[]): number =>
    day === null ? sum(numbers) : (numbers[day] ?? 0);
  const all = (pick: (each: Series) => number[]): number =>
    sum(series.map((each) => totalOf(pick(each))));
  return (
    <table className="totals">
      <caption>{day === null ? `${days[0]} to ${days.at(-1)}` : days[day]} (UTC)</caption>
      <thead>
        <tr>
          <th scope="col">Used by</th>
          <th scope="col" className="number">
            Requests
          </th>
          <th scope="col" className="number">
            Credits
          </th>
        </tr>
      </thead>
      <tbody>
        {series.map((each, index) => (
          <tr key={each.id}>
            <th scope="row">
              <span className={`swatch series-${index}`} aria-hidden="true" /> {nameOf(each)}
            </th>
            <td className="number">{totalOf(each.requests)}</td>
            <td className="number">
              <Credits amount={totalOf(each.credits)} />
            </td>
          </tr>
        ))}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">Total</th>
          <td className="number">{all(({ requests }) => requests)}</td>
          <td className="number">
            <Credits amount={all(({ credits }) => credits)} />
          </td>
        </tr>
      </tfoot>
    </table>
  );
}

function DayTable({ sums: { days, series }, nameOf }: TableProps) {
  const rows = days
    .map((day, index) => ({ day, amounts: series.map(({ credits }) => credits[index] ?? 0) }))
    .filter((_, index) => series.some(({ requests }) => requests[index]))
    .toReversed();
  return (
    <details>
      <summary>Show as table</summary>
      {/* oxlint-disable-next-line no-noninteractive-tabindex -- a scrolling element must be reachable by keyboard */}
      <div className="scroll" tabIndex={0} role="region" aria-label="Credits by day">
        <table>
          <caption>Credits by day (UTC); days without requests are not listed</caption>
          <thead>
            <tr>
              <th scope="col">Day</th>
              {series.map((each) => (
                <th key={each.id} scope="col" className="number">
                  {nameOf(each)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ day, amounts }) => (
              <tr key={day}>
                <th scope="row">{day}</th>
                {amounts.map((amount, index) => (
                  <td key={series[index]?.id} className="number">
                    <Credits amount={amount} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
