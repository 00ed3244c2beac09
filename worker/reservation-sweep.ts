/**
 * Sweep of the reservations of Studio jobs. For each open reservation that is due, it checks in
 * Temporal whether a workflow still owns it, and settles the reservations of terminated, deleted or
 * lost workflows.
 */
import type { Client } from '@temporalio/client';
import { sql } from 'slonik';
import { z } from 'zod';
import { releaseLostJob } from '../activities/release.ts';
import type { Services } from '../activities/services.ts';
import { workflowIdOf } from '../jobs/contract.ts';
import { workflowOf } from '../jobs/records/job-owner.ts';
import type { Config } from '../platform/config.ts';
import { withCorrelation } from '../platform/correlation.ts';
import { command } from '../platform/database.ts';
import { forEachAlone } from '../platform/isolation.ts';

interface ReservationSweepDeps {
  config: Config;
  services: Pick<Services, 'pool' | 'ledger' | 'logger'>;
  client: Client;
}

/** Decision on a due reservation; `missing`: its workflow is looked up again later. */
type Decision = 'extended' | 'missing' | 'released';
/** Number of reservations by decision; `skipped`: not decided in this pass. */
type ReservationCounts = Record<Decision | 'skipped', number>;

const due = z.object({
  id: z.string(),
  organization_id: z.string(),
  /** Time since the sweeper first found the reservation without a workflow, or past its time. */
  missing_for_ms: z.number().nullable(),
  /** Delay of this check. */
  late_ms: z.number(),
  /** Time from start to deadline; null for a reservation without a job. */
  time_ms: z.number().nullable(),
  /** Time since the deadline; negative before it. */
  overdue_ms: z.number().nullable(),
});
type Due = z.infer<typeof due>;

/**
 * Time for which a workflow must be missing before its reservation is released, because a server
 * that is being restored may not return it for a short time.
 */
export const missingGraceMs = 30_000;
/**
 * Number of checks that pass, in addition to the job's own duration, before an overdue workflow is
 * terminated.
 */
const overdueChecks = 30;
/** Time limit of a request to Temporal about one workflow. */
const requestTimeoutMs = 5000;

/**
 * Checks each due reservation, and settles those whose workflow is lost. The order is random, so
 * that reservations whose check fails do not block the others.
 */
export async function sweepReservations(deps: ReservationSweepDeps): Promise<ReservationCounts> {
  const { pool, logger } = deps.services;
  const counts = { extended: 0, missing: 0, released: 0 };
  const entries = await pool.any(sql.type(due)`
    SELECT r.id, r.organization_id,
      (extract(epoch FROM clock_timestamp() - r.owner_missing_at) * 1000)::float8 AS missing_for_ms,
      (extract(epoch FROM clock_timestamp() - r.expires_at) * 1000)::float8 AS late_ms,
      (extract(epoch FROM j.deadline_at - j.created_at) * 1000)::float8 AS time_ms,
      (extract(epoch FROM clock_timestamp() - j.deadline_at) * 1000)::float8 AS overdue_ms
    FROM reservation r LEFT JOIN job j ON j.id = r.id
    WHERE r.state = 'reserved' AND r.kind = 'studio' AND r.expires_at < clock_timestamp()
    ORDER BY random() LIMIT 100`);
  const decideOne = (entry: Due): Promise<void> =>
    withCorrelation(idsOf(entry), async () => {
      counts[await decide(deps, entry)] += 1;
    });
  const { skipped } = await forEachAlone(entries, decideOne, { subject: 'reservation', logger });
  return { ...counts, skipped };
}

async function decide(deps: ReservationSweepDeps, entry: Due): Promise<Decision> {
  const { RESERVATION_TTL_MS: ttlMs, OUTCOME_WAIT_MS: outcomeWaitMs } = deps.config;
  const { state: owner } = await workflowOf(deps.client, entry.id);
  if (owner === 'running') {
    const isOverdue = (entry.overdue_ms ?? 0) > outcomeWaitMs;
    if (!isOverdue || !isGivenUp(deps.config, entry)) {
      await postpone(deps, entry, { delayMs: ttlMs, missing: isOverdue });
      return 'extended';
    }
    await deps.client.withDeadline(Date.now() + requestTimeoutMs, () =>
      deps.client.workflow.getHandle(workflowIdOf(entry.id)).terminate('overdue, and not settled'),
    );
    await release(deps, entry);
    return 'released';
  }
  const graceMs = Math.min(missingGraceMs, ttlMs);
  if (owner === 'missing' && (entry.missing_for_ms ?? 0) < graceMs) {
    const delayMs = entry.missing_for_ms === null ? graceMs : 1000;
    await postpone(deps, entry, { delayMs, missing: true });
    return 'missing';
  }
  await release(deps, entry);
  return 'released';
}

/**
 * Returns whether an overdue job has had its whole duration once more since a check first found it
 * overdue. The job gets this time because an operator may have reset it. A late check follows an
 * outage in which no job could be settled, so it does not end a job.
 */
function isGivenUp(config: Config, { missing_for_ms, late_ms, time_ms }: Due): boolean {
  const { RESERVATION_TTL_MS: ttlMs, OUTCOME_WAIT_MS: outcomeWaitMs } = config;
  const againMs = (time_ms ?? 0) + outcomeWaitMs + overdueChecks * ttlMs;
  return late_ms < ttlMs && (missing_for_ms ?? 0) > againMs;
}

function idsOf({ id }: Due): { jobId: string; workflowId: string } {
  return { jobId: id, workflowId: workflowIdOf(id) };
}

async function postpone(
  deps: ReservationSweepDeps,
  entry: Due,
  until: { delayMs: number; missing: boolean },
): Promise<void> {
  await deps.services.pool.query(command`UPDATE reservation SET
    expires_at = clock_timestamp() + ${until.delayMs} * interval '1 millisecond',
    owner_missing_at =
      CASE WHEN ${until.missing} THEN coalesce(owner_missing_at, clock_timestamp()) END
    WHERE id = ${entry.id} AND state = 'reserved'`);
}

async function release(deps: ReservationSweepDeps, entry: Due): Promise<void> {
  const { id, organization_id: organizationId } = entry;
  const settled = await releaseLostJob(deps.services.ledger, { organizationId, id });
  deps.services.logger.warn({ verdict: settled.verdict }, 'sweeper.released');
}
