/**
 * Activity `reserve`: reserves the price of a job and creates its row, in one move of the ledger.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { jsonOf } from '../domain/json.ts';
import type { JobPlan } from '../jobs/job-plan.ts';
import type { Refusal, ReserveVerdict } from '../jobs/ledger-verdicts.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { correlate } from '../platform/correlation.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';

const pausedRow = z.object({ provider: z.string() });

/**
 * Verdict of the ledger and, for a reserved job, the paused providers, to which no call may be
 * sent.
 */
export type ReserveOutcome =
  | Refusal
  | (Extract<ReserveVerdict, { verdict: 'reserved' }> & { paused: string[] });

/** Services that `reserve` uses. */
interface ReserveDeps {
  ledger: Ledger;
  pool: DatabasePool;
  logger: Logger;
}

/** Reserves the price of a job; a repeated execution returns the first verdict. */
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
      plan: jsonOf(planned),
      ...(plan.metadata && { metadata: plan.metadata }),
    },
  });
  logger.info({ jobId: plan.jobId, verdict: verdict.verdict }, 'reservation.decided');
  if (verdict.verdict !== 'reserved') return verdict;
  const paused = await pool.anyFirst(sql.type(pausedRow)`SELECT provider FROM provider_pause`);
  return { ...verdict, paused: [...paused] };
}
