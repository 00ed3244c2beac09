/** Ledger entries of an organization, newest first. */
import { useState } from 'react';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { usePages } from '../../gateway/pages.ts';
import { Credits } from '../../parts/amounts.tsx';
import { SelectField, allOption, toOptions } from '../../parts/fields.tsx';
import { IdTail } from '../../parts/ids.tsx';
import { Panel } from '../../parts/panel.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { JobLink } from './links.tsx';

type Entry = OperatorSchemas['LedgerEntry'];

const kinds: readonly Entry['kind'][] = ['grant', 'reserve', 'charge', 'release', 'refund'];
const isNumber = true;
const columns: Column<Entry>[] = [
  { title: '#', isNumber, cell: ({ sequence }) => sequence },
  { title: 'Time', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
  { title: 'Kind', cell: ({ kind }) => kind },
  { title: 'Job', cell: ({ reservationId }) => <Reservation id={reservationId} /> },
  { title: 'Balance', isNumber, cell: ({ postedChange }) => <Change by={postedChange} /> },
  { title: 'after', isNumber, cell: ({ postedAfter }) => <Credits amount={postedAfter} /> },
  { title: 'Reserved', isNumber, cell: ({ reservedChange }) => <Change by={reservedChange} /> },
  { title: 'still', isNumber, cell: ({ reservedAfter }) => <Credits amount={reservedAfter} /> },
  {
    title: 'Actor and reason',
    cell: ({ actor, reason }) =>
      actor && <span className="line">{`${actor}: ${reason ?? ''}`}</span>,
  },
];

/** Shows the ledger entries of an organization. */
export function Ledger({ organizationId }: { organizationId: string }) {
  const [kind, setKind] = useState<Entry['kind'] | ''>('');
  const entries = usePages({
    queryKey: ['operator', 'ledger', organizationId, kind],
    read: ({ cursor }) =>
      unwrap(
        operatorApi.GET('/api/admin/v1/organizations/{organizationId}/ledger', {
          params: {
            path: { organizationId },
            query: { ...(kind && { kind }), ...(cursor && { cursor: Number(cursor) }) },
          },
        }),
      ),
  });
  return (
    <Panel
      title="Ledger"
      columns={columns}
      {...entries}
      rowId={({ sequence }) => String(sequence)}
      empty={kind === '' ? 'No entries yet' : 'No entries match'}
    >
      <SelectField
        label="Kind"
        className="check"
        options={[allOption, ...toOptions(kinds)]}
        value={kind}
        change={setKind}
      />
    </Panel>
  );
}

function Reservation({ id }: { id: string | null }) {
  if (id === null) return null;
  return id.startsWith('job_') ? <JobLink id={id} /> : <IdTail id={id} />;
}

function Change({ by }: { by: number }) {
  if (by === 0) return '–';
  return (
    <>
      {by > 0 && '+'}
      <Credits amount={by} />
    </>
  );
}
