/** Query for the chat models. */
import { queryOptions } from '@tanstack/react-query';
import { unwrap, api } from '../../gateway/client.ts';

/** Query for all chat models. */
export const chatModelsQuery = queryOptions({
  queryKey: ['models'],
  queryFn: () => unwrap(api.GET('/api/v1/models')),
  staleTime: Infinity,
});
