/** The workflow's moves on its job: reserve, charge, release, and the mark that an outcome is being verified. */
import { sql } from 'slonik';
import { z } from 'zod';
import { errorTable, type ErrorCode } from '../../domain/errors.ts';
import { jsonOf } from '../../domain/json.ts';
import { correlate } from '../../platform/correlation.ts';
import { command, type DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { CallOutputs, JobPlan } from '../../jobs/job-plan.ts';
import type { Refusal, ReserveVerdict, SettleVerdict } from '../../jobs/ledger-verdicts.ts';
import type { Ledger, Settle } from '../ledger/ledger.ts';

const pausedRow = z.object({ provider: z.string() });

/** The ledger's verdict, and the providers to which nothing may be sent now. */
export type ReserveOutcome =
  | Refusal
  | (Extract<ReserveVerdict, { verdict: 'reserved' }> & { paused: string[] });

/** A job that delivered. */
export interface Delivered {
  jobId: string;
  organizationId: string;
  /** Micro-credits of what was delivered. */
  chargeMicro: number;
  outputs: CallOutputs[];
}

/** A job that did not. */
export interface Undelivered {
  jobId: string;
  organizationId: string;
  status: 'failed' | 'canceled';
  error: { code: ErrorCode; message: string };
}

interface JobMovesDeps {
  ledger: Ledger;
  pool: DatabasePool;
  logger: Logger;
}

/** Activities that touch only Postgres. */
export function createJobMoves(deps: JobMovesDeps) {
  async function settle(move: Settle): Promise<SettleVerdict> {
    const { id: jobId, reason } = move;
    const verdict = await deps.ledger.settle(move);
    deps.logger.info({ jobId, verdict: verdict.verdict, reason }, `reservation.${move.to}`);
    return verdict;
  }
  return {
    /** Reserves the price of a job; says also which providers are paused. */
    async reserve(plan: JobPlan): Promise<ReserveOutcome> {
      const { request, ...planned } = plan;
      correlate({ requestId: plan.requestId });
      const verdict = await deps.ledger.reserve({
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
      deps.logger.info({ jobId: plan.jobId, verdict: verdict.verdict }, 'reservation.decided');
      if (verdict.verdict !== 'reserved') return verdict;
      const paused = await deps.pool.anyFirst(sql.type(pausedRow)`
        SELECT provider FROM provider_pause`);
      return { ...verdict, paused: [...paused] };
    },

    /** Charges what was delivered and completes the job, with its outputs, in one move. */
    charge: ({ jobId, organizationId, chargeMicro, outputs }: Delivered): Promise<SettleVerdict> =>
      settle({
        organizationId,
        id: jobId,
        to: 'charged',
        amountMicro: chargeMicro,
        reason: 'completed',
        job: {
          status: 'completed',
          outputs,
          error: null,
          artifacts: outputs.flatMap((call) => call.artifacts),
        },
      }),

    /** Releases the credits and ends the job, in one move. */
    release: (undelivered: Undelivered): Promise<SettleVerdict> => settle(releaseMove(undelivered)),

    async markVerifying(jobId: string): Promise<void> {
      await deps.pool.query(
        command`UPDATE job SET verifying = true WHERE id = ${jobId} AND status = 'queued'`,
      );
    },
  };
}
export type JobMoves = ReturnType<typeof createJobMoves>;

/** Releases a job's credits and ends it, in one move. */
function releaseMove({ jobId, organizationId, status, error }: Undelivered): Settle {
  return {
    organizationId,
    id: jobId,
    to: 'released',
    amountMicro: 0,
    reason: error.code,
    job: { status, outputs: null, error, artifacts: [] },
  };
}

/**
 * The end of a job that has lost its workflow, and whose provider delivers nothing any more; harmless when it was
 * settled before.
 */
export function releaseLostJob(
  ledger: Pick<Ledger, 'settle'>,
  { organizationId, id: jobId }: { organizationId: string; id: string },
): Promise<SettleVerdict> {
  const error = { code: 'JOB_LOST', message: errorTable.JOB_LOST.message } as const;
  return ledger.settle(releaseMove({ jobId, organizationId, status: 'failed', error }));
}
