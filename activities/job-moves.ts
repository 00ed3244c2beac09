/** The workflow's moves on its job: reserve, settle, and the mark that an outcome is being verified. */
import { sql } from 'slonik';
import { z } from 'zod';
import type { ErrorCode } from '../domain/errors.ts';
import { correlate } from '../platform/correlation.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import type { CallOutputs, JobPlan } from '../studio/job-plan.ts';
import type { JobNews } from './job-news.ts';
import type { Ledger, ReserveVerdict, SettleVerdict } from './ledger/ledger.ts';

/** How a job ended, told by its workflow. */
export interface JobEnding {
  jobId: string;
  organizationId: string;
  status: 'completed' | 'failed' | 'canceled';
  /** Micro-credits of what was delivered; 0 unless completed. */
  chargeMicro: number;
  outputs: CallOutputs[] | null;
  error: { code: ErrorCode; message: string } | null;
}

interface JobMovesDeps {
  ledger: Ledger;
  pool: DatabasePool;
  news: JobNews;
  logger: Logger;
}

/** Activities that touch only Postgres; they run as local activities of the Studio queue. */
export interface JobMoves {
  reserveJob: (plan: JobPlan) => Promise<ReserveVerdict>;
  settleJob: (ending: JobEnding) => Promise<SettleVerdict>;
  markVerifying: (jobId: string) => Promise<void>;
}

/** See `JobMoves`. */
export function createJobMoves(deps: JobMovesDeps): JobMoves {
  return {
    async reserveJob(plan) {
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
          request: plan.request,
        },
      });
      deps.news.publish(plan.jobId, { kind: 'verdict', verdict });
      deps.logger.info({ jobId: plan.jobId, verdict: verdict.verdict }, 'reservation.decided');
      return verdict;
    },

    async settleJob(ending) {
      const charged = ending.status === 'completed';
      const verdict = await deps.ledger.settle({
        organizationId: ending.organizationId,
        id: ending.jobId,
        to: charged ? 'charged' : 'released',
        amountMicro: charged ? ending.chargeMicro : 0,
        reason: ending.error?.code ?? ending.status,
        job: {
          status: ending.status,
          outputs: ending.outputs,
          error: ending.error,
          artifacts: ending.outputs?.flatMap((call) => call.artifacts) ?? [],
        },
      });
      deps.news.publish(ending.jobId, { kind: 'done' });
      deps.logger.info(
        { jobId: ending.jobId, verdict: verdict.verdict, reason: ending.error?.code },
        charged ? 'reservation.charged' : 'reservation.released',
      );
      return verdict;
    },

    async markVerifying(jobId) {
      await deps.pool.query(
        sql.type(
          z.object({}),
        )`UPDATE job SET verifying = true WHERE id = ${jobId} AND status = 'queued'`,
      );
    },
  };
}
