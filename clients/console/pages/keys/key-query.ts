/** Query for the user's API keys. */
import { queryOptions } from '@tanstack/react-query';
import { unwrap, api, type Schemas } from '../../gateway/client.ts';

/** API key, as the list returns it. */
export type Key = Schemas['ListApiKeysAnswer']['keys'][number];

/** Query for all keys of the user that are not revoked. */
export const keysQuery = queryOptions({
  queryKey: ['keys'],
  queryFn: () => unwrap(api.GET('/api/v1/api-keys')),
});
