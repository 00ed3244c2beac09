/**
 * Status checks of calls from outside their workflow, and the list of jobs that were released
 * without an outcome of the provider. A check requests the status of the recorded operation and
 * moves no credits.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import {
  providerOperation,
  type ProviderOperation,
  type Provider,
} from '../../providers/provider.ts';

/** Outcome of a check. */
type CallVerdict =
  /** Never accepted by the provider. */
  | 'not_sent'
  /**
   * Possibly accepted; its status cannot be requested, because the provider request id is unknown.
   */
  | 'unknown'
  /** The provider could not be reached. */
  | 'unreachable'
  | 'pending'
  | 'succeeded'
  | 'failed'
  | 'canceled';

/** Evidence about one call. */
export interface CallFinding {
  callIndex: number;
  provider: string;
  verdict: CallVerdict;
  /** Operation of the provider, if it is known. */
  operation: ProviderOperation | null;
  /** Description for operators. */
  message: string;
}

const recordedCall = z.object({
  callIndex: z.number(),
  provider: z.string(),
  state: z.enum(['waiting', 'begun', 'refused', 'accepted', 'answered', 'unknown']),
  operation: providerOperation.nullable(),
  providerEndpoint: z.string().nullable(),
  notifiedId: z.string().nullable(),
});
type RecordedCall = z.infer<typeof recordedCall>;

const checkTimeoutMs = 20_000;

/** Checks of calls. */
export function createStatusChecks(deps: { pool: DatabasePool; providers: Map<string, Provider> }) {
  return {
    /** Returns evidence about every call of a job that was sent. */
    async ofJob(jobId: string): Promise<CallFinding[]> {
      const calls = await deps.pool.any(sql.type(recordedCall)`
        SELECT c.call_index AS "callIndex", c.provider, c.state, c.operation, c.provider_endpoint AS "providerEndpoint",
          (SELECT n.operation_id FROM provider_notification n
            WHERE n.job_id = c.job_id AND n.call_index = c.call_index
            ORDER BY n.received_at DESC LIMIT 1) AS "notifiedId"
        FROM provider_call c WHERE c.job_id = ${jobId} ORDER BY c.call_index`);
      return Promise.all(calls.map((call) => checkCall(deps.providers.get(call.provider), call)));
    },
  };
}
async function checkCall(provider: Provider | undefined, call: RecordedCall): Promise<CallFinding> {
  const operation = operationOf(provider, call);
  const found = (verdict: CallVerdict, message: string): CallFinding => ({
    callIndex: call.callIndex,
    provider: call.provider,
    verdict,
    operation,
    message,
  });
  if (call.state === 'waiting' || call.state === 'refused') {
    return found('not_sent', `${call.provider} certainly did not take it`);
  }
  if (call.state === 'answered') return found('succeeded', 'its result was received and stored');
  if (!provider?.queue || !operation) {
    return found(
      'unknown',
      `${call.provider} returned no request id, so its status cannot be requested`,
    );
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

/** Returns the recorded operation, or one made from the request id of a verified notification. */
function operationOf(provider: Provider | undefined, call: RecordedCall): ProviderOperation | null {
  if (call.operation) return call.operation;
  if (!provider?.queue || call.notifiedId === null || call.providerEndpoint === null) return null;
  return provider.queue.adopt(call.providerEndpoint, call.notifiedId);
}

/** Schema of a call of a job without an outcome. */
export const listedCall = z.object({
  index: z.int(),
  provider: z.string(),
  state: z.string(),
  operation: providerOperation.nullable(),
  /** Time of the first notification that arrived after the workflow had ended. */
  lateNotificationAtMs: z.number().nullable(),
});

/** Schema of a job that was released without an outcome of the provider. */
export const unknownOutcome = z.object({
  jobId: z.string(),
  organizationId: z.string(),
  type: z.string(),
  model: z.string().nullable(),
  errorCode: z.string(),
  creditsMicro: z.number(),
  releasedAtMs: z.number(),
  calls: z.array(listedCall),
});
type UnknownOutcome = z.infer<typeof unknownOutcome>;

/**
 * Number of jobs whose outcome is being verified, and of jobs that were released without an
 * outcome.
 */
export const outcomeCounts = z.object({ verifying: z.int(), released: z.int() });

// Same condition as the index `job_without_verdict`.
const withoutVerdict = sql.fragment`j.error->>'code' IN ('OUTCOME_UNKNOWN', 'DEADLINE_EXCEEDED', 'JOB_LOST')`;

/** Reads of the jobs that were released without an outcome. */
export function createUnknownOutcomes(pool: DatabasePool) {
  return {
    /** Lists the jobs, newest first. */
    list: (page: {
      beforeId: string | undefined;
      limit: number;
    }): Promise<readonly UnknownOutcome[]> => {
      const before = page.beforeId ?? null;
      return pool.any(sql.type(unknownOutcome)`
        SELECT j.id AS "jobId", j.organization_id AS "organizationId", j.type, j.model,
          j.error->>'code' AS "errorCode", r.amount AS "creditsMicro",
          j.completed_at AS "releasedAtMs",
          coalesce((SELECT jsonb_agg(jsonb_build_object('index', c.call_index,
              'provider', c.provider, 'state', c.state, 'operation', c.operation,
              'lateNotificationAtMs', (SELECT unix_ms(min(n.received_at)) FROM provider_notification n
                WHERE n.job_id = c.job_id AND n.call_index = c.call_index AND n.state = 'late'))
              ORDER BY c.call_index)
            FROM provider_call c WHERE c.job_id = j.id), '[]') AS calls
        FROM job j JOIN reservation r ON r.id = j.id
        WHERE ${withoutVerdict} AND (${before}::text IS NULL OR j.id < ${before}::text)
        ORDER BY j.id DESC LIMIT ${page.limit}`);
    },
    counts: () =>
      pool.one(sql.type(outcomeCounts)`SELECT
        (SELECT count(*) FROM reservation r JOIN job j ON j.id = r.id
          WHERE r.state = 'reserved' AND j.verifying) AS verifying,
        (SELECT count(*) FROM job j WHERE ${withoutVerdict}) AS released`),
  };
}
