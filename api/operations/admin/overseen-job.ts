/** The job that an operator's path names, and what is recorded before something is done to it. */
import { z } from 'zod';
import type { OverseenJob, JobRecord } from '../../../activities/jobs/job-reads.ts';
import { GatewayError } from '../../../domain/errors.ts';
import type { Composition } from '../../composition.ts';
import { recordAction, type AdminAction } from '../../identity/admin-actions.ts';
import { jobSchema } from '../../../studio/job-view.ts';
import { bareWrite, pathId } from '../fields.ts';
import type { Call } from '../operation.ts';

/** The request of a write to a job. */
export const writeToJob = { params: z.object({ jobId: pathId('job') }), body: bareWrite };

/**
 * Finds the job of `:jobId`, whosever it is.
 * @throws GatewayError JOB_NOT_FOUND
 */
export async function overseenJob(
  { params: { jobId } }: { params: { jobId: string } },
  { oversight }: Pick<Composition, 'oversight'>,
): Promise<OverseenJob> {
  const job = await oversight.find(jobId);
  if (!job) throw new GatewayError('JOB_NOT_FOUND');
  return job;
}

/** A job as its owner sees it, and whose it is. */
export const ownedJob = jobSchema.extend({ organizationId: z.string() }).meta({ id: 'OwnedJob' });

/**
 * Finds the job of `:jobId` as its owner sees it, too.
 * @throws GatewayError JOB_NOT_FOUND
 */
export async function overseenRecord(
  named: { params: { jobId: string } },
  { oversight, reads }: Pick<Composition, 'oversight' | 'reads'>,
): Promise<{ line: OverseenJob; job: JobRecord }> {
  const line = await overseenJob(named, { oversight });
  const job = await reads.read(line.organizationId, line.id);
  if (!job) throw new GatewayError('JOB_NOT_FOUND');
  return { line, job };
}

/** Recorded first: other systems are asked, and nothing may be done unrecorded. */
export function recordForJob(
  { requestId, body }: Pick<Call<typeof writeToJob>, 'requestId' | 'body'>,
  { pool }: Pick<Composition, 'pool'>,
  action: Pick<AdminAction, 'action' | 'details'> & { job: OverseenJob },
): Promise<void> {
  const { job, ...done } = action;
  const { actor, reason } = body;
  const { id: subject, organizationId } = job;
  return recordAction(pool, { ...done, actor, reason, requestId, organizationId, subject });
}
