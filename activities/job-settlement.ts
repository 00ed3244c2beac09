/** Settles a job for the activities `charge` and `release`. */
import type { SettleResult } from '../domain/credits.ts';
import type { Ledger, Settlement } from '../ledger/ledger.ts';
import type { Logger } from '../platform/logger.ts';

/** Services that a settlement uses. */
export interface SettlementDeps {
  ledger: Ledger;
  logger: Logger;
}

/** Settles the reservation of a job and logs the result. */
export async function settleJob(
  { ledger, logger }: SettlementDeps,
  settlement: Settlement,
): Promise<SettleResult> {
  const { id: jobId, reason } = settlement;
  const result = await ledger.settle(settlement);
  logger.info({ jobId, verdict: result.verdict, reason }, `reservation.${settlement.to}`);
  return result;
}
