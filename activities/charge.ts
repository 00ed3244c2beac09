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
  /** Reserved micro-credits; absent in the tasks of workflows that started before the field. */
  priceMicro?: number;
  outputs: CallOutputs[];
}

/**
 * Charges the delivered outputs and completes the job. A repeated charge has no effect. What exceeds
 * the reservation is charged as far as the balance and the limit of the key allow.
 */
export function charge(deps: SettlementDeps, job: DeliveredJob): Promise<SettleResult> {
  const { jobId, organizationId, chargeMicro, priceMicro = chargeMicro, outputs } = job;
  return settleJob(deps, {
    organizationId,
    id: jobId,
    to: 'charged',
    amountMicro: Math.min(chargeMicro, priceMicro),
    excessMicro: Math.max(0, chargeMicro - priceMicro),
    reason: 'completed',
    job: {
      status: 'completed',
      outputs,
      error: null,
      artifacts: outputs.flatMap((call) => call.artifacts),
    },
  });
}
