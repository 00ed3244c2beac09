/** The users of an organization with their API keys. */
import { useQuery } from '@tanstack/react-query';
import { answered } from '../../gateway/client.ts';
import { operatorApi } from '../../gateway/operator.ts';
import { Ago, Moment } from '../../parts/values.tsx';
import { Panel } from './panel.tsx';
import { ReasonedAction } from './reasoned-action.tsx';

/** Lists the users, and below them the keys of each. */
export function Users({ id: organizationId }: { id: string }) {
  const params = { path: { organizationId } };
  const { data, error } = useQuery({
    queryKey: ['operator', 'users', organizationId],
    queryFn: () =>
      answered(operatorApi.GET('/api/admin/v1/organizations/{organizationId}/users', { params })),
  });
  return (
    <Panel
      title="Users and keys"
      columns={['User', 'Role', 'Keys', 'Created']}
      rows={data?.data.map(({ userId, name, role, createdAt }) => ({
        id: userId,
        cells: [
          <strong key="name">{name}</strong>,
          role,
          <Keys key="keys" userId={userId} />,
          <Moment key="created" at={createdAt} />,
        ],
      }))}
      error={error}
      none="No users yet"
    />
  );
}

function Keys({ userId }: { userId: string }) {
  const { data } = useQuery({
    queryKey: ['operator', 'keys', userId],
    queryFn: () =>
      answered(
        operatorApi.GET('/api/admin/v1/users/{userId}/keys', { params: { path: { userId } } }),
      ),
  });
  return (
    <ul className="stack">
      {data?.data.map(({ keyId, name, keyPrefix, lastUsedAt }) => (
        <li key={keyId} className="row" data-key={keyId}>
          {name} <code className="dim">{keyPrefix}…</code>
          <span className="dim">
            {lastUsedAt === null ? (
              'never used'
            ) : (
              <>
                used <Ago at={lastUsedAt} />
              </>
            )}
          </span>
          <RevokeKey keyId={keyId} name={name} />
        </li>
      ))}
    </ul>
  );
}

function RevokeKey({ keyId, name }: { keyId: string; name: string }) {
  const params = { path: { keyId } };
  return (
    <ReasonedAction
      verb="Revoke"
      title={`Revoke “${name}”`}
      isDangerous
      act={(reason) =>
        answered(
          operatorApi.POST('/api/admin/v1/keys/{keyId}/revoke', { params, body: { reason } }),
        )
      }
    >
      <p>Requests with the key are rejected immediately. Its running jobs continue.</p>
    </ReasonedAction>
  );
}
