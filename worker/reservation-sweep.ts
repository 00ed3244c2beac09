/**
 * Sweeps the reservations of Studio jobs. For each open reservation whose check is due, checks
 * whether the workflow of the job is still running. Releases the reservation if the workflow was
 * terminated, was deleted or is lost.
 */
import type { Client } from '@temporalio/client';
import { sql } from 'slonik';
import { z } from 'zod';
import { releaseLostJob } from '../studio/jobs/job-endings.ts';
import type { Services } from '../process/services.ts';
import { jobWorkflowId } from '../domain/job-contract.ts';
import { readWorkflow } from '../studio/jobs/job-workflow.ts';
import type { Config } from '../platform/config.ts';
import { withCorrelation } from '../platform/logger.ts';
import { command } from '../platform/database.ts';
import { forEachIsolated } from '../platform/background.ts';
import { callTemporal } from '../platform/temporal.ts';

interface ReservationSweepDeps {
  config: Config;
  services: Pick<Services, 'pool' | 'ledger' | 'logger'>;
  client: Client;
}

/**
 * Decision about a due reservation. `extended`: its workflow is running. `missing`: its workflow
 * was not found and is looked up again later. `released`: its credits were released.
 */
type Decision = 'extended' | 'missing' | 'released';
/**
 * Number of reservations for each decision. `skipped` is the number of reservations whose check
 * failed in this pass of the sweeper.
 */
type ReservationCounts = Record<Decision | 'skipped', number>;

const dueReservation = z.object({
  id: z.string(),
  organizationId: z.string(),
  /**
   * Milliseconds since the sweeper first found that the workflow is missing or overdue; null if it
   * is neither.
   */
  missingForMs: z.number().nullable(),
  /** Milliseconds since the check of the reservation was due. */
  lateMs: z.number(),
  /**
   * Milliseconds from the creation of the job to its deadline; null for a reservation without a
   * job.
   */
  durationMs: z.number().nullable(),
  /**
   * Milliseconds since the deadline of the job; negative before the deadline, null for a
   * reservation without a job.
   */
  overdueMs: z.number().nullable(),
});
type DueReservation = z.infer<typeof dueReservation>;

/**
 * Time for which a workflow must be missing before its reservation is released, in milliseconds.
 * While a Temporal server is restored, it may briefly not find a workflow that exists.
 */
export const missingGraceMs = 30_000;
/**
 * Number of check intervals for which an overdue workflow may run, in addition to the time limit of
 * its job, before it is terminated.
 */
const overdueChecksMax = 30;

/**
 * Checks the due reservations, and releases those whose workflow no longer runs. The order is
 * random, so that reservations whose check fails do not delay the others.
 */
export async function sweepReservations(deps: ReservationSweepDeps): Promise<ReservationCounts> {
  const { pool, logger } = deps.services;
  const counts = { extended: 0, missing: 0, released: 0 };
  const entries = await pool.any(sql.type(dueReservation)`
    SELECT r.id, r.organization_id AS "organizationId",
      (extract(epoch FROM clock_timestamp() - r.owner_missing_at) * 1000)::float8 AS "missingForMs",
      (extract(epoch FROM clock_timestamp() - r.expires_at) * 1000)::float8 AS "lateMs",
      (extract(epoch FROM j.deadline_at - j.created_at) * 1000)::float8 AS "durationMs",
      (extract(epoch FROM clock_timestamp() - j.deadline_at) * 1000)::float8 AS "overdueMs"
    FROM reservation r LEFT JOIN job j ON j.id = r.id
    WHERE r.state = 'reserved' AND r.kind = 'studio' AND r.expires_at < clock_timestamp()
    ORDER BY random() LIMIT 100`);
  const checkOne = (entry: DueReservation): Promise<void> =>
    withCorrelation(getIds(entry), async () => {
      counts[await checkReservation(deps, entry)] += 1;
    });
  const { skipped } = await forEachIsolated(entries, checkOne, { subject: 'reservation', logger });
  return { ...counts, skipped };
}

async function checkReservation(
  deps: ReservationSweepDeps,
  entry: DueReservation,
): Promise<Decision> {
  const { RESERVATION_TTL_MS: ttlMs, OUTCOME_WAIT_MS: outcomeWaitMs } = deps.config;
  const { state: workflowState } = await readWorkflow(deps.client, entry.id);
  if (workflowState === 'running') {
    const isOverdue = (entry.overdueMs ?? 0) > outcomeWaitMs;
    if (!isOverdue || !isOutOfTime(deps.config, entry)) {
      await postpone(deps, entry, { delayMs: ttlMs, missing: isOverdue });
      return 'extended';
    }
    await callTemporal(deps.client, () =>
      deps.client.workflow
        .getHandle(jobWorkflowId(entry.id))
        .terminate('the job is overdue and not settled'),
    );
    await release(deps, entry);
    return 'released';
  }
  const graceMs = Math.min(missingGraceMs, ttlMs);
  if (workflowState === 'missing' && (entry.missingForMs ?? 0) < graceMs) {
    const delayMs = entry.missingForMs === null ? graceMs : 1000;
    await postpone(deps, entry, { delayMs, missing: true });
    return 'missing';
  }
  await release(deps, entry);
  return 'released';
}

/**
 * Returns whether an overdue workflow must be terminated. It may run for the job's time limit once
 * more after a check first found it overdue, because an operator may have reset it. A late check
 * terminates nothing, because no job could be settled during the outage that delayed it.
 */
function isOutOfTime(
  config: Config,
  { missingForMs, lateMs, durationMs }: DueReservation,
): boolean {
  const { RESERVATION_TTL_MS: ttlMs, OUTCOME_WAIT_MS: outcomeWaitMs } = config;
  const allowedMs = (durationMs ?? 0) + outcomeWaitMs + overdueChecksMax * ttlMs;
  return lateMs < ttlMs && (missingForMs ?? 0) > allowedMs;
}

function getIds({ id }: DueReservation): { jobId: string; workflowId: string } {
  return { jobId: id, workflowId: jobWorkflowId(id) };
}

async function postpone(
  deps: ReservationSweepDeps,
  entry: DueReservation,
  next: { delayMs: number; missing: boolean },
): Promise<void> {
  await deps.services.pool.query(command`UPDATE reservation SET
    expires_at = clock_timestamp() + ${next.delayMs} * interval '1 millisecond',
    owner_missing_at =
      CASE WHEN ${next.missing} THEN coalesce(owner_missing_at, clock_timestamp()) END
    WHERE id = ${entry.id} AND state = 'reserved'`);
}

async function release(deps: ReservationSweepDeps, entry: DueReservation): Promise<void> {
  const { id, organizationId } = entry;
  const settleResult = await releaseLostJob(deps.services.ledger, { organizationId, id });
  deps.services.logger.warn({ verdict: settleResult.verdict }, 'sweeper.released');
}
