/** Settings of account notices (low balance, key limits), and the latest notices. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { unwrap, api, type Schemas } from '../../gateway/client.ts';
import { TextField } from '../../parts/fields.tsx';
import { State } from '../../parts/state.tsx';
import { ErrorMessage, Loading } from '../../parts/states.tsx';
import { showToast } from '../../parts/toast.tsx';
import { RelativeTime } from '../../parts/times.tsx';

type Settings = Schemas['GetNoticesAnswer'];
const queryKey = ['usage', 'notices'];

const titles: Record<Settings['notices'][number]['type'], string> = {
  'account.balance.low': 'Low balance',
  'key.limit.near': '80% of a key limit used',
  'key.limit.reached': 'Key limit reached',
  'end_user.limit.near': '80% of an end user’s limit used',
  'end_user.limit.reached': 'Limit of an end user reached',
};

/** Shows the account notices. `denial` is the reason why the user may not see them, or null. */
export function Notices({ denial }: { denial: string | null }) {
  const { data, error } = useQuery({
    queryKey,
    queryFn: () => unwrap(api.GET('/api/v1/webhooks/notices')),
    enabled: denial === null,
  });
  return (
    <section className="card stack">
      <h2>Account notices</h2>
      <p className="dim">
        A webhook is sent when the balance is low, and when 80% or 100% of a key’s limit is used.
      </p>
      {denial && <p className="hint">{denial}</p>}
      <ErrorMessage error={error} />
      {!data && !error && !denial && <Loading />}
      {data && <NoticeSettings settings={data} />}
      {data && data.notices.length > 0 && <LatestNotices notices={data.notices} />}
    </section>
  );
}

function NoticeSettings({ settings }: { settings: Settings }) {
  const client = useQueryClient();
  const [url, setUrl] = useState(settings.url ?? '');
  const [credits, setCredits] = useState(settings.lowBalanceCredits?.toString() ?? '');
  const save = useMutation({
    mutationFn: () => {
      const body = { url: url || null, lowBalanceCredits: credits === '' ? null : Number(credits) };
      return unwrap(api.PUT('/api/v1/webhooks/notices', { body }));
    },
    onSuccess: (saved) => {
      client.setQueryData(queryKey, saved);
      showToast('Saved.');
    },
  });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <TextField
        label="URL"
        hint="https; leave empty to notify endpoints"
        type="url"
        maxLength={2048}
        placeholder="https://shop.example/hooks/credits"
        value={url}
        change={setUrl}
      />
      <TextField
        label="Notify when the balance is below"
        hint="credits; leave empty for no balance notices"
        type="number"
        min={0}
        max={1_000_000_000}
        step="any"
        value={credits}
        change={setCredits}
      />
      <ErrorMessage error={save.error} />
      <div className="row">
        <button type="submit" disabled={save.isPending}>
          {save.isPending ? 'Saving…' : 'Save'}
        </button>
      </div>
    </form>
  );
}

function LatestNotices({ notices }: Pick<Settings, 'notices'>) {
  return (
    <>
      <h3>Latest notices</h3>
      <ul className="stack">
        {notices.map(({ type, createdAt, state, lastStatus, lastError }) => (
          <li key={type + createdAt}>
            {titles[type]}{' '}
            <span className="dim">
              <RelativeTime time={createdAt} />
            </span>{' '}
            <State name={state} /> <span className="dim">{lastStatus ?? lastError}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
