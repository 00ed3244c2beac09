/** Page of operators and their keys. Creating and revoking them requires ADMIN_API_KEY. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { NewSecret } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/fields.tsx';
import { Panel } from '../../parts/panel.tsx';
import { State } from '../../parts/state.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { OperatorAction } from './operator-action.tsx';

type Operator = OperatorSchemas['Operator'];

const columns: Column<Operator>[] = [
  { title: 'Name', cell: ({ name }) => <strong>{name}</strong> },
  { title: 'Key', cell: ({ keyPrefix }) => <code>{keyPrefix}…</code> },
  {
    title: 'State',
    cell: ({ revokedAt }) => <State name={revokedAt === null ? 'active' : 'revoked'} />,
  },
  {
    title: 'Last used',
    cell: ({ lastUsedAt }) => (lastUsedAt === null ? 'Never' : <RelativeTime time={lastUsedAt} />),
  },
  { title: 'Created', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
  { title: 'Actions', cell: (operator) => operator.revokedAt === null && <Revoke {...operator} /> },
];

/** Shows the page of operators. */
export function Operators() {
  const [newKey, setNewKey] = useState<string | null>(null);
  const { data, error } = useQuery({
    queryKey: ['operator', 'operators'],
    queryFn: () => unwrap(operatorApi.GET('/api/admin/v1/operators')),
  });
  return (
    <>
      <Panel
        title="Operators"
        columns={columns}
        items={data?.data}
        rowId={({ operatorId }) => operatorId}
        error={error}
        empty="No operators yet"
        emptyHint="Create one for each person, so that each action is recorded with a name."
      >
        <OperatorAction<{ data: { key: string } }>
          verb="Create"
          title="New operator"
          path="/operators"
          body={(read) => ({ name: read('name') })}
          onDone={(created) => setNewKey(created.data.key)}
        >
          <TextField label="Name" name="name" required maxLength={100} />
          <p className="hint">You must be signed in with ADMIN_API_KEY.</p>
        </OperatorAction>
      </Panel>
      <NewSecret title="Key of the new operator" secret={newKey} onClose={() => setNewKey(null)} />
    </>
  );
}

function Revoke({ operatorId, name }: Operator) {
  return (
    <OperatorAction
      verb="Revoke"
      title={`Revoke ${name}`}
      isDangerous
      path={`/operators/${operatorId}/revoke`}
    >
      <p>The key stops working immediately, and its sessions end. This cannot be undone.</p>
    </OperatorAction>
  );
}
