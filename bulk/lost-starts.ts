/**
 * Started items of a bulk job without a job: Temporal tells which of them can start again. The id of
 * an item's job follows from the bulk job, the index and the round, so a start that was repeated after
 * a crash, a reset or a restored backup finds the workflow of the first start.
 */
import type { Client } from '@temporalio/client';
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../platform/database.ts';
import { readWorkflow } from '../executions/workflow-state.ts';
import { readOutcome } from '../studio/jobs/job-execution.ts';

/** Ids of the jobs of started items whose bulk job does not await their end. */
export interface LostStarts {
  /** The workflow does not exist, so the item may start. */
  missing: string[];
  /** The ledger rejected the reservation, so the item may start with another job. */
  rejected: string[];
  /** The workflow has ended, but the database does not contain its job: a backup was restored. */
  lost: string[];
}

const startRow = z.object({ jobId: z.string() });
/** Maximum number of starts that one step looks up. */
const startsMax = 100;

/**
 * Finds the starts that are older than ten seconds and have no job, except those in `live`. Starts
 * whose workflow is still running are not returned.
 */
export async function findLostStarts(
  { pool, client }: { pool: DatabasePool; client: Client },
  bulkId: string,
  live: string[],
): Promise<LostStarts> {
  const starts = await pool.any(sql.type(startRow)`
    SELECT i.job_id AS "jobId" FROM bulk_item i
    WHERE i.bulk_id = ${bulkId} AND i.state = 'running' AND i.chat_min IS NULL AND i.job_id <> ALL(${sql.array(live, 'text')})
      AND i.claimed_at < clock_timestamp() - interval '10 seconds'
      AND NOT EXISTS (SELECT FROM job j WHERE j.id = i.job_id)
    ORDER BY i.claimed_at LIMIT ${startsMax}`);
  const found: LostStarts = { missing: [], rejected: [], lost: [] };
  for (const { jobId } of starts) {
    const { state } = await readWorkflow(client, jobId);
    if (state === 'missing') found.missing.push(jobId);
    if (state !== 'closed') continue;
    const outcome = await readOutcome(client, jobId);
    found[outcome?.status === 'rejected' ? 'rejected' : 'lost'].push(jobId);
  }
  return found;
}
