/** The providers with their pauses and recent figures. */
import { queryOptions } from '@tanstack/react-query';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi } from '../../gateway/operator.ts';

/** All configured providers. */
export const providersQuery = queryOptions({
  queryKey: ['operator', 'providers'],
  queryFn: () => unwrap(operatorApi.GET('/api/admin/v1/providers')),
});
