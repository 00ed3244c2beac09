/** Lists reservations that have been open for longer than expected, with the reasons. */
import type { Client } from '@temporalio/client';
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { formatAgo } from '../../domain/durations.ts';
import {
  describeFailures,
  readWorkflow,
  type WorkflowState,
} from '../../executions/workflow-state.ts';
import { createReadCalls, describeCall, type JobCall } from './job-calls.ts';

/** Schema of an open reservation. */
export const openReservation = z.object({
  id: z.string(),
  kind: z.enum(['studio', 'chat']),
  organizationId: z.string(),
  type: z.string().nullable(),
  model: z.string().nullable(),
  creditsMicro: z.number(),
  createdAtMs: z.number(),
  deadlineAtMs: z.number().nullable(),
  ownerMissingAtMs: z.number().nullable(),
  verifying: z.boolean().nullable(),
  /** Steps that wait for a decision of the caller; null if none does. */
  awaiting: z.array(z.string()).nullable(),
  /** Bulk job whose item the job is; null for other jobs. */
  bulkId: z.string().nullable(),
});
type OpenReservation = z.infer<typeof openReservation>;

/** Open reservation, with the state of its workflow and the reasons why it is open. */
export interface StuckReservation extends OpenReservation {
  workflow: WorkflowState | null;
  /** Reasons in this order: the workflow, the deadline, the calls, the failing workflow task or activities, the bulk job. */
  reasons: string[];
}

/** Filter and size of a list of open reservations, oldest first. */
interface StuckListing {
  organizationId: string | undefined;
  /**
   * Minimum age of the listed reservations, in milliseconds. Reservations whose job is past its
   * deadline, has an unknown outcome or has no workflow are listed at every age.
   */
  olderThanMs: number;
  limit: number;
}

const selectReservations = (where: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  SELECT r.id, r.kind, r.organization_id AS "organizationId", j.type,
    coalesce(j.model, r.model) AS model, r.amount AS "creditsMicro",
    r.created_at AS "createdAtMs", j.deadline_at AS "deadlineAtMs",
    r.owner_missing_at AS "ownerMissingAtMs", j.verifying,
    (SELECT array_agg(w.key) FROM jsonb_each(j.approvals) AS w WHERE w.value->'end' = 'null')
      AS awaiting, (SELECT bulk_id FROM bulk_item WHERE job_id = r.id LIMIT 1) AS "bulkId"
  FROM reservation r LEFT JOIN job j ON j.id = r.id
  WHERE r.state = 'reserved' AND ${where}`;

/** Creates the functions that read open reservations and the states of their workflows. */
export function createStuckJobs({ pool, client }: { pool: DatabasePool; client: Client }) {
  const readCalls = createReadCalls(pool);

  async function addReasons(rows: readonly OpenReservation[]): Promise<StuckReservation[]> {
    const calls = Map.groupBy(await readCalls(rows.map(({ id }) => id)), ({ jobId }) => jobId);
    return Promise.all(
      rows.map(async (row) => {
        const workflow =
          row.kind === 'studio' || row.type !== null
            ? await readWorkflow(client, row.id).catch(() => null)
            : null;
        return { ...row, workflow, reasons: findReasons(row, calls.get(row.id) ?? [], workflow) };
      }),
    );
  }

  return {
    async list({ organizationId, olderThanMs, limit }: StuckListing): Promise<StuckReservation[]> {
      const organization = organizationId ?? null;
      const rows = await pool.any(sql.type(openReservation)`${selectReservations(sql.fragment`
          (${organization}::text IS NULL OR r.organization_id = ${organization}::text)
          AND (r.created_at < clock_timestamp() - ${olderThanMs} * interval '1 millisecond'
              AND NOT coalesce(j.awaiting, false)
            OR j.deadline_at < clock_timestamp() OR j.verifying
            OR r.owner_missing_at IS NOT NULL)`)}
        ORDER BY r.created_at, r.id LIMIT ${limit}`);
      return addReasons(rows);
    },
    /**
     * Returns an open reservation with the reasons why it is open; null if it is settled or does
     * not exist.
     */
    async find(id: string): Promise<StuckReservation | null> {
      const rows = await pool.any(
        sql.type(openReservation)`${selectReservations(sql.fragment`r.id = ${id}`)}`,
      );
      return (await addReasons(rows))[0] ?? null;
    },
  };
}

/** Describes why a reservation is still open. */
function findReasons(
  reservation: OpenReservation,
  calls: readonly JobCall[],
  workflow: WorkflowState | null,
): string[] {
  if (reservation.kind === 'chat' && reservation.type === null)
    return [
      'an open chat: it is settled when it ends or, if its process crashes, at its last checkpoint',
    ];
  const reasons: string[] = [];
  if (workflow === null)
    reasons.push('Temporal is unreachable, so the state of its workflow is unknown');
  else if (workflow.state === 'missing')
    reasons.push('workflow missing: Temporal has no workflow with this id');
  else if (workflow.state === 'closed') {
    reasons.push(`workflow ended (${workflow.status}) without settling the reservation`);
  }
  if (reservation.ownerMissingAtMs !== null) {
    const foundAgo = formatAgo(reservation.ownerMissingAtMs);
    reasons.push(
      workflow === null
        ? `the sweeper found its workflow missing or overdue ${foundAgo}`
        : workflow.state === 'running'
          ? `the sweeper found its workflow overdue ${foundAgo} and will terminate it later`
          : `the sweeper found no workflow ${foundAgo} and will release the reservation soon`,
    );
  }
  if (reservation.deadlineAtMs !== null && reservation.deadlineAtMs < Date.now()) {
    reasons.push(`deadline passed ${formatAgo(reservation.deadlineAtMs)}`);
  }
  const unfinishedCalls = calls.filter((call) => call.state !== 'answered');
  reasons.push(
    ...unfinishedCalls.map(
      (call) => describeCall(call, reservation.verifying === true).forOperators,
    ),
  );
  const { awaiting } = reservation;
  if (awaiting)
    reasons.push(`waits for a decision of the caller about the step ${awaiting.join(', ')}`);
  else if (calls.length === 0) reasons.push('no call has been sent');
  else if (unfinishedCalls.length === 0)
    reasons.push('all calls have results, but the job is not settled');
  const bulk = reservation.bulkId === null ? [] : [`it is an item of ${reservation.bulkId}`];
  return [...reasons, ...(workflow ? describeFailures(workflow) : []), ...bulk];
}
