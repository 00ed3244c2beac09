/** The API keys of the user. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useWho } from '../../gateway/session.ts';
import { ShownOnce } from '../../parts/dialog.tsx';
import { Empty, Loading, Refusal } from '../../parts/states.tsx';
import { Ago, Credits, Moment } from '../../parts/values.tsx';
import { KeyActions } from './key-actions.tsx';
import { keysQuery, type Key } from './key-query.ts';
import { limitText } from './limit-fields.tsx';
import { NewKey } from './new-key.tsx';
import { Sessions } from './sessions.tsx';

/** Lists the API keys of the user. */
export default function Keys() {
  const who = useWho();
  const [isMaking, setMaking] = useState(false);
  const [shown, setShown] = useState<string | null>(null);
  const refusal = who.refuses('keys:write');
  return (
    <>
      <div className="head">
        <h1>API keys</h1>
        <button
          type="button"
          className="primary"
          disabled={refusal !== null}
          title={refusal ?? undefined}
          onClick={() => setMaking(true)}
        >
          New key
        </button>
      </div>
      {refusal && <p className="hint">{refusal}</p>}
      <div className="stack">
        <List show={setShown} />
        {who.refuses('keys:read') === null && <Sessions />}
      </div>
      {isMaking && <NewKey onClose={() => setMaking(false)} show={setShown} />}
      {shown !== null && (
        <ShownOnce title="Your new key" secret={shown} onClose={() => setShown(null)}>
          <p>Copy the key now. It is not shown again.</p>
        </ShownOnce>
      )}
    </>
  );
}

function List({ show }: { show: (key: string) => void }) {
  const refusal = useWho().refuses('keys:read');
  const { data, error } = useQuery({ ...keysQuery, enabled: refusal === null });
  if (refusal) return <Empty title="API keys">{refusal}</Empty>;
  if (error) return <Refusal error={error} />;
  if (!data) return <Loading />;
  return (
    <ul className="stack" aria-label="Keys">
      {data.keys.map((key) => (
        <li key={key.keyId} className="card key" data-key={key.keyId}>
          <OneKey of={key} show={show} />
        </li>
      ))}
    </ul>
  );
}

function OneKey({ of, show }: { of: Key; show: (key: string) => void }) {
  const { keyId, name, keyPrefix, scopes, allowedModels, lastUsedAt, expiresAt, createdAt } = of;
  const isOwn = useWho().keyId === keyId;
  return (
    <>
      <div className="head">
        <h2>{name}</h2>
        <code className="dim">{keyPrefix}…</code>
        {isOwn && <span className="tag">this session</span>}
        <KeyActions of={of} show={show} />
      </div>
      <dl className="facts">
        <dt>Scopes</dt>
        <dd>{scopes.join(', ')}</dd>
        <dt>Models</dt>
        <dd>{allowedModels?.join(', ') ?? 'All models'}</dd>
        <dt>Limit</dt>
        <dd>
          <LimitUse of={of} />
        </dd>
        <dt>Last used</dt>
        <dd>{lastUsedAt === null ? 'Never' : <Ago at={lastUsedAt} />}</dd>
        <dt>Expires</dt>
        <dd>{expiresAt === null ? 'Never' : <Moment at={expiresAt} />}</dd>
        <dt>Created</dt>
        <dd>
          <Moment at={createdAt} />
        </dd>
      </dl>
    </>
  );
}

function LimitUse({ of: { name, limit, budget } }: { of: Key }) {
  if (!budget) return 'None';
  const { used, remaining, per, limit: credits, resetsAt } = budget;
  return (
    <>
      {limitText({ credits, per })}
      {!limit && ' (of the key that created it)'}: <Credits amount={used} /> used,{' '}
      <Credits amount={remaining} /> left
      {resetsAt && (
        <>
          , resets <Ago at={resetsAt} />
        </>
      )}
      <meter
        aria-label={`Used of the limit of ${name}`}
        max={Math.max(credits, 1)}
        high={credits * 0.8}
        value={used}
      />
    </>
  );
}
