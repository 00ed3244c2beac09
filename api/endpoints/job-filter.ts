/** Query parameters that filter and search jobs. */
import { z } from 'zod';
import { searchedJobsMax } from '../../jobs/records/job-search.ts';
import { plainText } from '../identity/key-fields.ts';
import { jobType, recordFilter, toRecordFilter } from './fields.ts';

/** Query parameter that searches jobs. */
export const jobSearch = plainText(200)
  .optional()
  .meta({
    description:
      'Only jobs with this job id, request id, provider request id, or Idempotency-Key of the last two days; with this end ' +
      `of the job id (6 or more characters) or this text in the prompt, among the newest ${searchedJobsMax} jobs.`,
  });

/** Query parameters of the list and the number of jobs. */
export const jobFilter = {
  status: z.enum(['queued', 'in_progress', 'completed', 'failed', 'canceled']).optional(),
  type: jobType.optional(),
  search: jobSearch,
  ...recordFilter,
};

/** Converts parsed parameters to the filter of a query. */
export function jobFilterOf(query: z.infer<z.ZodObject<typeof jobFilter>>) {
  const { status, type, search } = query;
  return { status, type, search, ...toRecordFilter(query) };
}
