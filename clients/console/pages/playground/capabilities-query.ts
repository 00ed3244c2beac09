/** Query for the Studio endpoints. */
import { queryOptions } from '@tanstack/react-query';
import { unwrap, api } from '../../gateway/client.ts';

/** Query for all Studio endpoints, with their models. */
export const capabilitiesQuery = queryOptions({
  queryKey: ['studio-models'],
  queryFn: () => unwrap(api.GET('/api/v1/studio/models')),
  staleTime: Infinity,
});
