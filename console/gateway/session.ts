/** Who is signed in, and what the key may do. */
import {
  queryOptions,
  useMutation,
  useQueryClient,
  useSuspenseQuery,
  type QueryClient,
} from '@tanstack/react-query';
import { answered, api, ask, type Schemas } from './client.ts';

const askForSession = () => answered(api.GET('/api/v1/session'));

/** Whether there is a session. */
export const sessionQuery = queryOptions({ queryKey: ['session'], queryFn: askForSession });

const keyQuery = queryOptions({
  queryKey: ['key'],
  queryFn: () => answered(api.GET('/api/v1/key')),
});

/** Credits, as the head of the page shows them; the pages' own requests make it anew. */
export const balanceQuery = queryOptions({
  queryKey: ['usage', 'balance'],
  queryFn: () => answered(api.GET('/api/v1/usage', { params: { query: { limit: 1 } } })),
});

type Scope = Schemas['GetKeyAnswer']['scopes'][number];

/** The key of the session. */
export type Who = Schemas['GetKeyAnswer'] & {
  /** Why it may not; null: it may. */
  refuses: (scope: Scope) => string | null;
};

/** See `Who`. */
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

/** Why nobody is signed in, in words, where the person did not end it himself. */
const endedKey = [...sessionQuery.queryKey, 'ended'];

/**
 * Shows who is signed in from now on, and forgets what was shown to whoever was before.
 * @param why - of a session that has ended
 * @throws ApiError
 */
export async function changeSession(client: QueryClient, why: string | null = null): Promise<void> {
  const now = await askForSession();
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] });
  client.setQueryData(endedKey, why);
  client.setQueryData(sessionQuery.queryKey, now);
}

/** Looks whether there still is a session: somebody was refused as unknown. */
export function checkSession(client: QueryClient): void {
  client.setQueryData(
    endedKey,
    'Your session has ended: after twelve hours, or because its key was revoked or has expired.',
  );
  void client.invalidateQueries({ queryKey: sessionQuery.queryKey, exact: true });
}

/** See `endedKey`; null: nothing is to be said. */
export function useWhyEnded(): string | null {
  return useQueryClient().getQueryData<string | null>(endedKey) ?? null;
}

/** Ends the sessions. */
export function useSignOut() {
  const client = useQueryClient();
  return useMutation({
    async mutationFn() {
      const before = client.getQueryData(sessionQuery.queryKey);
      if (before?.operator) await ask('/api/admin/v1/session', { method: 'DELETE' });
      await answered(api.DELETE('/api/v1/session'));
      await changeSession(client);
    },
  });
}
