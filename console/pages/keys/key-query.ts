/** The API keys of the user, and the models that a key may be limited to. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { answered, api, type Schemas } from '../../gateway/client.ts';
import type { Who } from '../../gateway/session.ts';
import { capabilitiesQuery } from '../playground/capabilities-query.ts';

/** A key in the list. */
export type Key = Schemas['ListApiKeysAnswer']['keys'][number];

/** All keys that are not revoked. */
export const keysQuery = queryOptions({
  queryKey: ['keys'],
  queryFn: () => answered(api.GET('/api/v1/api-keys')),
});

/** Ids of all models that the key of the session may use and may list, in order. */
export function useModelIds(who: Who): string[] {
  const { data: studio } = useQuery({
    ...capabilitiesQuery,
    enabled: who.refuses('studio:read') === null,
  });
  const { data: chat } = useQuery({
    queryKey: ['models'],
    queryFn: () => answered(api.GET('/api/v1/models')),
    staleTime: Infinity,
    enabled: who.refuses('models:read') === null,
  });
  const known = [
    ...(studio?.data.flatMap(({ models }) => models.map(({ id }) => id)) ?? []),
    ...(chat?.models.map(({ id }) => id) ?? []),
  ];
  const allowed = who.allowedModels;
  return [...new Set(known)].filter((id) => allowed === null || allowed.includes(id)).toSorted();
}
