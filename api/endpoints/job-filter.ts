/** Query parameters that filter and search jobs. */
import { z } from 'zod';
import { newestUnindexedMax } from '../../studio/jobs/job-search.ts';
import { plainTextSchema } from '../../identity/keys.ts';
import { jobType, recordFilter, toRecordFilter } from './fields.ts';

/** Query parameter that searches jobs. */
export const jobSearch = plainTextSchema(200)
  .optional()
  .meta({
    description:
      'Return only jobs whose job id, request id, provider request id or Idempotency-Key (of the last two days) equals this text, ' +
      'whose job id ends with it (6 or more characters), or whose prompt contains it. ' +
      `A text without three successive letters or digits is searched only in the newest ${newestUnindexedMax.toLocaleString('en')} jobs.`,
  });

/** Query parameters of the endpoints that list and count jobs. */
export const jobFilter = {
  status: z.enum(['queued', 'in_progress', 'completed', 'failed', 'canceled']).optional(),
  type: jobType.optional(),
  search: jobSearch,
  ...recordFilter,
};

/** Converts parsed `jobFilter` parameters to the filter of a database query. */
export function toJobFilter(query: z.infer<z.ZodObject<typeof jobFilter>>) {
  const { status, type, search } = query;
  return { status, type, search, ...toRecordFilter(query) };
}
