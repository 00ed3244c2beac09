/** The session: its key and operator, and the permissions of the key. */
import {
  queryOptions,
  useMutation,
  useQueryClient,
  useSuspenseQuery,
  type QueryClient,
} from '@tanstack/react-query';
import { answered, api, ask, type Schemas } from './client.ts';

const askForSession = () => answered(api.GET('/api/v1/session'));

/** State of the session. */
export const sessionQuery = queryOptions({ queryKey: ['session'], queryFn: askForSession });

/** Key of the session. */
export const keyQuery = queryOptions({
  queryKey: ['key'],
  queryFn: () => answered(api.GET('/api/v1/key')),
});

/** Balance in the header of the page; pages that read usage refresh it too. */
export const balanceQuery = queryOptions({
  queryKey: ['usage', 'balance'],
  queryFn: () => answered(api.GET('/api/v1/usage', { params: { query: { limit: 1 } } })),
});

type Scope = Schemas['GetKeyAnswer']['scopes'][number];

/** Key of the session, with its permissions. */
export type Who = Schemas['GetKeyAnswer'] & {
  /** Returns the reason why the key must not use a scope; null if it may. */
  refuses: (scope: Scope) => string | null;
};

/** Returns the key of the session with its permissions. */
export function useWho(): Who {
  const { data } = useSuspenseQuery(keyQuery);
  return { ...data, refuses: (scope) => refusalOf(data, scope) };
}

const spending: readonly Scope[] = ['chat', 'studio:image', 'studio:video', 'studio:audio'];

function refusalOf({ scopes, role }: Schemas['GetKeyAnswer'], scope: Scope): string | null {
  if (!scopes.includes(scope)) return `This key does not have the scope ${scope}.`;
  if (role !== 'viewer') return null;
  if (spending.includes(scope)) return 'A viewer may not spend credits.';
  return scope === 'keys:write' ? 'A viewer may not create keys.' : null;
}

/**
 * Query key of the reason why the session ended; null if the user ended it, absent during a
 * session.
 */
const endedKey = [...sessionQuery.queryKey, 'ended'];

/** Reads the new session and removes all cached data of the previous one. @throws ApiError */
export async function changeSession(client: QueryClient): Promise<void> {
  const now = await askForSession();
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] });
  if (now.session || now.operator) client.removeQueries({ queryKey: endedKey });
  client.setQueryData(sessionQuery.queryKey, now);
}

/**
 * Ends the session by `end`. The reason `why` is stored first, because other requests may be
 * rejected with 401 before `end` returns and show the sign-in page, which reads the reason.
 * @throws errors of `end`, ApiError
 */
export async function endSession(
  client: QueryClient,
  why: string | null,
  end: () => Promise<unknown>,
): Promise<void> {
  client.setQueryData(endedKey, why);
  try {
    await end();
  } catch (error) {
    client.removeQueries({ queryKey: endedKey });
    throw error;
  }
  await changeSession(client);
}

/**
 * Reads the session again after a response 401, and stores the reason that is shown if it has
 * ended.
 */
export function checkSession(client: QueryClient): void {
  const unforeseen =
    'Your session has ended: after twelve hours, or because its key was revoked or has expired.';
  client.setQueryData<string | null>(endedKey, (why) => (why === undefined ? unforeseen : why));
  void client.invalidateQueries({ queryKey: sessionQuery.queryKey, exact: true });
}

/** Returns the reason why the session ended; null if none is to be shown. */
export function useWhyEnded(): string | null {
  return useQueryClient().getQueryData<string | null>(endedKey) ?? null;
}

/** Returns the mutation that ends the sessions of the operator and the caller. */
export function useSignOut() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () =>
      endSession(client, null, async () => {
        const before = client.getQueryData(sessionQuery.queryKey);
        if (before?.operator) await ask('/api/admin/v1/session', { method: 'DELETE' });
        await answered(api.DELETE('/api/v1/session'));
      }),
  });
}
