/** The session: its API key, its operator, and the permissions of the key. */
import {
  queryOptions,
  useMutation,
  useQueryClient,
  useSuspenseQuery,
  type QueryClient,
} from '@tanstack/react-query';
import { unwrap, api, requestJson, type Schemas } from './client.ts';

const readSession = () => unwrap(api.GET('/api/v1/session'));

/** State of the session. */
export const sessionQuery = queryOptions({ queryKey: ['session'], queryFn: readSession });

/** API key of the session. */
export const keyQuery = queryOptions({
  queryKey: ['key'],
  queryFn: () => unwrap(api.GET('/api/v1/key')),
});

/** Balance in the header of the page; pages that read usage refresh it too. */
export const balanceQuery = queryOptions({
  queryKey: ['usage', 'balance'],
  queryFn: () => unwrap(api.GET('/api/v1/usage', { params: { query: { limit: 1 } } })),
});

type Scope = Schemas['GetKeyAnswer']['scopes'][number];

/** API key of the session, with its permissions. */
export type SessionKey = Schemas['GetKeyAnswer'] & {
  /** Returns the reason why the key may not use a scope; null if it may. */
  explainDenial: (scope: Scope) => string | null;
};

/** Returns the key of the session with its permissions. */
export function useSessionKey(): SessionKey {
  const { data } = useSuspenseQuery(keyQuery);
  return { ...data, explainDenial: (scope) => explainDenial(data, scope) };
}

const spendingScopes: readonly Scope[] = ['chat', 'studio:image', 'studio:video', 'studio:audio'];

function explainDenial({ scopes, role }: Schemas['GetKeyAnswer'], scope: Scope): string | null {
  if (!scopes.includes(scope)) return `This key does not have the scope ${scope}.`;
  if (role !== 'viewer') return null;
  if (spendingScopes.includes(scope)) return 'A viewer may not spend credits.';
  return scope === 'keys:write' ? 'A viewer may not create keys.' : null;
}

/**
 * Query key of the reason why the session ended; null if the user ended it, absent during a
 * session.
 */
const endReasonKey = [...sessionQuery.queryKey, 'ended'];

/** Reads the new session and removes all cached data of the previous one. @throws ApiError */
export async function reloadSession(client: QueryClient): Promise<void> {
  const session = await readSession();
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] });
  if (session.session || session.operator) client.removeQueries({ queryKey: endReasonKey });
  client.setQueryData(sessionQuery.queryKey, session);
}

/**
 * Ends the session by `end`. The reason `reason` is stored first, because other requests may be
 * rejected with 401 before `end` returns and show the sign-in page, which reads the reason.
 * @throws errors of `end`, ApiError
 */
export async function endSession(
  client: QueryClient,
  reason: string | null,
  end: () => Promise<unknown>,
): Promise<void> {
  client.setQueryData(endReasonKey, reason);
  try {
    await end();
  } catch (error) {
    client.removeQueries({ queryKey: endReasonKey });
    throw error;
  }
  await reloadSession(client);
}

/**
 * Reads the session again after a response 401, and stores the reason that is shown if it has
 * ended.
 */
export function checkSession(client: QueryClient): void {
  const unexpected =
    'Your session has ended: after twelve hours, or because its key was revoked or has expired.';
  client.setQueryData<string | null>(endReasonKey, (reason) =>
    reason === undefined ? unexpected : reason,
  );
  void client.invalidateQueries({ queryKey: sessionQuery.queryKey, exact: true });
}

/** Returns the reason why the session ended; null if none is to be shown. */
export function useEndReason(): string | null {
  return useQueryClient().getQueryData<string | null>(endReasonKey) ?? null;
}

/** Returns the mutation that ends the sessions of the operator and the caller. */
export function useSignOut() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () =>
      endSession(client, null, async () => {
        const before = client.getQueryData(sessionQuery.queryKey);
        if (before?.operator) await requestJson('/api/admin/v1/session', { method: 'DELETE' });
        await unwrap(api.DELETE('/api/v1/session'));
      }),
  });
}
