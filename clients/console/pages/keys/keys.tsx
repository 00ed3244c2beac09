/** Page of the user's API keys and sessions. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, unwrap } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { formatAmount } from '../../parts/amounts.tsx';
import { NewSecret } from '../../parts/dialog.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Empty } from '../../parts/states.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { calculatePeriodStart } from '../usage/usage-sums.ts';
import { KeyActions } from './key-actions.tsx';
import { keysQuery, type Key } from './key-query.ts';
import { NewKey } from './new-key.tsx';
import { Sessions } from './sessions.tsx';
import { Spending } from './spending.tsx';

/** Shows the API keys page. */
export default function Keys() {
  const sessionKey = useSessionKey();
  const [isCreating, setCreating] = useState(false);
  const [newKey, setNewKey] = useState<string | null>(null);
  const denial = sessionKey.explainDenial('keys:write');
  return (
    <>
      <div className="head">
        <h1>API keys</h1>
        <ActionButton className="primary" disabledReason={denial} onClick={() => setCreating(true)}>
          New key
        </ActionButton>
      </div>
      {denial && <p className="hint">{denial}</p>}
      <div className="stack">
        <KeyTable showNewKey={setNewKey} />
        {sessionKey.explainDenial('keys:read') === null && <Sessions />}
      </div>
      {isCreating && <NewKey onClose={() => setCreating(false)} showNewKey={setNewKey} />}
      <NewSecret title="Your new key" secret={newKey} onClose={() => setNewKey(null)} />
    </>
  );
}

const listColumns = (showNewKey: (key: string) => void): Column<Key>[] => [
  { title: 'Name', sortValue: ({ name }) => name, cell: (key) => <KeyName apiKey={key} /> },
  {
    title: 'Spend',
    sortValue: ({ budget }) => budget?.used ?? 0,
    cell: (key) => (key.budget ? <Spending apiKey={key} /> : <RecentSpend {...key} />),
  },
  { title: 'Requests a minute', isNumber: true, cell: ({ rateLimit }) => rateLimit ?? 'Default' },
  { title: 'Open jobs', isNumber: true, cell: ({ jobsMax }) => jobsMax ?? 'No limit' },
  {
    title: 'Last used',
    sortValue: ({ lastUsedAt }) => lastUsedAt ?? 0,
    cell: ({ lastUsedAt }) => (lastUsedAt === null ? 'Never' : <RelativeTime time={lastUsedAt} />),
  },
  {
    title: 'Expires',
    cell: ({ expiresAt }) => (expiresAt === null ? 'Never' : <RelativeTime time={expiresAt} />),
  },
  { title: 'Action', cell: (key) => <KeyActions apiKey={key} showNewKey={showNewKey} /> },
];

function KeyTable({ showNewKey }: { showNewKey: (key: string) => void }) {
  const denial = useSessionKey().explainDenial('keys:read');
  const { data, error } = useQuery({ ...keysQuery, enabled: denial === null });
  if (denial) return <Empty title="API keys">{denial}</Empty>;
  return (
    <Panel
      title="Keys"
      columns={listColumns(showNewKey)}
      items={data?.keys}
      rowId={({ keyId }) => keyId}
      error={error}
      empty="No keys yet"
      emptyHint="Create one for each program, with the scopes, models and limit that it needs."
    />
  );
}

/** Shows what a key without a credit limit has spent in 30 days. */
function RecentSpend({ keyId }: Key) {
  const query = { groupBy: 'key', after: calculatePeriodStart(30) };
  const { data } = useQuery({
    queryKey: ['usage', 'summary', query],
    queryFn: () => unwrap(api.GET('/api/v1/usage/summary', { params: { query } })),
    enabled: useSessionKey().explainDenial('usage:read') === null,
  });
  const spent = data?.rows.find((row) => row.keyId === keyId)?.credits ?? 0;
  return (
    <>
      {data && `${formatAmount(spent)} in 30 days`}
      <span className="hint block">No credit limit</span>
    </>
  );
}

function KeyName({ apiKey: { keyId, name, keyPrefix, scopes, allowedModels } }: { apiKey: Key }) {
  return (
    <>
      <strong>{name}</strong>{' '}
      {useSessionKey().keyId === keyId && <span className="tag">this session</span>}
      <code className="dim block">{keyPrefix}…</code>
      <details>
        <summary className="hint">
          {scopes.length} scopes, {allowedModels ? `${allowedModels.length} models` : 'all models'}
        </summary>
        {[...scopes, ...(allowedModels ?? [])].join(', ')}
      </details>
    </>
  );
}
