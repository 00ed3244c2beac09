/** Charges by day. The user chooses the period, the grouping and the chart type. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link } from 'wouter';
import { unwrap, api } from '../../gateway/client.ts';
import { balanceQuery, useSessionKey } from '../../gateway/session.ts';
import { useQueryString } from '../../parts/query-string.ts';
import { SelectField } from '../../parts/fields.tsx';
import { Empty, ErrorMessage, Loading } from '../../parts/states.tsx';
import { keysQuery } from '../keys/key-query.ts';
import { DayTable, UsageTotals } from './day-tables.tsx';
import { UsageChart, type ChartType } from './usage-chart.tsx';
import { sumByDay, calculatePeriodStart, type Series, type Split } from './usage-sums.ts';

const periods = [
  [7, '7 days'],
  [30, '30 days'],
  [90, '90 days'],
  [365, '1 year'],
] as const;
const splitOptions = [
  ['model', 'Model'],
  ['key', 'Key'],
  ['type', 'Type'],
  ['none', 'None'],
] as const;
const chartTypes = [
  ['stacked', 'Stacked bars'],
  ['lines', 'Lines'],
] as const;
const summaryPath = '/api/v1/usage/summary';

/** Shows the fields for the period, grouping and chart type, and the chart with its tables. */
export function UsageByDay() {
  const [search, change] = useQueryString();
  const { data: account } = useQuery(balanceQuery);
  const newest = account?.usage[0]?.createdAt ?? '';
  const days =
    periods.find(([count]) => String(count) === search.get('days'))?.[0] ??
    periods.find(([count]) => newest > calculatePeriodStart(count))?.[0] ??
    30;
  const by = splitOptions.find(([name]) => name === search.get('by'))?.[0] ?? 'model';
  const split = by === 'none' ? null : by;
  const chartType: ChartType = search.get('shape') === 'lines' ? 'lines' : 'stacked';
  const query = { groupBy: split ? `day,${split}` : 'day', after: calculatePeriodStart(days) };
  const csv = `${summaryPath}?${new URLSearchParams({ ...query, format: 'csv', bom: 'true' }).toString()}`;
  return (
    <section className="card stack">
      <div className="head">
        <h2>By day</h2>
        <a className="button" href={csv} download={`usage-${split ?? 'day'}-${days}-days.csv`}>
          Download as CSV
        </a>
      </div>
      <div className="choices">
        <SelectField
          label="Period"
          options={periods}
          value={days}
          change={(count) => change('days', String(count))}
        />
        <SelectField
          label="Split by"
          options={splitOptions}
          value={by}
          change={(name) => change('by', name)}
        />
        <SelectField
          label="Chart"
          options={chartTypes}
          value={chartType}
          change={(name) => change('shape', name)}
        />
      </div>
      {account && <UsageSums query={query} split={split} chartType={chartType} />}
    </section>
  );
}

interface UsageSumsProps {
  query: { groupBy: string; after: string };
  split: Split;
  chartType: ChartType;
}

function UsageSums({ query, split, chartType }: UsageSumsProps) {
  const { data: sums, error } = useQuery({
    queryKey: ['usage', 'summary', query],
    queryFn: async () => sumByDay(await unwrap(api.GET(summaryPath, { params: { query } })), split),
    placeholderData: keepPreviousData,
  });
  const [day, setDay] = useState<number | null>(null);
  const keyNames = useKeyNames(split);
  if (error) return <ErrorMessage error={error} />;
  if (!sums) return <Loading />;
  if (sums.series.length === 0) {
    return (
      <Empty title="No usage in this period">
        Choose a longer one, or create a job in the <Link href="/">playground</Link>.
      </Empty>
    );
  }
  const seriesName = ({ id }: Series): string => (id === null ? 'Other' : (keyNames.get(id) ?? id));
  return (
    <>
      <div className="two">
        <UsageChart sums={sums} chartType={chartType} onPoint={setDay} />
        <UsageTotals sums={sums} day={day} seriesName={seriesName} />
      </div>
      <DayTable sums={sums} seriesName={seriesName} />
    </>
  );
}

/** Returns key names by key id. The map is empty if the session may not read keys. */
function useKeyNames(split: Split): ReadonlyMap<string, string> {
  const isAllowed = useSessionKey().explainDenial('keys:read') === null;
  const { data } = useQuery({ ...keysQuery, enabled: isAllowed && split === 'key' });
  return useMemo(() => new Map((data?.keys ?? []).map(({ keyId, name }) => [keyId, name])), [data]);
}
