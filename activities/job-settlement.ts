/** Settles a job, for `charge` and `release`. */
import type { SettleResult } from '../jobs/ledger-results.ts';
import type { Ledger, Settlement } from '../ledger/ledger.ts';
import type { Logger } from '../platform/logger.ts';

/** Services that a settlement uses. */
export interface SettlementDeps {
  ledger: Ledger;
  logger: Logger;
}

/** Settles the reservation of a job and logs the verdict. */
export async function settleJob(
  { ledger, logger }: SettlementDeps,
  move: Settlement,
): Promise<SettleResult> {
  const { id: jobId, reason } = move;
  const verdict = await ledger.settle(move);
  logger.info({ jobId, verdict: verdict.verdict, reason }, `reservation.${move.to}`);
  return verdict;
}
