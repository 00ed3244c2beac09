/** The end of a job that has lost its workflow, and whose provider delivers nothing any more. */
import { errorTable } from '../../domain/errors.ts';
import type { SettleVerdict } from '../../jobs/ledger-verdicts.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** Releases its credits and fails it, in one move; harmless when it was settled before. */
export function releaseLostJob(
  ledger: Pick<Ledger, 'settle'>,
  job: { organizationId: string; id: string },
): Promise<SettleVerdict> {
  return ledger.settle({
    organizationId: job.organizationId,
    id: job.id,
    to: 'released',
    amountMicro: 0,
    reason: 'JOB_LOST',
    job: {
      status: 'failed',
      outputs: null,
      error: { code: 'JOB_LOST', message: errorTable.JOB_LOST.message },
      artifacts: [],
    },
  });
}
