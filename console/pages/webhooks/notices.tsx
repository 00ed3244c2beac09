/** Where one is told of a low balance and of key limits, and what was told. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { answered, api, type Schemas } from '../../gateway/client.ts';
import { Loading, Refusal } from '../../parts/states.tsx';
import { Ago, State } from '../../parts/values.tsx';

type Told = Schemas['GetNoticesAnswer'];
const queryKey = ['usage', 'notices'];

const titles: Record<Told['notices'][number]['type'], string> = {
  'account.balance.low': 'The balance was low',
  'key.limit.near': '80 % of a key’s limit was used',
  'key.limit.reached': 'The limit of a key was reached',
};

/** `refusal`: why they may not be seen; null: they may. */
export function Notices({ refusal }: { refusal: string | null }) {
  const { data, error } = useQuery({
    queryKey,
    queryFn: () => answered(api.GET('/api/v1/webhooks/notices')),
    enabled: refusal === null,
  });
  return (
    <section className="card stack">
      <h2>Notices</h2>
      <p className="dim">
        Receive a webhook when the balance is low, and when 80 % and 100 % of a key’s limit is used.
      </p>
      {refusal && <p className="hint">{refusal}</p>}
      <Refusal error={error} />
      {!data && !error && !refusal && <Loading />}
      {data && <Target told={data} />}
      {data && data.notices.length > 0 && <Newest notices={data.notices} />}
    </section>
  );
}

function Target({ told }: { told: Told }) {
  const client = useQueryClient();
  const [url, setUrl] = useState(told.url ?? '');
  const [low, setLow] = useState(told.lowBalanceCredits?.toString() ?? '');
  const save = useMutation({
    mutationFn: () => {
      const body = { url: url || null, lowBalanceCredits: low === '' ? null : Number(low) };
      return answered(api.PUT('/api/v1/webhooks/notices', { body }));
    },
    onSuccess: (now) => client.setQueryData(queryKey, now),
  });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <label>
        <span>
          URL <span className="hint">https; empty: nobody is told</span>
        </span>
        <input
          type="url"
          maxLength={2048}
          placeholder="https://shop.example/hooks/credits"
          value={url}
          onChange={({ target }) => setUrl(target.value)}
        />
      </label>
      <label>
        <span>
          Low is, in credits <span className="hint">empty: no balance is low</span>
        </span>
        <input
          type="number"
          min={0}
          max={1_000_000_000}
          step="any"
          value={low}
          onChange={({ target }) => setLow(target.value)}
        />
      </label>
      <Refusal error={save.error} />
      <div className="row">
        <button type="submit" disabled={save.isPending}>
          {save.isPending ? 'Saving…' : 'Save'}
        </button>
        <span role="status" className="dim">
          {save.isSuccess ? 'Saved.' : ''}
        </span>
      </div>
    </form>
  );
}

function Newest({ notices }: Pick<Told, 'notices'>) {
  return (
    <>
      <h3>Notice</h3>
      <ul className="stack">
        {notices.map(({ type, createdAt, state, lastStatus, lastError }) => (
          <li key={type + createdAt}>
            {titles[type]}{' '}
            <span className="dim">
              <Ago at={createdAt} />
            </span>{' '}
            <State of={state} /> <span className="dim">{lastStatus ?? lastError}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
