/** Activity `reserve`: reserves the price of a job and stores the job, in one transaction. */
import { sql } from 'slonik';
import { z } from 'zod';
import { asJson } from '../domain/json.ts';
import type { JobPlan } from '../jobs/job-plan.ts';
import type { Rejection, ReserveResult } from '../jobs/ledger-results.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { correlate } from '../platform/correlation.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';

const pausedRow = z.object({ provider: z.string() });
const settledRow = z.object({
  status: z.enum(['completed', 'failed', 'canceled']),
  /** Error code of a failed or canceled job; null for a completed one. */
  errorCode: z.string().nullable(),
});
/** End of a job that an earlier run of its workflow, or the sweeper, has already settled. */
export type EarlierSettlement = z.infer<typeof settledRow>;

/** Result for a job that has a reservation. */
type Reserved = Extract<ReserveResult, { verdict: 'reserved' }> & {
  /** Paused providers, to which no call may be sent. */
  paused: string[];
  /** How the job ended, if it is already settled; otherwise null. */
  settledBefore: EarlierSettlement | null;
};

/** Result of `reserve`. */
export type ReserveOutcome = Rejection | Reserved;

/** Services that `reserve` uses. */
interface ReserveDeps {
  ledger: Ledger;
  pool: DatabasePool;
  logger: Logger;
}

/** Reserves the price of a job. If it is repeated, it returns the first verdict again. */
export async function reserve(
  { ledger, pool, logger }: ReserveDeps,
  plan: JobPlan,
): Promise<ReserveOutcome> {
  const { request, ...planned } = plan;
  correlate({ requestId: plan.requestId });
  const verdict = await ledger.reserve({
    organizationId: plan.organizationId,
    id: plan.jobId,
    kind: 'studio',
    amountMicro: plan.priceMicro,
    ttlMs: plan.reservationTtlMs,
    job: {
      keyId: plan.keyId,
      type: plan.type,
      model: plan.model,
      provider: plan.calls[0]?.routes[0]?.provider ?? 'none',
      requestId: plan.requestId,
      deadlineAt: plan.deadlineAt,
      request,
      plan: asJson(planned),
      ...(plan.metadata && { metadata: plan.metadata }),
    },
  });
  logger.info({ jobId: plan.jobId, verdict: verdict.verdict }, 'reservation.decided');
  if (verdict.verdict !== 'reserved') return verdict;
  if (verdict.state !== 'reserved') {
    const settledBefore = await pool.one(sql.type(settledRow)`
      SELECT status, error->>'code' AS "errorCode" FROM job WHERE id = ${plan.jobId}`);
    return { ...verdict, paused: [], settledBefore };
  }
  const paused = await pool.anyFirst(sql.type(pausedRow)`SELECT provider FROM provider_pause`);
  return { ...verdict, paused: [...paused], settledBefore: null };
}
