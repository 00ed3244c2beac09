/** Each request that used credits, newest first. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { answered, api, type Schemas } from '../../gateway/client.ts';
import { Empty, Loading, Refusal } from '../../parts/states.tsx';
import { typeText } from '../../parts/names.ts';
import { Table, type TableRow } from '../../parts/table.tsx';
import { Credits, Moment, State } from '../../parts/values.tsx';

type UsageRecord = Schemas['UsageRecord'];
const states = ['reserved', 'charged', 'released'] as const;
type BillingState = (typeof states)[number];

/** Lists jobs and chats with their charges. */
export function UsageRecords() {
  const [status, setStatus] = useState<BillingState | null>(null);
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ['usage', 'records', status],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: cursor }) =>
      answered(
        api.GET('/api/v1/usage', {
          params: { query: { limit: 20, ...(status && { status }), ...(cursor && { cursor }) } },
        }),
      ),
    getNextPageParam: ({ nextCursor }) => nextCursor,
  });
  const records = data?.pages.flatMap(({ usage }) => usage);
  return (
    <section className="card stack">
      <div className="head">
        <h2>Records</h2>
        <label className="check">
          Billing
          <select
            value={status ?? ''}
            onChange={({ target }) =>
              setStatus(states.find((each) => each === target.value) ?? null)
            }
          >
            <option value="">All</option>
            {states.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      </div>
      <Refusal error={error} />
      {!records && !error && <Loading />}
      {records?.length === 0 && <Empty title="No records" />}
      {records && records.length > 0 && (
        <Table label="Records" columns={columns} rows={records.map(rowOf)} />
      )}
      {hasNextPage && (
        <button type="button" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {isFetchingNextPage ? 'Loading…' : 'Show more'}
        </button>
      )}
    </section>
  );
}

const columns = [
  'Time',
  'Type',
  'Model',
  'Billing',
  { title: 'Tokens in / out', isNumber: true },
  { title: 'Credits', isNumber: true },
];

function rowOf(record: UsageRecord): TableRow {
  const { id, jobId, type, model, status, credits, inputTokens, outputTokens, createdAt } = record;
  const name = typeText(type);
  return {
    id,
    cells: [
      <Moment key="time" at={createdAt} />,
      jobId === undefined ? name : <Link href={`/jobs/${jobId}`}>{name}</Link>,
      model ?? '–',
      <State key="billing" of={status} />,
      inputTokens === undefined ? '–' : `${inputTokens} / ${outputTokens ?? 0}`,
      <Credits key="credits" amount={credits} />,
    ],
  };
}
