/** Sessions of the console that belong to the user's keys. */
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { answered, api, type Schemas } from '../../gateway/client.ts';
import { endSession, sessionQuery, useWho } from '../../gateway/session.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Loading, Refusal } from '../../parts/states.tsx';
import { Table } from '../../parts/table.tsx';
import { Ago, Moment, Tail } from '../../parts/values.tsx';
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
    <section className="card stack">
      <h2>Sessions</h2>
      <p className="hint">Browsers that are signed in to this console with one of your keys.</p>
      <Table
        label="Sessions"
        columns={['Key', 'Signed in', 'Expires', 'Action']}
        rows={data.sessions.map((session) => ({
          id: session.sessionId,
          attributes: { 'data-session': session.sessionId },
          cells: [
            <KeyOf key="key" session={session} />,
            <Ago key="created" at={session.createdAt} />,
            <Moment key="expires" at={session.expiresAt} />,
            <EndButton key="end" session={session} />,
          ],
        }))}
      />
    </section>
  );
}

function useIsOwn({ sessionId }: Session): boolean {
  return useQuery(sessionQuery).data?.session?.sessionId === sessionId;
}

function KeyOf({ session }: { session: Session }) {
  const { data: keys } = useQuery(keysQuery);
  const name = keys?.keys.find(({ keyId }) => keyId === session.keyId)?.name;
  return (
    <>
      {name ?? <Tail of={session.keyId} />}{' '}
      {useIsOwn(session) && <span className="tag">this session</span>}
    </>
  );
}

function EndButton({ session }: { session: Session }) {
  const refusal = useWho().refuses('keys:write');
  const isOwn = useIsOwn(session);
  const [isEnding, setEnding] = useState(false);
  return (
    <>
      <button
        type="button"
        className="danger"
        disabled={refusal !== null}
        title={refusal ?? undefined}
        onClick={() => setEnding(true)}
      >
        End
      </button>
      {isEnding && (
        <End sessionId={session.sessionId} isOwn={isOwn} onClose={() => setEnding(false)} />
      )}
    </>
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
      verb={isOwn ? 'End and sign out' : 'End session'}
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
