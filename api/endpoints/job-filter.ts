/** Query parameters that filter and search jobs. */
import { z } from 'zod';
import { searchedJobsMax } from '../../jobs/records/job-search.ts';
import { plainText } from '../identity/key-fields.ts';
import { jobType, recordFilter, recordFilterOf } from './fields.ts';

/** Query parameter that searches jobs. */
const jobSearch = plainText(200)
  .optional()
  .meta({
    description:
      'Only jobs with this job id (or its last 6 or more characters), request id, Idempotency-Key or request id of a ' +
      `provider, or with this text in the prompt. The newest ${searchedJobsMax} jobs are searched.`,
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
  return { status, type, search, ...recordFilterOf(query) };
}
