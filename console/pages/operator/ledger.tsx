/** The ledger of an organization, newest entry first. */
import { useState } from 'react';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { usePages } from '../../gateway/pages.ts';
import { Credits } from '../../parts/amounts.tsx';
import { SelectField, allOption, plainOptions } from '../../parts/fields.tsx';
import { IdTail } from '../../parts/ids.tsx';
import { Panel } from '../../parts/panel.tsx';
import type { Column } from '../../parts/table.tsx';
import { Moment } from '../../parts/times.tsx';
import { JobLink } from './links.tsx';

type Entry = OperatorSchemas['LedgerEntry'];

const kinds: readonly Entry['kind'][] = ['grant', 'reserve', 'charge', 'release', 'refund'];
const isNumber = true;
const columns: Column<Entry>[] = [
  { title: 'Entry', isNumber, cell: ({ sequence }) => sequence },
  { title: 'Time', cell: ({ createdAt }) => <Moment at={createdAt} /> },
  { title: 'Kind', cell: ({ kind }) => kind },
  { title: 'Job or chat', cell: ({ reservationId }) => <Reservation id={reservationId} /> },
  { title: 'Balance', isNumber, cell: ({ postedChange }) => <Change amount={postedChange} /> },
  { title: 'Reserved', isNumber, cell: ({ reservedChange }) => <Change amount={reservedChange} /> },
  { title: 'Balance after', isNumber, cell: ({ postedAfter }) => <Credits amount={postedAfter} /> },
  {
    title: 'Reserved after',
    isNumber,
    cell: ({ reservedAfter }) => <Credits amount={reservedAfter} />,
  },
  { title: 'Actor and reason', cell: ({ actor, reason }) => actor && `${actor}: ${reason ?? ''}` },
];

/** Lists the entries. */
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
        options={[allOption, ...plainOptions(kinds)]}
        value={kind}
        change={setKind}
      />
    </Panel>
  );
}

function Reservation({ id }: { id: string | null }) {
  if (id === null) return '–';
  return id.startsWith('job_') ? <JobLink id={id} /> : <IdTail id={id} />;
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
