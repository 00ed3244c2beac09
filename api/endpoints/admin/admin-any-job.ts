/** Request schema, response schema and lookup that the operator endpoints for one job share. */
import { z } from 'zod';
import type { JobRecord } from '../../../studio/jobs/job-reads.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { jobSchema } from '../../../studio/jobs/job-view.ts';
import type { Composition } from '../../composition.ts';
import { auditFieldsBody, pathId } from '../fields.ts';

/** Request schemas of an endpoint with which an operator changes a job. */
export const jobChangeRequest = {
  params: z.object({ jobId: pathId('job') }),
  body: auditFieldsBody,
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
export const jobWithOwner = jobSchema
  .extend({ organizationId: z.string() })
  .meta({ id: 'OwnedJob' });

/** Returns the fields with which the log of operator actions identifies a job. */
export const toActionSubject = ({ id, organization_id }: JobRecord) => ({
  subject: id,
  organizationId: organization_id,
});
