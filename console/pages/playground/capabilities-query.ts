/** The Studio endpoints with their models, as the API publishes them. */
import { queryOptions } from '@tanstack/react-query';
import { unwrap, api } from '../../gateway/client.ts';

/** All Studio endpoints. */
export const capabilitiesQuery = queryOptions({
  queryKey: ['studio-models'],
  queryFn: () => unwrap(api.GET('/api/v1/studio/models')),
  staleTime: Infinity,
});
