/** Query for the providers. */
import { queryOptions } from '@tanstack/react-query';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi } from '../../gateway/operator.ts';

/** Query for all configured providers, including their pauses and recent calls. */
export const providersQuery = queryOptions({
  queryKey: ['operator', 'providers'],
  queryFn: () => unwrap(operatorApi.GET('/api/admin/v1/providers')),
});
