/**
 * Checks the status of a job's provider calls for operators, outside of its workflow. A check only
 * requests the status from the provider; it changes no record and no credits.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import type { ProviderOperation, Provider } from '../../providers/provider.ts';
import { createReadCalls, type JobCall } from './job-calls.ts';

/** Status of a call, according to its record or its provider. */
type CallStatus =
  /** The provider never accepted the call. */
  | 'not_sent'
  /**
   * The provider may have accepted the call. Its status cannot be requested, because no operation
   * of the call is known.
   */
  | 'unknown'
  /** The provider could not be reached. */
  | 'unreachable'
  | 'pending'
  | 'succeeded'
  | 'failed'
  | 'canceled';

/** Result of the status check of a call. */
export interface CallFinding {
  callIndex: number;
  provider: string;
  verdict: CallStatus;
  /** Provider operation of the call; null if it is unknown. */
  operation: ProviderOperation | null;
  /** Description of the result for operators. */
  message: string;
}

const checkTimeoutMs = 20_000;

/** Creates the function that checks all recorded calls of a job. */
export function createCallChecker(deps: { pool: DatabasePool; providers: Map<string, Provider> }) {
  const readCalls = createReadCalls(deps.pool);
  return async (jobId: string): Promise<CallFinding[]> => {
    const calls = await readCalls([jobId]);
    return Promise.all(calls.map((call) => checkCall(deps.providers.get(call.provider), call)));
  };
}

async function checkCall(provider: Provider | undefined, call: JobCall): Promise<CallFinding> {
  const operation = findOperation(provider, call);
  const createFinding = (verdict: CallStatus, message: string): CallFinding => ({
    callIndex: call.index,
    provider: call.provider,
    verdict,
    operation,
    message,
  });
  if (call.state === 'waiting' || call.state === 'not_accepted') {
    return createFinding('not_sent', `${call.provider} did not accept the call`);
  }
  if (call.state === 'answered') {
    return createFinding('succeeded', 'the result was received and stored');
  }
  if (!provider?.operations || !operation) {
    return createFinding(
      'unknown',
      `the status at ${call.provider} cannot be requested, because no operation of the call is known`,
    );
  }
  try {
    const checkResult = await provider.operations.check(operation, {
      signal: AbortSignal.timeout(checkTimeoutMs),
      hasEnded: false,
    });
    if (checkResult.kind === 'pending') {
      return createFinding('pending', `${call.provider} is still working on the call`);
    }
    if (checkResult.kind === 'result') {
      return createFinding('succeeded', `${call.provider} has the result`);
    }
    const isCanceled = checkResult.failure.kind === 'canceled';
    return createFinding(isCanceled ? 'canceled' : 'failed', checkResult.failure.message);
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    return createFinding('unreachable', error.message);
  }
}

/**
 * Returns the provider operation of a call from its record, or creates it from the id in a verified
 * notification. Returns null if the call has neither.
 */
function findOperation(provider: Provider | undefined, call: JobCall): ProviderOperation | null {
  if (call.operation) return call.operation;
  if (!provider?.operations || call.notifiedOperationId === null || call.providerEndpoint === null)
    return null;
  return provider.operations.adopt(call.providerEndpoint, call.notifiedOperationId);
}

export type CallChecker = ReturnType<typeof createCallChecker>;

/**
 * Schema of a job whose credits, or a part of them, were released although the outcome of a call is
 * unknown. `errorCode`: the error of the job, or of the first such call of a completed job.
 */
export const jobWithUnknownOutcome = z.object({
  jobId: z.string(),
  organizationId: z.string(),
  type: z.string(),
  model: z.string().nullable(),
  errorCode: z.string(),
  creditsMicro: z.number(),
  releasedAtMs: z.number(),
});
type JobWithUnknownOutcome = z.infer<typeof jobWithUnknownOutcome> & { calls: readonly JobCall[] };

/**
 * Schema of two numbers of jobs. `verifying`: jobs whose outcome is being verified. `released`:
 * jobs whose credits were released although their outcome is unknown.
 */
export const outcomeCounts = z.object({
  verifying: z.int(),
  released: z.int(),
  releasedLastHour: z.int(),
});

/** Creates the functions that read jobs whose credits were released with an unknown outcome. */
export function createUnknownOutcomes(pool: DatabasePool) {
  const readCalls = createReadCalls(pool);
  return {
    /** Lists the jobs, newest first. */
    async list(page: {
      beforeId: string | undefined;
      limit: number;
    }): Promise<JobWithUnknownOutcome[]> {
      const before = page.beforeId ?? null;
      const jobs = await pool.any(sql.type(jobWithUnknownOutcome)`
        SELECT j.id AS "jobId", j.organization_id AS "organizationId", j.type, j.model,
          j.unknown_outcome AS "errorCode", r.amount - coalesce(r.charged, 0) AS "creditsMicro",
          j.completed_at AS "releasedAtMs"
        FROM job j JOIN reservation r ON r.id = j.id
        WHERE j.unknown_outcome IS NOT NULL AND (${before}::text IS NULL OR j.id < ${before}::text)
        ORDER BY j.id DESC LIMIT ${page.limit}`);
      const calls = await readCalls(jobs.map(({ jobId }) => jobId));
      return jobs.map((job) => ({
        ...job,
        calls: calls.filter(({ jobId }) => jobId === job.jobId),
      }));
    },
    counts: () =>
      pool.one(sql.type(outcomeCounts)`SELECT
        (SELECT count(*) FROM reservation r JOIN job j ON j.id = r.id
          WHERE r.state = 'reserved' AND j.verifying) AS verifying,
        count(*) AS released,
        count(*) FILTER (WHERE j.completed_at > clock_timestamp() - interval '1 hour'
          AND j.unknown_outcome = 'OUTCOME_UNKNOWN') AS "releasedLastHour"
        FROM job j WHERE j.unknown_outcome IS NOT NULL`),
  };
}
