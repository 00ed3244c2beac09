/** Webhooks: deliveries, the secret that signs them, and notices. */
import { useState } from 'react';
import { useWho } from '../../gateway/session.ts';
import { Empty } from '../../parts/states.tsx';
import { DeliveryList } from './deliveries.tsx';
import { Notices } from './notices.tsx';
import { SigningSecret } from './signing-secret.tsx';
import { TestWebhook } from './test-webhook.tsx';

const filters = [
  ['', 'All'],
  ['failing', 'last attempt failed'],
  ['waiting', 'waiting'],
  ['delivering', 'delivering'],
  ['delivered', 'delivered'],
  ['gone', 'gone (410)'],
  ['failed', 'failed, no more attempts'],
] as const;

/** State by which deliveries are filtered; empty: all. */
export type DeliveryFilter = (typeof filters)[number][0];

/** Shows the settings and deliveries of webhooks. */
export default function Webhooks() {
  const who = useWho();
  const reading = who.refuses('studio:read');
  const secrets = who.refuses('keys:write') && refusalOfSecrets(who);
  return (
    <>
      <div className="head">
        <h1>Webhooks</h1>
      </div>
      <div className="stack">
        {reading ? <Empty title="Deliveries">{reading}</Empty> : <Deliveries />}
        <div className="halves">
          <SigningSecret refusal={secrets} />
          <TestWebhook refusal={secrets} />
          <Notices refusal={secrets} />
        </div>
      </div>
    </>
  );
}

function refusalOfSecrets({ role, refuses }: ReturnType<typeof useWho>): string | null {
  return role === 'viewer'
    ? 'A viewer may not see or change the secret and the notices.'
    : refuses('keys:write');
}

function Deliveries() {
  const [filter, setFilter] = useState<DeliveryFilter>('');
  return (
    <section className="card stack">
      <div className="head">
        <h2>Deliveries</h2>
        <label className="check">
          State
          <select
            value={filter}
            onChange={({ target }) =>
              setFilter(filters.find(([id]) => id === target.value)?.[0] ?? '')
            }
          >
            {filters.map(([id, text]) => (
              <option key={id} value={id}>
                {text}
              </option>
            ))}
          </select>
        </label>
      </div>
      <DeliveryList filter={filter} />
    </section>
  );
}
