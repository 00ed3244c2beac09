/** Requests as the API lists them: the query for one, and their names. */
import { queryOptions } from '@tanstack/react-query';
import { unwrap, api, type Schemas } from '../../gateway/client.ts';
import { compactNumber } from '../../parts/amounts.tsx';

/** Chat, request for embeddings, or rejected request. */
export type RequestRecord = Schemas['RequestRecord'];

/** Names of the kinds of requests. */
export const requestKinds = { chat: 'Chat', embedding: 'Embedding', studio: 'Studio' } as const;

/** Time between two reads of a chat that runs, in milliseconds. */
export const runningRefreshMs = 3000;

/** Query for a request by its id or request id. */
export const requestQuery = (id: string) =>
  queryOptions({
    queryKey: ['request', id],
    queryFn: () => unwrap(api.GET('/api/v1/requests/{id}', { params: { path: { id } } })),
    refetchInterval: ({ state }) =>
      state.data?.data.status === 'running' ? runningRefreshMs : false,
  });

/** Formats the endpoint of a rejected request, e.g. `POST /studio/video/generate`. */
export const formatEndpoint = ({ path }: RequestRecord): string =>
  path === null ? '–' : `POST ${path.replace('/api/v1', '')}`;

/** Formats the tokens of a request, e.g. `120 → 34`. */
export function formatTokens({ inputTokens, outputTokens }: RequestRecord): string {
  if (inputTokens === null) return '–';
  return `${compactNumber.format(inputTokens)} → ${compactNumber.format(outputTokens ?? 0)}`;
}

/** Returns the page of the playground for the kind of a request; null if there is none. */
export function findPlayground({ kind, model, path }: RequestRecord): string | null {
  if (kind === 'chat')
    return `/playground/chat${model === null ? '' : `?model=${encodeURIComponent(model)}`}`;
  const [, form] = /^\/api\/v1\/studio\/([\w/-]+)$/.exec(path ?? '') ?? [];
  if (form === undefined) return null;
  return form === 'bulk' ? '/bulk' : `/playground/${form}`;
}
