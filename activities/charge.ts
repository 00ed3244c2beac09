/** Activity `charge`: charges a job and completes it with its outputs, in one transaction. */
import type { CallOutputs } from '../domain/job-plan.ts';
import type { SettleResult } from '../domain/credits.ts';
import { settleJob, type SettlementDeps } from './job-settlement.ts';

/** Input of `charge`: a job whose outputs are stored. */
export interface DeliveredJob {
  jobId: string;
  organizationId: string;
  /** Price of the delivered outputs, in micro-credits. */
  chargeMicro: number;
  outputs: CallOutputs[];
}

/** Charges the delivered outputs and completes the job. A repeated charge has no effect. */
export function charge(deps: SettlementDeps, job: DeliveredJob): Promise<SettleResult> {
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
