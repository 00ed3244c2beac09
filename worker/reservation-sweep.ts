/**
 * Sweeps the reservations of jobs. For each open reservation whose check is due, checks
 * whether the workflow of the job is still running. Releases the reservation if the workflow was
 * terminated, was deleted or is lost.
 */
import type { Client } from '@temporalio/client';
import { sql } from 'slonik';
import { z } from 'zod';
import { settleChat } from '../activities/answer-chat.ts';
import { errorTable } from '../domain/errors.ts';
import { requestCheck } from '../studio/jobs/job-execution.ts';
import { releaseLostJob } from '../studio/jobs/job-endings.ts';
import type { Services } from '../process/services.ts';
import { jobWorkflowId } from '../domain/job-contract.ts';
import { missingGraceMs, sweepExecutions } from '../executions/keeper.ts';
import type { Config } from '../platform/config.ts';
import { command } from '../platform/database.ts';
import { callTemporal } from '../platform/temporal.ts';

interface ReservationSweepDeps {
  config: Config;
  services: Pick<
    Services,
    'pool' | 'ledger' | 'logger' | 'chatJobs' | 'chatLedger' | 'records' | 'reads'
  >;
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
  kind: z.enum(['studio', 'chat']),
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
  /** True if a step of the job waited for a decision, and its wait has ended. */
  isDecided: z.boolean(),
});
type DueReservation = z.infer<typeof dueReservation>;

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
  const { client, config, services } = deps;
  const { pool, logger } = services;
  const counts = { extended: 0, missing: 0, released: 0 };
  const graceMs = Math.min(missingGraceMs, config.RESERVATION_TTL_MS);
  const count = async (decision: Decision, change: Promise<void>): Promise<void> => {
    await change;
    counts[decision] += 1;
  };
  const { skipped } = await sweepExecutions(
    { client, logger, graceMs },
    {
      subject: 'reservation',
      listDue: () =>
        pool.any(sql.type(dueReservation)`
          SELECT r.id, r.organization_id AS "organizationId", r.kind,
            (extract(epoch FROM clock_timestamp() - r.owner_missing_at) * 1000)::float8 AS "missingForMs",
            (extract(epoch FROM clock_timestamp() - r.expires_at) * 1000)::float8 AS "lateMs",
            (extract(epoch FROM j.deadline_at - j.created_at) * 1000)::float8 AS "durationMs",
            (extract(epoch FROM clock_timestamp() - j.deadline_at) * 1000)::float8 AS "overdueMs",
            coalesce(jsonb_path_exists(j.approvals, '$.*.end.kind'), false) AS "isDecided"
          FROM reservation r LEFT JOIN job j ON j.id = r.id
          WHERE r.state = 'reserved' AND (r.kind = 'studio' OR j.id IS NOT NULL) AND r.expires_at < clock_timestamp()
          ORDER BY random() LIMIT 100`),
      onRunning: async (entry, { resetAt }) => {
        if (entry.isDecided && wasReset(config, entry, resetAt))
          await requestCheck(client, entry.id);
        const isOverdue = (entry.overdueMs ?? 0) > config.OUTCOME_WAIT_MS;
        if (isOverdue && isOutOfTime(config, entry))
          return count('released', terminate(deps, entry));
        const delayMs = config.RESERVATION_TTL_MS;
        return count('extended', postpone(deps, entry, { delayMs, missing: isOverdue }));
      },
      onMissing: (entry) => {
        const delayMs = entry.missingForMs === null ? graceMs : 1000;
        return count('missing', postpone(deps, entry, { delayMs, missing: true }));
      },
      onEnded: (entry) => count('released', release(deps, entry)),
    },
  );
  return { ...counts, skipped };
}

/**
 * Returns whether a workflow was reset since about the last check. It may wait for a decision that the row of its job has, and
 * that the reset left out, so it must read the row.
 */
const wasReset = (
  { RESERVATION_TTL_MS }: ReservationSweepDeps['config'],
  { lateMs }: DueReservation,
  resetAt: string | null,
): boolean =>
  resetAt !== null && Date.now() - Date.parse(resetAt) < lateMs + 2 * RESERVATION_TTL_MS;

async function terminate(deps: ReservationSweepDeps, entry: DueReservation): Promise<void> {
  await callTemporal(deps.client, () =>
    deps.client.workflow
      .getHandle(jobWorkflowId(entry.id))
      .terminate('the job is overdue and not settled'),
  );
  await release(deps, entry);
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
  const { id, organizationId, kind } = entry;
  const { services } = deps;
  const error = { code: 'JOB_LOST', message: errorTable.JOB_LOST.message } as const;
  const settleResult =
    kind === 'chat'
      ? await settleChat(services, { organizationId, jobId: id, error })
      : await releaseLostJob(services.ledger, { organizationId, id });
  deps.services.logger.warn({ jobId: id, verdict: settleResult.verdict }, 'sweeper.released');
}
