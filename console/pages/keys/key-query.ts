/** The API keys of the user. */
import { queryOptions } from '@tanstack/react-query';
import { unwrap, api, type Schemas } from '../../gateway/client.ts';

/** A key in the list. */
export type Key = Schemas['ListApiKeysAnswer']['keys'][number];

/** All keys that are not revoked. */
export const keysQuery = queryOptions({
  queryKey: ['keys'],
  queryFn: () => unwrap(api.GET('/api/v1/api-keys')),
});
