/**
 * Calls looked at from outside their workflow: the provider is asked by the recorded operation, and nothing is
 * moved by it; it is evidence. What is learnt of a job that was released without the provider's word (design
 * §3.6) is recorded, counted and listed, because the provider may charge us. Nobody is charged for it.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import {
  ProviderFailure,
  providerOperation,
  type Operation,
  type Provider,
} from '../providers/provider.ts';
import type { Logger } from '../../platform/logger.ts';

/** What a check found. */
type CallVerdict =
  /** Certainly never taken by the provider. */
  | 'not_sent'
  /** Perhaps taken, and the provider cannot be asked: it never named the call. */
  | 'unknown'
  /** The provider could not be asked now. */
  | 'unreachable'
  | 'pending'
  | 'succeeded'
  | 'failed'
  | 'canceled';

/** Evidence on one call. */
export interface CallFinding {
  callIndex: number;
  provider: string;
  verdict: CallVerdict;
  /** The provider's handle, where it is known. */
  operation: Operation | null;
  /** The same in words. */
  words: string;
}

const recordedCall = z.object({
  callIndex: z.number(),
  provider: z.string(),
  state: z.enum(['waiting', 'begun', 'refused', 'accepted', 'answered', 'unknown']),
  operation: providerOperation.nullable(),
  endpoint: z.string().nullable(),
  notifiedId: z.string().nullable(),
});
type RecordedCall = z.infer<typeof recordedCall>;

const checkTimeoutMs = 20_000;

/** Looks at calls. */
export function createStatusChecks(deps: { pool: DatabasePool; providers: Map<string, Provider> }) {
  return {
    /** Evidence on every call of a job that was ever begun. */
    async ofJob(jobId: string): Promise<CallFinding[]> {
      const calls = await deps.pool.any(sql.type(recordedCall)`
        SELECT c.call_index AS "callIndex", c.provider, c.state, c.operation, c.endpoint,
          (SELECT n.operation_id FROM notification n
            WHERE n.job_id = c.job_id AND n.call_index = c.call_index
            ORDER BY n.received_at DESC LIMIT 1) AS "notifiedId"
        FROM provider_call c WHERE c.job_id = ${jobId} ORDER BY c.call_index`);
      return Promise.all(calls.map((call) => checkCall(deps.providers.get(call.provider), call)));
    },
  };
}
/** See `createStatusChecks`. */
export type StatusChecks = ReturnType<typeof createStatusChecks>;

async function checkCall(provider: Provider | undefined, call: RecordedCall): Promise<CallFinding> {
  const operation = operationOf(provider, call);
  const found = (verdict: CallVerdict, words: string): CallFinding => ({
    callIndex: call.callIndex,
    provider: call.provider,
    verdict,
    operation,
    words,
  });
  if (call.state === 'waiting' || call.state === 'refused') {
    return found('not_sent', `${call.provider} certainly did not take it`);
  }
  if (call.state === 'answered') return found('succeeded', 'its result was received and stored');
  if (!provider?.queue || !operation) {
    return found('unknown', `${call.provider} never named it, so it cannot be asked for it`);
  }
  try {
    const checked = await provider.queue.check(operation, {
      signal: AbortSignal.timeout(checkTimeoutMs),
      expectDone: false,
    });
    if (checked.kind === 'pending') return found('pending', `${call.provider} still works on it`);
    if (checked.kind === 'result') return found('succeeded', `${call.provider} has the result`);
    const canceled = checked.failure.kind === 'canceled';
    return found(canceled ? 'canceled' : 'failed', checked.failure.message);
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    return found('unreachable', error.message);
  }
}

/** The handle as recorded, or made from the id that a verified notification named. */
function operationOf(provider: Provider | undefined, call: RecordedCall): Operation | null {
  if (call.operation) return call.operation;
  if (!provider?.queue || call.notifiedId === null || call.endpoint === null) return null;
  return provider.queue.adopt(call.endpoint, call.notifiedId);
}

const idRow = z.object({ id: z.string() });
const jobIdRow = z.object({ job_id: z.string() });

/** Who came upon a late outcome. */
const finder = z.enum(['notification', 'follow_up', 'operator']);
/** See `finder`. */
type FoundBy = z.infer<typeof finder>;

/** What was learnt of a call after its job had been released. */
export const lateVerdict = z.object({
  verdict: z.string(),
  foundBy: finder,
  foundAtMs: z.number(),
});
const lateCall = z.object({
  index: z.number(),
  provider: z.string(),
  state: z.string(),
  operation: providerOperation.nullable(),
  late: lateVerdict.nullable(),
});

/** A job that was released without the provider's word; amounts in micro-credits, times Unix ms. */
const unknownOutcome = z.object({
  id: z.string(),
  organizationId: z.string(),
  type: z.string(),
  model: z.string().nullable(),
  errorCode: z.string(),
  reserved: z.number(),
  completedAtMs: z.number(),
  calls: z.array(lateCall),
});
/** See `unknownOutcome`. */
export type UnknownOutcome = z.infer<typeof unknownOutcome>;

/** How many there are. */
const outcomeCounts = z.object({
  /** Jobs whose outcome is being verified now. */
  verifying: z.number(),
  /** Jobs that were released without the provider's word. */
  released: z.number(),
  /** Calls of those that had succeeded after all. */
  lateSuccesses: z.number(),
});
/** See `outcomeCounts`. */
type OutcomeCounts = z.infer<typeof outcomeCounts>;

