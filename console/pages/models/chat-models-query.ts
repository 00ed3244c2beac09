/** The chat models, as the API publishes them. */
import { queryOptions } from '@tanstack/react-query';
import { unwrap, api } from '../../gateway/client.ts';

/** All chat models. */
export const chatModelsQuery = queryOptions({
  queryKey: ['models'],
  queryFn: () => unwrap(api.GET('/api/v1/models')),
  staleTime: Infinity,
});
