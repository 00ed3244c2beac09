/** Queries for one job and its steps, and the request that starts a job. The event stream (gateway/live.tsx) updates their data. */
import { queryOptions } from '@tanstack/react-query';
import { unwrap, api, requestJson, type Job, type Schemas } from '../../gateway/client.ts';
import { toEndpointPath } from '../../parts/names.ts';

/** Query for a job. */
export const jobQuery = (jobId: string) =>
  queryOptions({
    queryKey: ['job', jobId],
    queryFn: async (): Promise<Job> => {
      const params = { path: { jobId } };
      return (await unwrap(api.GET('/api/v1/studio/jobs/{jobId}', { params }))).data;
    },
  });

/** Query for the request and the steps of a job. */
export const timelineQuery = (jobId: string) =>
  queryOptions({
    queryKey: ['timeline', jobId],
    queryFn: async () => {
      const params = { path: { jobId } };
      return (await unwrap(api.GET('/api/v1/studio/jobs/{jobId}/timeline', { params }))).data;
    },
  });

/** Returns the path of the endpoint that starts jobs of a type. */
export const toEndpoint = (type: string): string => `/api/v1/studio/${toEndpointPath(type)}`;

/** Starts a job without waiting for its result, and returns its id. @throws ApiError */
export async function startJob(
  path: string,
  body: object,
  idempotencyKey: string,
): Promise<string> {
  const { data } = await requestJson<{ data: Schemas['JobTicket'] }>(path, {
    method: 'POST',
    body: { ...body, async: true },
    idempotencyKey,
  });
  return data.jobId;
}

/** Returns the request of a new job: a resumed pipeline then runs all its steps. */
export function toRepeatable(request: Record<string, unknown>): Record<string, unknown> {
  const { async: _, resumes: __, ...body } = request;
  return body;
}
