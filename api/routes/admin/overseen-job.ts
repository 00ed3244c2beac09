/** The job that an operator's path names. */
import type { JobOversight, OverseenJob } from '../../../activities/jobs/job-oversight.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { isId } from '../../../domain/ids.ts';

/** A request whose path names a job. */
export interface NamesJob {
  params: Record<string, string>;
}

/**
 * Finds the job of `:jobId`, whosever it is. A malformed id is an unknown one.
 * @throws GatewayError JOB_NOT_FOUND
 */
export async function overseenJob(oversight: JobOversight, ctx: NamesJob): Promise<OverseenJob> {
  const { jobId = '' } = ctx.params;
  const job = isId('job', jobId) ? await oversight.find(jobId) : null;
  if (!job) throw new GatewayError('JOB_NOT_FOUND');
  return job;
}
