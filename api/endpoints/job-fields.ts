/** Fields and look-ups that several endpoints about jobs share. */
import { z } from 'zod';
import { newestUnindexedMax, type JobRecord } from '../../studio/jobs/job-reads.ts';
import { plainTextSchema } from '../../identity/keys.ts';
import { jobType, recordFilter, toRecordFilter, operatorFieldsBody, pathId } from './fields.ts';
import { GatewayError } from '../../domain/errors.ts';
import { jobSchema } from '../../studio/jobs/job-view.ts';
import type { Composition } from '../composition.ts';

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
  phase: z
    .enum(['awaiting_approval'])
    .optional()
    .meta({ description: 'Return only jobs of which a step waits for a decision.' }),
  type: jobType.optional(),
  search: jobSearch,
  ...recordFilter,
};

/** Converts parsed `jobFilter` parameters to the filter of a database query. */
export function toJobFilter(query: z.infer<z.ZodObject<typeof jobFilter>>) {
  const { status, phase, type, search } = query;
  return { status, phase, type, search, ...toRecordFilter(query) };
}

/** Request schemas of an endpoint with which an operator changes a job. */
export const jobChangeRequest = {
  params: z.object({ jobId: pathId('job') }),
  body: operatorFieldsBody,
};

/** Finds a job of any organization by `:jobId`. @throws GatewayError JOB_NOT_FOUND or JOB_ARCHIVED */
export async function findJobOfAnyOrganization(
  { params: { jobId } }: { params: { jobId: string } },
  { jobOverview }: Pick<Composition, 'jobOverview'>,
): Promise<JobRecord> {
  const job = await jobOverview.find(jobId);
  if (!job) throw new GatewayError(await jobOverview.missing(jobId));
  return job;
}

/** Schema of a job in the format that callers receive, plus the id of its organization. */
export const jobWithOrganization = jobSchema
  .extend({ organizationId: z.string() })
  .meta({ id: 'OwnedJob' });
