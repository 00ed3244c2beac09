/** Operators with their keys. Only ADMIN_API_KEY may create and revoke them. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { answered } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { ShownOnce } from '../../parts/dialog.tsx';
import type { TableRow } from '../../parts/table.tsx';
import { Ago, Moment, State } from '../../parts/values.tsx';
import { Panel } from './panel.tsx';
import { ReasonedAction } from './reasoned-action.tsx';

/** Lists the operators. */
export function Operators() {
  const [shown, setShown] = useState<string | null>(null);
  const { data, error } = useQuery({
    queryKey: ['operator', 'operators'],
    queryFn: () => answered(operatorApi.GET('/api/admin/v1/operators')),
  });
  return (
    <>
      <Panel
        title="Operators"
        columns={['Name', 'Key', 'State', 'Last used', 'Created', 'Actions']}
        rows={data?.data.map(rowOf)}
        error={error}
        none="No operators yet"
      >
        <NewOperator show={setShown} />
      </Panel>
      {shown !== null && (
        <ShownOnce title="Key of the new operator" secret={shown} onClose={() => setShown(null)}>
          <p>Copy the key now. It is not shown again.</p>
        </ShownOnce>
      )}
    </>
  );
}

function rowOf({
  operatorId,
  name,
  keyPrefix,
  lastUsedAt,
  createdAt,
  revokedAt,
}: OperatorSchemas['Operator']): TableRow {
  return {
    id: operatorId,
    attributes: { 'data-operator': operatorId },
    cells: [
      <strong key="name">{name}</strong>,
      <code key="key">{keyPrefix}…</code>,
      <State key="state" of={revokedAt === null ? 'active' : 'revoked'} />,
      lastUsedAt === null ? 'Never' : <Ago at={lastUsedAt} />,
      <Moment key="created" at={createdAt} />,
      revokedAt === null && <Revoke operatorId={operatorId} name={name} />,
    ],
  };
}

function NewOperator({ show }: { show: (key: string) => void }) {
  const [name, setName] = useState('');
  const create = async (reason: string): Promise<void> => {
    const body = { name, reason };
    const { data } = await answered(operatorApi.POST('/api/admin/v1/operators', { body }));
    setName('');
    show(data.key);
  };
  return (
    <ReasonedAction verb="Create" title="New operator" act={create}>
      <label>
        Name
        <input
          required
          maxLength={100}
          value={name}
          onChange={({ target }) => setName(target.value)}
        />
      </label>
      <p className="hint">Requires a session with ADMIN_API_KEY.</p>
    </ReasonedAction>
  );
}

function Revoke({ operatorId, name }: { operatorId: string; name: string }) {
  const params = { path: { operatorId } };
  return (
    <ReasonedAction
      verb="Revoke"
      title={`Revoke ${name}`}
      isDangerous
      act={(reason) =>
        answered(
          operatorApi.POST('/api/admin/v1/operators/{operatorId}/revoke', {
            params,
            body: { reason },
          }),
        )
      }
    >
      <p>The key is rejected immediately, and its sessions end. This cannot be undone.</p>
    </ReasonedAction>
  );
}
