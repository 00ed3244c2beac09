/** Activities `charge` and `release`: settle the credits of a job and end it, in one transaction. */
import { listRows } from '../domain/book-price.ts';
import type { SettleResult } from '../domain/credits.ts';
import {
  type Ledger,
  type Settlement,
  buildRelease,
  type UndeliveredJob,
} from '../ledger/ledger.ts';
import type { Logger } from '../platform/logger.ts';
import type { CallOutputs } from '../domain/job-plan.ts';

/** Services that a settlement uses. */
export interface SettlementDeps {
  ledger: Ledger;
  logger: Logger;
}

/** Settles the reservation of a job and logs the result. */
async function settleJob(
  { ledger, logger }: SettlementDeps,
  settlement: Settlement,
): Promise<SettleResult> {
  const { id: jobId, reason } = settlement;
  const result = await ledger.settle(settlement);
  logger.info({ jobId, verdict: result.verdict, reason }, `reservation.${settlement.to}`);
  return result;
}

/** Input of `charge`: a job whose outputs are stored. */
export interface DeliveredJob {
  jobId: string;
  organizationId: string;
  /** Price of the delivered outputs, in micro-credits. */
  chargeMicro: number;
  /** Price of the delivered outputs in the catalog; absent if a workflow of an older version sent it. */
  costMicro?: number;
  outputs: CallOutputs[];
  /** Job that a resumed pipeline continues. */
  parentJobId?: string;
}

/** Charges the delivered outputs and completes the job. A repeated charge has no effect. */
export function charge(deps: SettlementDeps, job: DeliveredJob): Promise<SettleResult> {
  const { jobId, organizationId, chargeMicro, costMicro, outputs, parentJobId } = job;
  return settleJob(deps, {
    organizationId,
    id: jobId,
    to: 'charged',
    amountMicro: chargeMicro,
    ...(costMicro !== undefined && { costMicro }),
    priceRows: listRows(outputs.map(({ line }) => line?.row)),
    reason: parentJobId === undefined ? 'completed' : `completed, continues ${parentJobId}`,
    job: {
      status: 'completed',
      outputs,
      error: null,
      // Files that a pipeline took over belong to the job that delivered them.
      artifacts: outputs
        .filter(({ takenFrom }) => takenFrom === undefined)
        .flatMap((call) => call.artifacts),
    },
  });
}

/** Releases the credits and ends the job. A repeated release has no effect. */
export function release(deps: SettlementDeps, job: UndeliveredJob): Promise<SettleResult> {
  return settleJob(deps, buildRelease(job));
}
