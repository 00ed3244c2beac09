/** Console sessions that were started with the user's keys. */
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query';
import { unwrap, api, type Schemas } from '../../gateway/client.ts';
import { endSession, sessionQuery, useSessionKey } from '../../gateway/session.ts';
import { ConfirmButton } from '../../parts/dialog.tsx';
import { IdTail } from '../../parts/ids.tsx';
import { Panel } from '../../parts/panel.tsx';
import type { Column } from '../../parts/table.tsx';
import { Ago, Moment } from '../../parts/times.tsx';
import { keysQuery } from './key-query.ts';

type Session = Schemas['ListSessionsAnswer']['sessions'][number];

const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: () => unwrap(api.GET('/api/v1/sessions')),
});

const columns: Column<Session>[] = [
  { title: 'Key', cell: (session) => <KeyName session={session} /> },
  { title: 'Signed in', cell: ({ createdAt }) => <Ago at={createdAt} /> },
  { title: 'Expires', cell: ({ expiresAt }) => <Moment at={expiresAt} /> },
  { title: 'Action', cell: (session) => <EndButton session={session} /> },
];

/** Lists the sessions, newest first. */
export function Sessions() {
  const { data, error } = useQuery(sessionsQuery);
  return (
    <Panel
      title="Sessions"
      columns={columns}
      items={data?.sessions}
      rowId={({ sessionId }) => sessionId}
      error={error}
      empty="No sessions"
    >
      <p className="hint">Browsers signed in to this console with one of your keys.</p>
    </Panel>
  );
}

function useIsOwn({ sessionId }: Session): boolean {
  return useQuery(sessionQuery).data?.session?.sessionId === sessionId;
}

function KeyName({ session }: { session: Session }) {
  const { data: keys } = useQuery(keysQuery);
  const name = keys?.keys.find(({ keyId }) => keyId === session.keyId)?.name;
  return (
    <>
      {name ?? <IdTail id={session.keyId} />}{' '}
      {useIsOwn(session) && <span className="tag">this session</span>}
    </>
  );
}

function EndButton({ session }: { session: Session }) {
  const client = useQueryClient();
  const disabledReason = useSessionKey().explainDenial('keys:write');
  const isOwn = useIsOwn(session);
  const params = { path: { sessionId: session.sessionId } };
  const end = () => unwrap(api.DELETE('/api/v1/sessions/{sessionId}', { params }));
  const act = async (): Promise<void> => {
    if (isOwn) return endSession(client, 'You ended your session.', end);
    await end();
    await client.invalidateQueries({ queryKey: sessionsQuery.queryKey });
  };
  return (
    <ConfirmButton
      label="End"
      title="End this session"
      verb={isOwn ? 'End and sign out' : 'End session'}
      isDangerous
      act={act}
      disabledReason={disabledReason}
    >
      <p>
        {isOwn
          ? 'You will be signed out in this browser.'
          : 'The other browser will be signed out at its next request. The key stays valid.'}
      </p>
    </ConfirmButton>
  );
}
