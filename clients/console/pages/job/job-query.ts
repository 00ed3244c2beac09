/** Queries for one job and its steps. The event stream (gateway/live.tsx) updates their data. */
import { queryOptions } from '@tanstack/react-query';
import { unwrap, api, type Job } from '../../gateway/client.ts';

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
