/** Lists reservations that have been open for longer than expected, with the reasons. */
import type { Client } from '@temporalio/client';
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { formatDuration } from './job-statement.ts';
import { pipelineStepId } from '../../domain/job-record.ts';
import { stepOfCall } from './job-reads.ts';
import {
  describeFailingTask,
  readWorkflow,
  type WorkflowState,
} from '../executions/workflow-state.ts';

const openCall = z.object({
  index: z.number(),
  step: pipelineStepId,
  provider: z.string(),
  state: z.enum(['waiting', 'begun', 'not_accepted', 'accepted', 'answered', 'unknown']),
  providerRequestId: z.string().nullable(),
  sinceMs: z.number(),
  updatedAtMs: z.number(),
  paused: z.object({ actor: z.string(), reason: z.string(), sinceMs: z.number() }).nullable(),
});
type OpenCall = z.infer<typeof openCall>;

/** Schema of an open reservation with its calls. */
export const openReservationWithCalls = z.object({
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
  /** Bulk job whose item the job is; null for other jobs. */
  bulkId: z.string().nullable(),
  calls: z.array(openCall),
});
type OpenReservationWithCalls = z.infer<typeof openReservationWithCalls>;

/** Open reservation, with the state of its workflow and the reasons why it is open. */
export interface StuckReservation extends OpenReservationWithCalls {
  owner: WorkflowState | null;
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
    (SELECT bulk_id FROM bulk_item WHERE job_id = r.id LIMIT 1) AS "bulkId",
    coalesce((SELECT jsonb_agg(jsonb_build_object('index', c.call_index,
        'step', ${stepOfCall},
        'provider', c.provider, 'state', c.state, 'providerRequestId', c.provider_request_id,
        'sinceMs', unix_ms(c.begun_at), 'updatedAtMs', unix_ms(c.updated_at), 'paused',
        CASE WHEN p.provider IS NOT NULL THEN jsonb_build_object('actor', p.actor,
          'reason', p.reason, 'sinceMs', unix_ms(p.paused_at)) END) ORDER BY c.call_index)
      FROM provider_call c LEFT JOIN provider_pause p ON p.provider = c.provider
      WHERE c.job_id = r.id), '[]') AS calls
  FROM reservation r LEFT JOIN job j ON j.id = r.id
  WHERE r.state = 'reserved' AND ${where}`;

/** Creates the functions that read open reservations and the states of their workflows. */
export function createStuckJobs(deps: { pool: DatabasePool; client: Client }) {
  async function addReasons(row: OpenReservationWithCalls): Promise<StuckReservation> {
    const owner =
      row.kind === 'studio' ? await readWorkflow(deps.client, row.id).catch(() => null) : null;
    return { ...row, owner, reasons: findReasons(row, owner, Date.now()) };
  }

  return {
    async list({ organizationId, olderThanMs, limit }: StuckListing): Promise<StuckReservation[]> {
      const owner = organizationId ?? null;
      const rows = await deps.pool.any(sql.type(
        openReservationWithCalls,
      )`${selectReservations(sql.fragment`
          (${owner}::text IS NULL OR r.organization_id = ${owner}::text)
          AND (r.created_at < clock_timestamp() - ${olderThanMs} * interval '1 millisecond'
            OR j.deadline_at < clock_timestamp() OR j.verifying
            OR r.owner_missing_at IS NOT NULL)`)}
        ORDER BY r.created_at, r.id LIMIT ${limit}`);
      return Promise.all(rows.map(addReasons));
    },
    /**
     * Returns an open reservation with the reasons why it is open; null if it is settled or does
     * not exist.
     */
    async find(id: string): Promise<StuckReservation | null> {
      const row = await deps.pool.maybeOne(
        sql.type(openReservationWithCalls)`${selectReservations(sql.fragment`r.id = ${id}`)}`,
      );
      return row && addReasons(row);
    },
  };
}

/** Describes why a reservation is still open. */
function findReasons(
  reservation: OpenReservationWithCalls,
  owner: WorkflowState | null,
  nowMs: number,
): string[] {
  if (reservation.kind === 'chat')
    return [
      'an open chat: it is settled when it ends or, if its process crashes, at its last checkpoint',
    ];
  const formatAgo = (timeMs: number): string => `${formatDuration(nowMs - timeMs)} ago`;
  const reasons: string[] = [];
  if (owner === null)
    reasons.push('Temporal is unreachable, so the state of its workflow is unknown');
  else if (owner.state === 'missing')
    reasons.push('workflow missing: Temporal has no workflow with this id');
  else if (owner.state === 'closed') {
    reasons.push(`workflow ended (${owner.status}) without settling the reservation`);
  }
  if (reservation.ownerMissingAtMs !== null) {
    const foundAgo = formatAgo(reservation.ownerMissingAtMs);
    reasons.push(
      owner === null
        ? `the sweeper found its workflow missing or overdue ${foundAgo}`
        : owner.state === 'running'
          ? `the sweeper found its workflow overdue ${foundAgo} and will terminate it later`
          : `the sweeper found no workflow ${foundAgo} and will release the reservation soon`,
    );
  }
  if (reservation.deadlineAtMs !== null && reservation.deadlineAtMs < nowMs) {
    reasons.push(`deadline passed ${formatAgo(reservation.deadlineAtMs)}`);
  }
  const unfinishedCalls = reservation.calls.filter((call) => call.state !== 'answered');
  reasons.push(
    ...unfinishedCalls.map((call) => describeCall(call, reservation.verifying === true, formatAgo)),
  );
  if (reservation.calls.length === 0) reasons.push('no call has been sent');
  else if (unfinishedCalls.length === 0)
    reasons.push('all calls have results, but the job is not settled');
  const bulk = reservation.bulkId === null ? [] : [`it is an item of ${reservation.bulkId}`];
  return [...reasons, ...listRetryReasons(owner), ...bulk];
}

/**
 * Describes the failing workflow task, or the activities that Temporal retries, except the wait for a
 * paused provider, which the state of the call describes.
 */
function listRetryReasons(owner: WorkflowState | null): string[] {
  const { failingTask } = owner ?? {};
  if (failingTask) return [describeFailingTask(failingTask)];
  const retries = (owner?.retries ?? []).filter(({ activity }) => activity !== 'awaitResume');
  return retries.map(({ activity, failures, lastError }) => {
    const times = failures === 1 ? 'once' : `${failures} times`;
    return `activity ${activity} failed ${times} and is retried; last error: ${lastError}`;
  });
}

/** Describes the state of a call. `formatAgo` formats a Unix time as the time since then. */
function describeCall(
  call: OpenCall,
  verifying: boolean,
  formatAgo: (timeMs: number) => string,
): string {
  const { provider, providerRequestId } = call;
  const name =
    call.step === null ? `call ${call.index + 1}` : `call ${call.index + 1} (${call.step})`;
  const requestId = providerRequestId === null ? '' : ` (${providerRequestId})`;
  switch (call.state) {
    case 'waiting':
      return call.paused
        ? `${name} is waiting: ${provider} was paused ${formatAgo(call.paused.sinceMs)} by ${call.paused.actor}: ${call.paused.reason}`
        : `${name} is waiting: ${provider} was paused and has been resumed`;
    case 'begun':
      return `${name}: the submit to ${provider} began ${formatAgo(call.sinceMs)}`;
    case 'unknown':
      return `${name} has an unknown outcome: the submit to ${provider} ${formatAgo(call.sinceMs)} ended without a request id or a stored result`;
    case 'not_accepted':
      return `${name} was not accepted by ${provider} ${formatAgo(call.updatedAtMs)} and will be sent again`;
    case 'accepted':
      return verifying
        ? `${name} has an unknown outcome: ${provider}${requestId} has not reported it; last checked ${formatAgo(call.updatedAtMs)}`
        : `${name} was submitted to ${provider}${requestId} ${formatAgo(call.sinceMs)}; its result is not stored`;
    case 'answered':
      return `${name}: the result is stored`;
    default:
      return call.state satisfies never;
  }
}
