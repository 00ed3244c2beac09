/** Page of the user's API keys and sessions. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useSessionKey } from '../../gateway/session.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { Credits } from '../../parts/amounts.tsx';
import { NewSecret } from '../../parts/dialog.tsx';
import { DescriptionList } from '../../parts/description-list.tsx';
import { Empty, ErrorMessage, Loading } from '../../parts/states.tsx';
import { RelativeTime, DateTime } from '../../parts/times.tsx';
import { KeyActions } from './key-actions.tsx';
import { keysQuery, type Key } from './key-query.ts';
import { formatLimit } from './limit-fields.tsx';
import { NewKey } from './new-key.tsx';
import { Sessions } from './sessions.tsx';

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
        <KeyList showNewKey={setNewKey} />
        {sessionKey.explainDenial('keys:read') === null && <Sessions />}
      </div>
      {isCreating && <NewKey onClose={() => setCreating(false)} showNewKey={setNewKey} />}
      <NewSecret title="Your new key" secret={newKey} onClose={() => setNewKey(null)} />
    </>
  );
}

interface KeyListProps {
  showNewKey: (key: string) => void;
}

function KeyList({ showNewKey }: KeyListProps) {
  const denial = useSessionKey().explainDenial('keys:read');
  const { data, error } = useQuery({ ...keysQuery, enabled: denial === null });
  if (denial) return <Empty title="API keys">{denial}</Empty>;
  if (error) return <ErrorMessage error={error} />;
  if (!data) return <Loading />;
  return (
    <ul className="stack" aria-label="Keys">
      {data.keys.map((key) => (
        <li key={key.keyId} className="card key">
          <KeyDetails apiKey={key} showNewKey={showNewKey} />
        </li>
      ))}
    </ul>
  );
}

function KeyDetails({ apiKey, showNewKey }: KeyListProps & { apiKey: Key }) {
  const { keyId, name, keyPrefix, scopes, allowedModels } = apiKey;
  const { lastUsedAt, expiresAt, createdAt } = apiKey;
  return (
    <>
      <div className="head">
        <h2>{name}</h2>
        <code className="dim">{keyPrefix}…</code>
        {useSessionKey().keyId === keyId && <span className="tag">this session</span>}
        <KeyActions apiKey={apiKey} showNewKey={showNewKey} />
      </div>
      <DescriptionList
        items={{
          Scopes: scopes.join(', '),
          Models: allowedModels?.join(', ') ?? 'All models',
          Limit: <LimitUsage apiKey={apiKey} />,
          'Last used': lastUsedAt === null ? 'Never' : <RelativeTime time={lastUsedAt} />,
          Expires: expiresAt === null ? 'Never' : <DateTime time={expiresAt} />,
          Created: <DateTime time={createdAt} />,
        }}
      />
    </>
  );
}

function LimitUsage({ apiKey: { name, limit, budget } }: { apiKey: Key }) {
  if (!budget) return 'None';
  const { used, remaining, per, limit: credits, resetsAt } = budget;
  return (
    <>
      {formatLimit({ credits, per })}
      {!limit && ' (shared with the key that created it)'}: <Credits amount={used} /> used,{' '}
      <Credits amount={remaining} /> remaining
      {resetsAt && (
        <>
          , resets <RelativeTime time={resetsAt} />
        </>
      )}
      <meter
        aria-label={`Credits used of the limit of ${name}`}
        max={Math.max(credits, 1)}
        high={credits * 0.8}
        value={used}
      />
    </>
  );
}
