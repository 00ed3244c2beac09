/** Activity `check`: requests the status of a call from its provider. */
import type { CallInput } from '../domain/job-plan.ts';
import type { CallProgress, ProviderOperation } from '../providers/provider.ts';
import type { ProviderFailure } from '../domain/provider-failure.ts';
import { getCallIds, getOperations, type ProviderCallDeps } from './attempt.ts';

/** Status of a call, according to its provider. */
export type CheckOutcome = { kind: 'pending'; progress: CallProgress } | { kind: 'ended' };

/** Input of `check` and `cancel`: a call that its provider has accepted. */
export interface AcceptedCall extends CallInput {
  operation: ProviderOperation;
}

/**
 * Timeout of a status check, in milliseconds. It is shorter than that of a submit, because a status
 * check causes no work at the provider.
 */
export const statusTimeoutMs = 45_000;

/**
 * Throws the failure of an accepted call, after its provider's own error type is recorded. If the
 * provider could not read an input file, also records that the call may be sent again.
 */
export async function failCall(
  { records, logger }: ProviderCallDeps,
  task: AcceptedCall,
  failure: ProviderFailure,
): Promise<never> {
  const { providerErrorType, message } = failure;
  if (failure.kind === 'input_unread') {
    await records.markUnread(
      { ...getCallIds(task), operation: task.operation },
      {
        message,
        providerErrorType,
      },
    );
  } else if (providerErrorType !== null) {
    await records
      .recordErrorType(getCallIds(task), providerErrorType)
      .catch((error: unknown) =>
        logger.info({ error, ...getCallIds(task) }, 'call.error_type_not_recorded'),
      );
  }
  throw failure;
}

/**
 * Requests the status of a call and records its progress. If the progress cannot be recorded, the
 * error is only logged.
 * @throws ProviderFailure if the call has failed at the provider
 */
export async function check(deps: ProviderCallDeps, task: AcceptedCall): Promise<CheckOutcome> {
  const checkResult = await getOperations(deps, task).check(task.operation, {
    signal: AbortSignal.timeout(statusTimeoutMs),
    hasEnded: false,
  });
  if (checkResult.kind === 'failed') return failCall(deps, task, checkResult.failure);
  const isPending = checkResult.kind === 'pending';
  await deps.records
    .recordProgress({
      ...getCallIds(task),
      progress: isPending ? checkResult.progress : { state: 'storing' },
    })
    .catch((error: unknown) =>
      deps.logger.info({ error, ...getCallIds(task) }, 'call.progress_not_recorded'),
    );
  return isPending ? checkResult : { kind: 'ended' };
}
