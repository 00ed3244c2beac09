/** Activity `release`: releases the credits of a job and ends it, in one transaction. */
import type { SettleResult } from '../domain/credits.ts';
import { buildRelease, type UndeliveredJob } from '../ledger/ledger.ts';
import { settleJob, type SettlementDeps } from './job-settlement.ts';

/** Releases the credits and ends the job. A repeated release has no effect. */
export function release(deps: SettlementDeps, job: UndeliveredJob): Promise<SettleResult> {
  return settleJob(deps, buildRelease(job));
}
