/** Activity `reserve`: reserves the price of a job and stores the job, in one transaction. */
import { sql } from 'slonik';
import { z } from 'zod';
import { listRows } from '../domain/book-price.ts';
import { asJson } from '../domain/json.ts';
import type { JobPlan } from '../domain/job-plan.ts';
import type { JobStep } from '../domain/job-record.ts';
import type { PipelineStep } from '../domain/pipeline-plan.ts';
import type { Rejection, ReserveResult } from '../domain/credits.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { correlate, type Logger } from '../platform/logger.ts';
import type { DatabasePool } from '../platform/database.ts';

const pausedRow = z.object({ provider: z.string() });
const settledRow = z.object({
  status: z.enum(['completed', 'failed', 'canceled']),
  /** Error code of a failed or canceled job; null for a completed job. */
  errorCode: z.string().nullable(),
});
/** Settlement of a job by an earlier run of its workflow or by the sweeper. */
export type EarlierSettlement = z.infer<typeof settledRow>;

/** Result of `reserve` for a job that has a reservation. */
type Reserved = Extract<ReserveResult, { verdict: 'reserved' }> & {
  /** Names of the paused providers. No call may be sent to them. */
  paused: string[];
  /** Earlier settlement of the job; null if the job is not settled. */
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

/** Returns the part of a step that readers of the job need. */
export const toJobStep = (step: PipelineStep): JobStep => {
  const { assembly: _, references: __, deadlineMs: ___, taken, ...read } = step;
  return { ...read, takenFrom: taken?.jobId ?? null };
};

/** Reserves the price of a job. Changes nothing if the job already has a reservation. */
export async function reserve(
  { ledger, pool, logger }: ReserveDeps,
  plan: JobPlan,
): Promise<ReserveOutcome> {
  const { request, ...planWithoutRequest } = plan;
  correlate({ requestId: plan.requestId });
  const result = await ledger.reserve({
    organizationId: plan.organizationId,
    id: plan.jobId,
    kind: 'studio',
    amountMicro: plan.priceMicro,
    priceRows: listRows(plan.calls.map(({ book }) => book?.row)),
    ttlMs: plan.reservationTtlMs,
    job: {
      keyId: plan.keyId,
      type: plan.type,
      model: plan.model,
      provider: plan.calls[0]?.routes[0]?.provider ?? 'none',
      requestId: plan.requestId,
      deadlineAt: plan.deadlineAt,
      request,
      plan: asJson(planWithoutRequest),
      ...(plan.steps && { steps: plan.steps.map(toJobStep) }),
      ...(plan.metadata && { metadata: plan.metadata }),
    },
  });
  logger.info({ jobId: plan.jobId, verdict: result.verdict }, 'reservation.decided');
  if (result.verdict !== 'reserved') return result;
  if (result.state !== 'reserved') {
    const settledBefore = await pool.one(sql.type(settledRow)`
      SELECT status, error->>'code' AS "errorCode" FROM job WHERE id = ${plan.jobId}`);
    return { ...result, paused: [], settledBefore };
  }
  const pausedProviders = await pool.anyFirst(
    sql.type(pausedRow)`SELECT provider FROM provider_pause`,
  );
  return { ...result, paused: [...pausedProviders], settledBefore: null };
}
