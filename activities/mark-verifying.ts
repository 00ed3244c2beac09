/** Activity `markVerifying`: shows callers that the outcome of a job is being verified. */
import { command, type DatabasePool } from '../platform/database.ts';

/** Sets the phase of an open job to `verifying_outcome`. */
export async function markVerifying(
  { pool }: { pool: DatabasePool },
  jobId: string,
): Promise<void> {
  await pool.query(
    command`UPDATE job SET verifying = true WHERE id = ${jobId} AND status = 'open'`,
  );
}
