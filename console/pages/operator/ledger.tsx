/** The ledger of an organization, newest entry first. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { answered } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import type { TableRow } from '../../parts/table.tsx';
import { Credits, Moment, Tail } from '../../parts/values.tsx';
import { JobLink } from './links.tsx';
import { Panel } from './panel.tsx';

type Entry = OperatorSchemas['LedgerEntry'];

const kinds: readonly Entry['kind'][] = ['grant', 'reserve', 'charge', 'release', 'refund'];
const number = (title: string) => ({ title, isNumber: true });
const columns = [
  number('Entry'),
  'Time',
  'Kind',
  'Job or chat',
  number('Balance'),
  number('Reserved'),
  number('Balance after'),
  number('Reserved after'),
  'Actor and reason',
];

/** Lists the entries. */
export function Ledger({ id: organizationId }: { id: string }) {
  const [kind, setKind] = useState<Entry['kind'] | null>(null);
  const { data, error, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ['operator', 'ledger', organizationId, kind],
    initialPageParam: null as number | null,
    queryFn: ({ pageParam: cursor }) =>
      answered(
        operatorApi.GET('/api/admin/v1/organizations/{organizationId}/ledger', {
          params: {
            path: { organizationId },
            query: { ...(kind && { kind }), ...(cursor && { cursor }) },
          },
        }),
      ),
    getNextPageParam: ({ nextCursor }) => (nextCursor === null ? null : Number(nextCursor)),
  });
  return (
    <Panel
      title="Ledger"
      columns={columns}
      rows={data?.pages.flatMap((page) => page.data.map(rowOf))}
      error={error}
      none={kind === null ? 'No entries yet' : 'No entries match'}
      more={hasNextPage ? () => void fetchNextPage() : null}
    >
      <label className="check">
        Kind
        <select
          value={kind ?? ''}
          onChange={({ target }) => setKind(kinds.find((each) => each === target.value) ?? null)}
        >
          <option value="">All</option>
          {kinds.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
    </Panel>
  );
}

function rowOf(entry: Entry): TableRow {
  const { sequence, createdAt, kind, reservationId, actor, reason } = entry;
  return {
    id: String(sequence),
    cells: [
      sequence,
      <Moment key="time" at={createdAt} />,
      kind,
      reservationId === null ? (
        '–'
      ) : reservationId.startsWith('job_') ? (
        <JobLink id={reservationId} />
      ) : (
        <Tail of={reservationId} />
      ),
      <Change key="posted" amount={entry.postedChange} />,
      <Change key="reserved" amount={entry.reservedChange} />,
      <Credits key="postedAfter" amount={entry.postedAfter} />,
      <Credits key="reservedAfter" amount={entry.reservedAfter} />,
      actor && `${actor}: ${reason ?? ''}`,
    ],
  };
}

function Change({ amount }: { amount: number }) {
  if (amount === 0) return '–';
  return (
    <>
      {amount > 0 && '+'}
      <Credits amount={amount} />
    </>
  );
}
