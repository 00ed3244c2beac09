/** The Studio endpoints with their models, as the API publishes them. */
import { queryOptions } from '@tanstack/react-query';
import { answered, api } from '../../gateway/client.ts';

/** All Studio endpoints. */
export const capabilitiesQuery = queryOptions({
  queryKey: ['studio-models'],
  queryFn: () => answered(api.GET('/api/v1/studio/models')),
  staleTime: Infinity,
});
