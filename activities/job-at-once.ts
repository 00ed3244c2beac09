/**
 * A whole quick job as one step of its workflow: reserve, submit its only call, charge when the outputs
 * come while the submit lingers (docs/decisions/0009). Each part is idempotent by what is on record, so
 * whatever this step leaves undone, or does twice, the workflow finds and finishes part by part.
 */
import { ApplicationFailure } from '@temporalio/common';
import { wordOf, type ActivityWord } from '../domain/activity-word.ts';
import type { Logger } from '../platform/logger.ts';
import { callTaskOf } from '../studio/call-task.ts';
import { chargeMicroOf } from '../studio/job-charge.ts';
import type { CallOutputs, JobPlan } from '../studio/job-plan.ts';
import type { JobMoves } from './job-moves.ts';
import type { ReserveVerdict, SettleVerdict } from './ledger/ledger.ts';
import type { ProviderCalls, SubmitOutcome } from './provider-calls.ts';

/** What came of a submit, its failure included. */
export type Sent = SubmitOutcome | { kind: 'failed'; word: ActivityWord };

/** How far a job came at once. */
export interface AtOnce {
  admitted: ReserveVerdict;
  /** What came of the call by its first route; null: it was not sent. */
  sent: Sent | null;
  /** What came of the charge; null: it is still to be made. */
  settled: SettleVerdict | null;
}

/** The step. */
export interface JobAtOnce {
  /** @throws Error when not even the reservation is known */
  reserveSubmitCharge: (plan: JobPlan) => Promise<AtOnce>;
}

interface JobAtOnceDeps {
  moves: Pick<JobMoves, 'reserveJob' | 'settleJob'>;
  calls: Pick<ProviderCalls, 'submitCallAtOnce'>;
  logger: Logger;
}

/** See `JobAtOnce`. */
export function createJobAtOnce(deps: JobAtOnceDeps): JobAtOnce {
  return {
    async reserveSubmitCharge(plan) {
      const admitted = await deps.moves.reserveJob(plan);
      const goes = admitted.verdict === 'reserved' && admitted.state === 'reserved';
      const sent = goes ? await submit(deps, plan) : null;
      const settled = sent?.kind === 'outputs' ? await charge(deps, plan, sent.outputs) : null;
      return { admitted, sent, settled };
    },
  };
}

async function submit({ calls }: JobAtOnceDeps, plan: JobPlan): Promise<Sent | null> {
  const [call] = plan.calls;
  const task = call && callTaskOf(plan, { call, routeIndex: 0 });
  if (!task) return null;
  try {
    return await calls.submitCallAtOnce(task);
  } catch (error) {
    if (!(error instanceof ApplicationFailure)) throw error;
    return { kind: 'failed', word: wordOf(error) };
  }
}

/** One attempt: the workflow's own charge is tried for days. */
async function charge(
  { moves, logger }: JobAtOnceDeps,
  plan: JobPlan,
  outputs: CallOutputs,
): Promise<SettleVerdict | null> {
  const { jobId, organizationId } = plan;
  try {
    return await moves.settleJob({
      jobId,
      organizationId,
      status: 'completed',
      chargeMicro: chargeMicroOf(plan, [outputs]),
      outputs: [outputs],
      error: null,
    });
  } catch (error) {
    logger.warn({ error, jobId }, 'reservation.not_charged_at_once');
    return null;
  }
}
