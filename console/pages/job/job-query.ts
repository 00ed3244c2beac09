/** One job and its steps, kept up to date by the stream of events (gateway/live.tsx). */
import { queryOptions } from '@tanstack/react-query';
import { answered, api, type Job } from '../../gateway/client.ts';

/** The job. */
export const jobQuery = (jobId: string) =>
  queryOptions({
    queryKey: ['job', jobId],
    queryFn: async (): Promise<Job> => {
      const params = { path: { jobId } };
      return (await answered(api.GET('/api/v1/studio/jobs/{jobId}', { params }))).data;
    },
  });

/** Its request and its steps. */
export const timelineQuery = (jobId: string) =>
  queryOptions({
    queryKey: ['timeline', jobId],
    queryFn: async () => {
      const params = { path: { jobId } };
      return (await answered(api.GET('/api/v1/studio/jobs/{jobId}/timeline', { params }))).data;
    },
  });
