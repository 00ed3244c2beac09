/** Tables with the numbers of the usage chart. */
import { Credits } from '../../parts/amounts.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { formatUtcDay } from '../../parts/times.tsx';
import { sum, type DailySums, type Series } from './usage-sums.ts';

interface TableProps {
  sums: DailySums;
  /** Returns the title of a series. */
  seriesName: (series: Series) => string;
}

/** Shows the totals of the day under the pointer, or of the whole period. */
export function UsageTotals({
  sums: { days, series },
  day,
  seriesName,
}: TableProps & { day: number | null }) {
  const sumShownDays = (numbers: readonly number[]): number =>
    day === null ? sum(numbers) : (numbers[day] ?? 0);
  const sumSeries = (pick: (one: Series) => number[]): number =>
    sum(series.map((one) => sumShownDays(pick(one))));
  return (
    <table className="totals">
      <caption>
        {[days[day ?? 0], ...(day === null ? [days.at(-1)] : [])]
          .map((one = '') => formatUtcDay(one))
          .join(' to ')}{' '}
        (UTC)
      </caption>
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
        {series.map((one, index) => (
          <tr key={one.id}>
            <th scope="row">
              <span className={`swatch series-${index}`} aria-hidden="true" /> {seriesName(one)}
            </th>
            <td className="number">{sumShownDays(one.requests)}</td>
            <td className="number">
              <Credits amount={sumShownDays(one.credits)} />
            </td>
          </tr>
        ))}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">Total</th>
          <td className="number">{sumSeries(({ requests }) => requests)}</td>
          <td className="number">
            <Credits amount={sumSeries(({ credits }) => credits)} />
          </td>
        </tr>
      </tfoot>
    </table>
  );
}

/** Shows the credits of each day and series in a collapsible table. */
export function DayTable({ sums: { days, series }, seriesName }: TableProps) {
  const indexes = [...days.keys()]
    .filter((index) => series.some(({ requests }) => requests[index]))
    .toReversed();
  const columns: Column<number>[] = [
    { title: 'Day', cell: (index) => formatUtcDay(days[index] ?? '') },
    ...series.map((one) => createColumn(one, seriesName(one))),
  ];
  return (
    <details>
      <summary>Show as table</summary>
      <Table
        label="Credits by day"
        caption="Credits by day (UTC); days without requests are not listed"
        columns={columns}
        items={indexes}
        rowId={String}
      />
    </details>
  );
}

function createColumn({ credits }: Series, title: string): Column<number> {
  return { title, isNumber: true, cell: (index) => <Credits amount={credits[index] ?? 0} /> };
}
