/** Activity `actOnJobs`: performs an operator's action on the next jobs of a bulk action. */
import { Context } from '@temporalio/activity';
import type { BulkActionState, BulkActionStep } from '../domain/bulk-contract.ts';
import { actOnNextJobs, type ActDeps } from '../studio/jobs/bulk-actions.ts';
import { attempt } from './attempt.ts';

/** Attempts after which a job with an unexpected error is rejected: about a minute. */
const attemptsMax = 8;

/** Runs the step of a bulk action. It may be repeated. */
export function actOnJobs(deps: ActDeps, step: BulkActionStep): Promise<BulkActionState> {
  const isLast = Context.current().info.attempt >= attemptsMax;
  return attempt(() => actOnNextJobs(deps, step, isLast));
}
