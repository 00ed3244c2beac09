/**
 * Activity `charge`: charges a job and completes it with its outputs, in one move of the ledger.
 */
import type { CallOutputs } from '../jobs/job-plan.ts';
import type { SettleVerdict } from '../jobs/ledger-verdicts.ts';
import { settleJob, type SettlementDeps } from './job-settlement.ts';

/** A job whose outputs are stored. */
export interface DeliveredJob {
  jobId: string;
  organizationId: string;
  /** Micro-credits of the delivered outputs. */
  chargeMicro: number;
  outputs: CallOutputs[];
}

/** Charges the delivered outputs and completes the job; a repeated execution changes nothing. */
export function charge(deps: SettlementDeps, job: DeliveredJob): Promise<SettleVerdict> {
  const { jobId, organizationId, chargeMicro, outputs } = job;
  return settleJob(deps, {
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
  });
}
