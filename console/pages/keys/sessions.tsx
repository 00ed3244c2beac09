/** Sessions of the console that belong to the user's keys, and their end. */
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { answered, api, type Schemas } from '../../gateway/client.ts';
import { endSession, sessionQuery, useWho } from '../../gateway/session.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Loading, Refusal } from '../../parts/states.tsx';
import { Ago, Moment } from '../../parts/values.tsx';
import { keysQuery } from './key-query.ts';

type Session = Schemas['ListSessionsAnswer']['sessions'][number];

const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: () => answered(api.GET('/api/v1/sessions')),
});

/** Lists the sessions, newest first. */
export function Sessions() {
  const { data, error } = useQuery(sessionsQuery);
  if (error) return <Refusal error={error} />;
  if (!data) return <Loading />;
  return (
    <section>
      <h2>Sessions</h2>
      <p className="hint">Browsers that are signed in to this console with one of your keys.</p>
      <table>
        <thead>
          <tr>
            <th>Key</th>
            <th>Signed in</th>
            <th>Expires</th>
            <th aria-label="Actions" />
          </tr>
        </thead>
        <tbody>
          {data.sessions.map((session) => (
            <OneSession key={session.sessionId} of={session} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function OneSession({ of: { sessionId, keyId, createdAt, expiresAt } }: { of: Session }) {
  const refusal = useWho().refuses('keys:write');
  const { data: keys } = useQuery(keysQuery);
  const { data: current } = useQuery(sessionQuery);
  const [isEnding, setEnding] = useState(false);
  const name = keys?.keys.find((key) => key.keyId === keyId)?.name ?? keyId;
  const isOwn = current?.session?.sessionId === sessionId;
  return (
    <tr data-session={sessionId}>
      <td>
        {name} {isOwn && <span className="tag">this session</span>}
      </td>
      <td>
        <Ago at={createdAt} />
      </td>
      <td>
        <Moment at={expiresAt} />
      </td>
      <td>
        <button
          type="button"
          className="danger"
          disabled={refusal !== null}
          title={refusal ?? undefined}
          onClick={() => setEnding(true)}
        >
          End
        </button>
        {isEnding && <End sessionId={sessionId} isOwn={isOwn} onClose={() => setEnding(false)} />}
      </td>
    </tr>
  );
}

interface EndProps {
  sessionId: string;
  isOwn: boolean;
  onClose: () => void;
}

function End({ sessionId, isOwn, onClose }: EndProps) {
  const client = useQueryClient();
  const end = () =>
    answered(api.DELETE('/api/v1/sessions/{sessionId}', { params: { path: { sessionId } } }));
  const act = async (): Promise<void> => {
    if (isOwn) return endSession(client, 'You ended your session.', end);
    await end();
    await client.invalidateQueries({ queryKey: sessionsQuery.queryKey });
  };
  return (
    <Ask
      title="End this session"
      verb={isOwn ? 'End it and sign out' : 'End it'}
      isDangerous
      act={act}
      onClose={onClose}
    >
      <p>
        {isOwn
          ? 'You will be signed out of this browser.'
          : 'Its browser is signed out with its next request. The key stays valid.'}
      </p>
    </Ask>
  );
}
