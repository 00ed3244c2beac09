/** Each request that used credits, newest first. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { answered, api, type Schemas } from '../../gateway/client.ts';
import { Empty, Loading, Refusal } from '../../parts/states.tsx';
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
            <option value="">any</option>
            {states.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      </div>
      <Refusal error={error} />
      {!records && !error && <Loading />}
      {records?.length === 0 && <Empty title="No records" />}
      {records && records.length > 0 && <Records records={records} />}
      {hasNextPage && (
        <button type="button" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {isFetchingNextPage ? 'Loading…' : 'Show older ones'}
        </button>
      )}
    </section>
  );
}

function Records({ records }: { records: readonly UsageRecord[] }) {
  return (
    // oxlint-disable-next-line no-noninteractive-tabindex -- what scrolls can be reached by keys
    <div className="scroll" tabIndex={0} role="region" aria-label="Records">
      <table>
        <thead>
          <tr>
            {['Time', 'Kind', 'Model', 'Billing'].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
            <th scope="col" className="number">
              Tokens in / out
            </th>
            <th scope="col" className="number">
              Credits
            </th>
          </tr>
        </thead>
        <tbody>
          {records.map((record) => (
            <Line key={record.id} record={record} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Line({ record }: { record: UsageRecord }) {
  const { jobId, type, model, status, credits, inputTokens, outputTokens, createdAt } = record;
  return (
    <tr>
      <td>
        <Moment at={createdAt} />
      </td>
      <td>{jobId === undefined ? type : <Link href={`/jobs/${jobId}`}>{type}</Link>}</td>
      <td>{model ?? '–'}</td>
      <td>
        <State of={status} />
      </td>
      <td className="number">
        {inputTokens === undefined ? '–' : `${inputTokens} / ${outputTokens ?? 0}`}
      </td>
      <td className="number">
        <Credits amount={credits} />
      </td>
    </tr>
  );
}
