/** Activity `advance`: counts what has ended in a bulk job, and plans the next items. */
import { Context } from '@temporalio/activity';
import type { BulkState, AdvanceInput } from '../domain/bulk-contract.ts';
import { advanceBulk, type AdvanceDeps } from '../bulk/bulk-advance.ts';
import { attempt } from './attempt.ts';

/** Runs the step of a bulk job. It may be repeated, and runs of it may overlap. */
export function advance(deps: AdvanceDeps, step: AdvanceInput): Promise<BulkState> {
  return attempt(() => advanceBulk(deps, step, Context.current().cancellationSignal));
}
