/** Shared parts of the operator endpoints for one job. */
import { z } from 'zod';
import type { JobRecord } from '../../../jobs/records/job-reads.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { jobSchema } from '../../../studio/job-resource.ts';
import type { Composition } from '../../composition.ts';
import { auditFieldsBody, pathId } from '../fields.ts';

/** Path parameters and body of a request with which an operator changes a job. */
export const jobChangeRequest = {
  params: z.object({ jobId: pathId('job') }),
  body: auditFieldsBody,
};

/** Finds the job of `:jobId` in any organization. @throws GatewayError JOB_NOT_FOUND */
export async function findAnyJob(
  { params: { jobId } }: { params: { jobId: string } },
  { jobOverview }: Pick<Composition, 'jobOverview'>,
): Promise<JobRecord> {
  const job = await jobOverview.find(jobId);
  if (!job) throw new GatewayError('JOB_NOT_FOUND');
  return job;
}

/** Schema of a job as callers see it, with the id of its organization. */
export const jobWithOwner = jobSchema
  .extend({ organizationId: z.string() })
  .meta({ id: 'OwnedJob' });

/** Returns the fields that identify a job in the action log. */
export const auditSubject = ({ id, organization_id }: JobRecord) => ({
  subject: id,
  organizationId: organization_id,
});
