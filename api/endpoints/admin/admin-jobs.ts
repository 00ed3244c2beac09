/** Operator endpoint that lists the jobs of all organizations. */
import { z } from 'zod';
import type { JobRecord } from '../../../studio/jobs/job-reads.ts';
import { errorTable } from '../../../domain/errors.ts';
import { isoTime, keysOf } from '../../../domain/json.ts';
import { extractPromptLine } from '../../../domain/job-record.ts';
import { showSteps, stepsSchema } from '../../../studio/pipelines/step-view.ts';
import { buildBilling, jobSchema } from '../../../studio/jobs/job-view.ts';
import { addOrganizationNames } from '../../../identity/organizations.ts';
import {
  toPage,
  idField,
  jobType,
  pageLimit,
  pageSchema,
  recordFilter,
  toRecordFilter,
} from '../fields.ts';
import { jobSearch } from '../job-fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';

const { jobId, keyId, type, model, prompt, provider, billing } = jobSchema.shape;
const { createdAt, deadlineAt, completedAt } = jobSchema.shape;
const status = z.enum(['open', 'completed', 'failed', 'canceled']);

/** Schema of an item of the operators' job list. */
export const jobSummary = z
  .object({
    jobId,
    organizationId: z.string(),
    organizationName: z.string(),
    keyId,
    type,
    model,
    prompt,
    provider,
    status,
    verifying: z.boolean(),
    errorCode: z.string().nullable(),
    steps: z
      .array(stepsSchema.unwrap().element.pick({ id: true, status: true }))
      .nullable()
      .meta({ description: 'Steps of a pipeline; null for other jobs.' }),
    billing,
    createdAt,
    deadlineAt,
    completedAt,
  })
  .meta({ id: 'JobLine' });

/** Converts a job record to an item of the operators' job list. */
export function formatJobSummary(
  job: JobRecord,
): Omit<z.infer<typeof jobSummary>, 'organizationName'> {
  return {
    jobId: job.id,
    organizationId: job.organizationId,
    keyId: job.keyId,
    type: job.type,
    model: job.model,
    prompt: extractPromptLine(job.request),
    provider: job.provider,
    status: job.status,
    verifying: job.verifying,
    errorCode: job.error?.code ?? null,
    steps:
      showSteps(job, new Map())?.map(({ id, status: state }) => ({ id, status: state })) ?? null,
    billing: buildBilling(job),
    createdAt: isoTime(job.createdAtMs),
    deadlineAt: isoTime(job.deadlineAtMs),
    completedAt: isoTime(job.completedAtMs),
  };
}

/** Conditions that choose jobs of all organizations. */
export const jobConditions = {
  organizationId: idField('organization').optional(),
  status: status.optional(),
  type: jobType.optional(),
  provider: z.string().max(64).optional(),
  errorCode: z.enum(keysOf(errorTable)).optional(),
  search: jobSearch,
  model: recordFilter.model,
  after: recordFilter.after,
  before: recordFilter.before,
};

/** Endpoint that lists jobs. */
export const jobs = defineSection('Jobs', {
  listJobs: defineEndpoint({
    route: 'GET /api/admin/v1/jobs',
    summary: 'List jobs, newest first',
    request: {
      query: z.strictObject({
        ...jobConditions,
        limit: pageLimit,
        cursor: idField('job').optional(),
      }),
    },
    response: pageSchema(jobSummary),
    async handle({ query: { limit, cursor, ...query } }, { pool, jobOverview }) {
      const filter = { ...query, ...toRecordFilter(query) };
      const rows = await jobOverview.list({ ...filter, beforeId: cursor, limit: limit + 1 });
      const page = toPage(rows, { limit, cursor: 'id', show: formatJobSummary });
      return { ...page, data: await addOrganizationNames(pool, page.data) };
    },
  }),
});
