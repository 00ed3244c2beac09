/** Activity `release`: releases the credits of a job and ends it, in one transaction. */
import { errorTable, type ErrorCode } from '../domain/errors.ts';
import type { SettleResult } from '../domain/ledger-results.ts';
import type { Ledger, Settlement } from '../ledger/ledger.ts';
import { settleJob, type SettlementDeps } from './job-settlement.ts';

/** Input of `release`: a job that failed or was canceled. */
export interface UndeliveredJob {
  jobId: string;
  organizationId: string;
  status: 'failed' | 'canceled';
  error: { code: ErrorCode; message: string };
}

/** Releases the credits and ends the job. A repeated release has no effect. */
export function release(deps: SettlementDeps, job: UndeliveredJob): Promise<SettleResult> {
  return settleJob(deps, buildRelease(job));
}

/**
 * Releases the credits of a job whose workflow no longer exists, unless the job is already settled.
 */
export function releaseLostJob(
  ledger: Pick<Ledger, 'settle'>,
  { organizationId, id: jobId }: { organizationId: string; id: string },
): Promise<SettleResult> {
  const error = { code: 'JOB_LOST', message: errorTable.JOB_LOST.message } as const;
  return ledger.settle(buildRelease({ jobId, organizationId, status: 'failed', error }));
}

function buildRelease({ jobId, organizationId, status, error }: UndeliveredJob): Settlement {
  return {
    organizationId,
    id: jobId,
    to: 'released',
    amountMicro: 0,
    reason: error.code,
    job: { status, outputs: null, error, artifacts: [] },
  };
}
