/** Query for the price of a Studio request. */
import { queryOptions } from '@tanstack/react-query';
import { requestJson, type Schemas } from '../../gateway/client.ts';

/** Query for the estimate of a request to the endpoint `path`, whose body is `json`. */
export const estimateQuery = (path: string, json: string) =>
  queryOptions({
    queryKey: ['estimate', path, json],
    queryFn: () =>
      requestJson<{ data: Schemas['StudioEstimate'] }>(`${path}/estimate`, {
        method: 'POST',
        body: JSON.parse(json),
      }),
  });