/** Records and reads late outcomes. */
export interface LateOutcomes {
  /** Looks at the calls of a job, and records what is learnt too late. */
  examine: (jobId: string, foundBy: FoundBy) => Promise<CallFinding[]>;
  /** Looks again at released jobs whose provider had not spoken; returns how many. */
  followUp: () => Promise<number>;
  /** Newest first. */
  list: (page: {
    beforeId: string | undefined;
    succeeded: boolean;
    limit: number;
  }) => Promise<readonly UnknownOutcome[]>;
  counts: () => Promise<OutcomeCounts>;
}

const followUpMax = 20;
const recorded = ['pending', 'succeeded', 'failed', 'canceled'];

// Spelled as in the index `job_without_verdict`.
const withoutVerdict = sql.fragment`j.error->>'code' IN ('OUTCOME_UNKNOWN', 'DEADLINE_EXCEEDED', 'JOB_LOST')`;

/** See `LateOutcomes`. */
export function createLateOutcomes(deps: {
  pool: DatabasePool;
  statusChecks: StatusChecks;
  logger: Logger;
}): LateOutcomes {
  const { pool } = deps;

  async function examine(jobId: string, foundBy: FoundBy): Promise<CallFinding[]> {
    const findings = await deps.statusChecks.ofJob(jobId);
    for (const finding of findings) {
      // A job has few calls, and this is rare.
      const late = await record(pool, { jobId, foundBy, finding });
      if (late && finding.verdict === 'succeeded') {
        const { callIndex, provider } = finding;
        deps.logger.warn({ jobId, callIndex, provider, foundBy }, 'outcome.late_success');
      }
    }
    return findings;
  }

  return {
    examine,
    async followUp() {
      const due = await pool.anyFirst(sql.type(idRow)`
        SELECT j.id FROM job j
        WHERE ${withoutVerdict} AND j.completed_at > clock_timestamp() - interval '1 day'
          AND EXISTS (SELECT FROM provider_call c
            LEFT JOIN late_outcome o ON o.job_id = c.job_id AND o.call_index = c.call_index
            WHERE c.job_id = j.id AND c.state IN ('begun', 'accepted', 'unknown')
              AND (c.operation IS NOT NULL OR EXISTS (SELECT FROM notification n
                WHERE n.job_id = c.job_id AND n.call_index = c.call_index))
              AND (o.job_id IS NULL OR o.verdict = 'pending' AND o.next_look_at < clock_timestamp()))
        ORDER BY j.id DESC LIMIT ${followUpMax}`);
      await Promise.all(due.map((jobId) => examine(jobId, 'follow_up')));
      return due.length;
    },
    list({ beforeId, succeeded, limit }) {
      const before = beforeId ?? null;
      return pool.any(sql.type(unknownOutcome)`
        SELECT j.id, j.organization_id AS "organizationId", j.type, j.model,
          j.error->>'code' AS "errorCode", r.amount AS reserved, j.completed_at AS "completedAtMs",
          coalesce((SELECT jsonb_agg(jsonb_build_object('index', c.call_index,
              'provider', c.provider, 'state', c.state,
              'operation', coalesce(o.operation, c.operation), 'late',
              CASE WHEN o.job_id IS NOT NULL THEN jsonb_build_object('verdict', o.verdict,
                'foundBy', o.found_by, 'foundAtMs', unix_ms(o.found_at)) END) ORDER BY c.call_index)
            FROM provider_call c LEFT JOIN late_outcome o
              ON o.job_id = c.job_id AND o.call_index = c.call_index
            WHERE c.job_id = j.id), '[]') AS calls
        FROM job j JOIN reservation r ON r.id = j.id
        WHERE ${withoutVerdict} AND (${before}::text IS NULL OR j.id < ${before}::text)
          AND (NOT ${succeeded} OR EXISTS (SELECT FROM late_outcome o
            WHERE o.job_id = j.id AND o.verdict = 'succeeded'))
        ORDER BY j.id DESC LIMIT ${limit}`);
    },
    counts: () =>
      pool.one(sql.type(outcomeCounts)`SELECT
        (SELECT count(*) FROM reservation r JOIN job j ON j.id = r.id
          WHERE r.state = 'reserved' AND j.verifying) AS verifying,
        (SELECT count(*) FROM job j WHERE ${withoutVerdict}) AS released,
        (SELECT count(*) FROM late_outcome WHERE verdict = 'succeeded') AS "lateSuccesses"`),
  };
}

/** Writes a finding down if its job was released without it; tells whether it did. */
async function record(
  pool: DatabasePool,
  found: { jobId: string; foundBy: FoundBy; finding: CallFinding },
): Promise<boolean> {
  const { jobId, foundBy, finding } = found;
  if (!finding.operation) return false;
  const verdict = finding.verdict === 'unreachable' ? 'pending' : finding.verdict;
  if (!recorded.includes(verdict)) return false;
  const rows = await pool.any(sql.type(jobIdRow)`
    INSERT INTO late_outcome AS o (job_id, call_index, provider, operation, verdict, found_by,
        next_look_at)
      SELECT j.id, ${finding.callIndex}, ${finding.provider}, ${sql.jsonb(finding.operation)},
        ${verdict}, ${foundBy}, clock_timestamp() + interval '1 minute'
      FROM job j WHERE j.id = ${jobId} AND ${withoutVerdict}
    ON CONFLICT (job_id, call_index) DO UPDATE SET verdict = excluded.verdict,
      found_by = excluded.found_by, found_at = clock_timestamp(), looks = o.looks + 1,
      -- One minute, two, four …, an hour at most.
      next_look_at = clock_timestamp() + least(power(2, o.looks), 60) * interval '1 minute'
      WHERE o.verdict = 'pending'
    RETURNING job_id`);
  return rows.length > 0;
}
