/** The URL for account notices about a low balance and key limits, and the latest notices. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { answered, api, type Schemas } from '../../gateway/client.ts';
import { Loading, Refusal } from '../../parts/states.tsx';
import { Ago, State } from '../../parts/values.tsx';

type Settings = Schemas['GetNoticesAnswer'];
const queryKey = ['usage', 'notices'];

const titles: Record<Settings['notices'][number]['type'], string> = {
  'account.balance.low': 'Low balance',
  'key.limit.near': '80 % of a key limit used',
  'key.limit.reached': 'Key limit reached',
};

/** Shows the notices; `refusal` is the reason why the user may not see them, or null. */
export function Notices({ refusal }: { refusal: string | null }) {
  const { data, error } = useQuery({
    queryKey,
    queryFn: () => answered(api.GET('/api/v1/webhooks/notices')),
    enabled: refusal === null,
  });
  return (
    <section className="card stack">
      <h2>Account notices</h2>
      <p className="dim">
        Receive a webhook when the balance is low, and when 80 % and 100 % of a key’s limit is used.
      </p>
      {refusal && <p className="hint">{refusal}</p>}
      <Refusal error={error} />
      {!data && !error && !refusal && <Loading />}
      {data && <Target settings={data} />}
      {data && data.notices.length > 0 && <Newest notices={data.notices} />}
    </section>
  );
}

function Target({ settings }: { settings: Settings }) {
  const client = useQueryClient();
  const [url, setUrl] = useState(settings.url ?? '');
  const [low, setLow] = useState(settings.lowBalanceCredits?.toString() ?? '');
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
          URL <span className="hint">https; empty: no notices</span>
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
          Alert below <span className="hint">credits; empty: no notices of the balance</span>
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

function Newest({ notices }: Pick<Settings, 'notices'>) {
  return (
    <>
      <h3>Latest notices</h3>
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
