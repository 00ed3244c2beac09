/** Users of an organization, with their API keys. */
import { useQuery } from '@tanstack/react-query';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { Panel } from '../../parts/panel.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { LimitFields, readLimits } from '../keys/limit-fields.tsx';
import { Spending } from '../keys/spending.tsx';
import { OperatorAction } from './operator-action.tsx';

const columns: Column<OperatorSchemas['User']>[] = [
  { title: 'User', cell: ({ name }) => <strong>{name}</strong> },
  { title: 'Role', cell: ({ role }) => role },
  { title: 'Keys', cell: ({ userId }) => <UserKeys userId={userId} /> },
  { title: 'Created', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
];

/** Shows the users of an organization with their API keys. */
export function Users({ organizationId }: { organizationId: string }) {
  const params = { path: { organizationId } };
  const { data, error } = useQuery({
    queryKey: ['operator', 'users', organizationId],
    queryFn: () =>
      unwrap(operatorApi.GET('/api/admin/v1/organizations/{organizationId}/users', { params })),
  });
  return (
    <Panel
      title="Users and keys"
      columns={columns}
      items={data?.data}
      rowId={({ userId }) => userId}
      error={error}
      empty="No users yet"
    />
  );
}

function UserKeys({ userId }: { userId: string }) {
  const { data } = useQuery({
    queryKey: ['operator', 'keys', userId],
    queryFn: () =>
      unwrap(
        operatorApi.GET('/api/admin/v1/users/{userId}/keys', { params: { path: { userId } } }),
      ),
  });
  return (
    <ul className="stack">
      {data?.data.map((key) => (
        <li key={key.keyId} className="row">
          {key.name} <code className="dim">{key.keyPrefix}…</code>
          <span className="dim">
            <Spending apiKey={key} /> · {key.rateLimit ?? 'default'} requests a minute ·{' '}
            {key.jobsMax ?? 'unlimited'} open jobs · used{' '}
            {key.lastUsedAt === null ? 'never' : <RelativeTime time={key.lastUsedAt} />}
          </span>
          <OperatorAction
            verb="Save"
            label="Limits"
            title={`Limits of “${key.name}”`}
            method="PUT"
            path={`/keys/${key.keyId}/limit`}
            body={readLimits}
          >
            <LimitFields limits={key} />
          </OperatorAction>
          <OperatorAction
            verb="Revoke"
            title={`Revoke “${key.name}”`}
            isDangerous
            path={`/keys/${key.keyId}/revoke`}
          >
            <p>Requests with the key are rejected immediately. Running jobs continue.</p>
          </OperatorAction>
        </li>
      ))}
    </ul>
  );
}
