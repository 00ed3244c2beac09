/** Queries for the price of a Studio request, and of a chat. */
import { queryOptions } from '@tanstack/react-query';
import { api, requestJson, unwrap, type Schemas } from '../../gateway/client.ts';

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

/** Query for the estimate of a chat, whose body is `json`. */
export const chatEstimateQuery = (json: string) =>
  queryOptions({
    queryKey: ['chat-estimate', json],
    queryFn: () => unwrap(api.POST('/api/v1/chat/estimate', { body: JSON.parse(json) })),
  });
