/** Activity `store`: reads the result of a call that has ended, and stores its outputs. */
import type { CallOutputs } from '../domain/job-plan.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import { getCallIds, getOperations, storeOutputs, type ProviderCallDeps } from './attempt.ts';
import { failCall, statusTimeoutMs, type AcceptedCall } from './check.ts';

/** Input of `store`: a call that has ended, by a provider notification or a status check. */
export interface EndedCall extends AcceptedCall {
  notified: boolean;
}

/**
 * Reads the result of a call and stores its outputs.
 * @throws ProviderFailure if the call has failed; ProviderFailure `unfinished` if the provider is
 * still working on it; StorageFailure if an output cannot be stored
 */
export async function store(deps: ProviderCallDeps, task: EndedCall): Promise<CallOutputs> {
  const checkResult = await getOperations(deps, task).check(task.operation, {
    signal: AbortSignal.timeout(statusTimeoutMs),
    hasEnded: true,
    wokenBy: task.notified ? 'notification' : 'timer',
  });
  if (checkResult.kind === 'failed') return failCall(deps, task, checkResult.failure);
  if (checkResult.kind === 'pending') {
    throw new ProviderFailure('unfinished', 'the provider is still working on the call');
  }
  const outputs = await storeOutputs(deps, task, checkResult.result);
  // A failure only hides the outputs until the job ends.
  if (task.recordsOutputs) {
    await deps.records
      .markAnswered({ ...getCallIds(task), outputs })
      .catch((error: unknown) =>
        deps.logger.info({ error, ...getCallIds(task) }, 'call.not_recorded'),
      );
  }
  return outputs;
}
