/** Reads the console session with its API key and its operator, and ends the session. */
import {
  queryOptions,
  useMutation,
  useQuery,
  useQueryClient,
  useSuspenseQuery,
  type QueryClient,
} from '@tanstack/react-query';
import { unwrap, api, requestJson, type Schemas } from './client.ts';

const readSession = () => unwrap(api.GET('/api/v1/session'));

/** Query for the session: whether a caller and an operator are signed in. */
export const sessionQuery = queryOptions({ queryKey: ['session'], queryFn: readSession });

/** Query for the session's API key. Removes what this tab has stored for another organization. */
export const keyQuery = queryOptions({
  queryKey: ['key'],
  async queryFn() {
    const key = await unwrap(api.GET('/api/v1/key'));
    const { organizationId } = key;
    if (sessionStorage.getItem('organization') !== organizationId) sessionStorage.clear();
    sessionStorage.setItem('organization', organizationId);
    return key;
  },
});

/** Query for the balance in the page header. It is reloaded together with all usage data. */
export const balanceQuery = queryOptions({
  queryKey: ['usage', 'balance'],
  queryFn: () => unwrap(api.GET('/api/v1/usage', { params: { query: { limit: 1 } } })),
});

type Scope = Schemas['GetKeyAnswer']['scopes'][number];

/** The session's API key, with its permissions. */
export type SessionKey = Schemas['GetKeyAnswer'] & {
  /** Returns the reason why the key may not use a scope, or null if it may use the scope. */
  explainDenial: (scope: Scope) => string | null;
};

/** Returns the session's API key. Suspends while it is loading. */
export const useSessionKey = (): SessionKey => toSessionKey(useSuspenseQuery(keyQuery).data);

/** Returns the session's API key; undefined without a session, and while it is loading. */
export function useLoadedSessionKey(enabled: boolean): SessionKey | undefined {
  const { data } = useQuery({ ...keyQuery, enabled, throwOnError: true });
  return enabled && data ? toSessionKey(data) : undefined;
}

const toSessionKey = (key: Schemas['GetKeyAnswer']): SessionKey => ({
  ...key,
  explainDenial: (scope) => explainDenial(key, scope),
});

const spendingScopes: readonly Scope[] = ['chat', 'studio:image', 'studio:video', 'studio:audio'];

function explainDenial({ scopes, role }: Schemas['GetKeyAnswer'], scope: Scope): string | null {
  if (!scopes.includes(scope)) return `This key does not have the scope ${scope}.`;
  if (role !== 'viewer') return null;
  if (spendingScopes.includes(scope)) return 'A viewer may not spend credits.';
  return scope === 'keys:write' ? 'A viewer may not create keys.' : null;
}

/**
 * Query key under which the reason for the end of the session is cached. The value is null if the
 * user signed out, and undefined during a session.
 */
const endReasonKey = [...sessionQuery.queryKey, 'ended'];

/** Loads the new session and removes all cached data of the previous one. @throws ApiError */
export async function reloadSession(client: QueryClient): Promise<void> {
  const session = await readSession();
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] });
  if (session.session || session.operator) client.removeQueries({ queryKey: endReasonKey });
  client.setQueryData(sessionQuery.queryKey, session);
}

/**
 * Ends the session by calling `requestEnd`. Stores `reason` first: another request may fail with
 * 401 before `requestEnd` returns, and the sign-in page that then appears shows the reason.
 * @throws ApiError, and any error that `requestEnd` throws
 */
export async function endSession(
  client: QueryClient,
  reason: string | null,
  requestEnd: () => Promise<unknown>,
): Promise<void> {
  client.setQueryData(endReasonKey, reason);
  try {
    await requestEnd();
  } catch (error) {
    client.removeQueries({ queryKey: endReasonKey });
    throw error;
  }
  await reloadSession(client);
}

/** Reloads the session after a 401, and stores a default reason to show if it has ended. */
export function checkSession(client: QueryClient): void {
  const defaultReason =
    'Your session has ended. A session ends after twelve hours, or when its key is revoked or expires.';
  client.setQueryData<string | null>(endReasonKey, (reason) =>
    reason === undefined ? defaultReason : reason,
  );
  void client.invalidateQueries({ queryKey: sessionQuery.queryKey, exact: true });
}

/** Returns the reason why the session ended, or null if there is no reason to show. */
export function useEndReason(): string | null {
  return useQueryClient().getQueryData<string | null>(endReasonKey) ?? null;
}

/** Returns the mutation that signs out both the operator and the caller. */
export function useSignOut() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () =>
      endSession(client, null, async () => {
        const session = client.getQueryData(sessionQuery.queryKey);
        if (session?.operator) await requestJson('/api/admin/v1/session', { method: 'DELETE' });
        await unwrap(api.DELETE('/api/v1/session'));
      }),
  });
}
