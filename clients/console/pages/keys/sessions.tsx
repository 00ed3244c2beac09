/** Console sessions that were started with the user's keys. */
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query';
import { unwrap, api, type Schemas } from '../../gateway/client.ts';
import { endSession, sessionQuery, useSessionKey } from '../../gateway/session.ts';
import { ConfirmButton } from '../../parts/dialog.tsx';
import { IdTail } from '../../parts/ids.tsx';
import { Panel } from '../../parts/panel.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { keysQuery } from './key-query.ts';

type Session = Schemas['ListSessionsAnswer']['sessions'][number];

const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: () => unwrap(api.GET('/api/v1/sessions')),
});

const columns: Column<Session>[] = [
  { title: 'Key', cell: (session) => <KeyName session={session} /> },
  { title: 'Browser', cell: ({ userAgent }) => <Browser userAgent={userAgent ?? ''} /> },
  { title: 'Address', cell: ({ address }) => address ?? '–' },
  { title: 'Signed in', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
  { title: 'Expires', cell: ({ expiresAt }) => <RelativeTime time={expiresAt} /> },
  { title: 'Action', cell: (session) => <EndButton session={session} /> },
];

/** Shows the user's console sessions, newest first. */
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

const browsers = { 'Edg/': 'Edge', Firefox: 'Firefox', Chrome: 'Chrome', Safari: 'Safari' };
const systems = {
  Windows: 'Windows',
  Android: 'Android',
  iPhone: 'iPhone',
  iPad: 'iPad',
  'Mac OS': 'macOS',
  Linux: 'Linux',
};

/** Shows the browser of a session, e.g. `Firefox on Windows`. The tooltip is the whole header. */
function Browser({ userAgent }: { userAgent: string }) {
  const find = (names: Record<string, string>) =>
    Object.entries(names).find(([part]) => userAgent.includes(part))?.[1];
  const system = find(systems);
  const name = find(browsers) ?? (userAgent.split('/')[0] || '–');
  return <span title={userAgent}>{system ? `${name} on ${system}` : name}</span>;
}

function useIsOwnSession({ sessionId }: Session): boolean {
  return useQuery(sessionQuery).data?.session?.sessionId === sessionId;
}

function KeyName({ session }: { session: Session }) {
  const { data: keys } = useQuery(keysQuery);
  const name = keys?.keys.find(({ keyId }) => keyId === session.keyId)?.name;
  return (
    <>
      {name ?? <IdTail id={session.keyId} />}{' '}
      {useIsOwnSession(session) && <span className="tag">this session</span>}
    </>
  );
}

function EndButton({ session }: { session: Session }) {
  const client = useQueryClient();
  const disabledReason = useSessionKey().explainDenial('keys:write');
  const isOwnSession = useIsOwnSession(session);
  const params = { path: { sessionId: session.sessionId } };
  const requestEnd = () => unwrap(api.DELETE('/api/v1/sessions/{sessionId}', { params }));
  const perform = async (): Promise<void> => {
    if (isOwnSession) return endSession(client, 'You ended your session.', requestEnd);
    await requestEnd();
    await client.invalidateQueries({ queryKey: sessionsQuery.queryKey });
  };
  return (
    <ConfirmButton
      label="End"
      title={`End ${isOwnSession ? 'this session' : `the session of ${new Date(session.createdAt).toLocaleString()}`}`}
      verb={isOwnSession ? 'End and sign out' : 'End session'}
      done="Session ended"
      isDangerous
      perform={perform}
      disabledReason={disabledReason}
    >
      <p>
        {isOwnSession
          ? 'You will be signed out in this browser.'
          : 'The other browser will be signed out at its next request. The key stays valid.'}
      </p>
    </ConfirmButton>
  );
}
