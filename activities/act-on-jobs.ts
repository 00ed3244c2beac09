/** Activity `actOnJobs`: performs an operator's action on the next jobs of an action run. */
import { Context } from '@temporalio/activity';
import type { ActionRunState, ActInput } from '../domain/action-contract.ts';
import { actOnNextJobs, type ActDeps } from '../studio/jobs/action-runs.ts';
import { attempt } from './attempt.ts';

/** Attempts after which a job with an unexpected error is rejected: about a minute. */
const attemptsMax = 8;

/** Runs the step of an action run. It may be repeated. */
export function actOnJobs(deps: ActDeps, step: ActInput): Promise<ActionRunState> {
  const isLast = Context.current().info.attempt >= attemptsMax;
  return attempt(() => actOnNextJobs(deps, step, isLast));
}
