/** Activity `cancel`: requests that a provider cancel a call. */
import type { CancelResult } from '../providers/provider.ts';
import { getOperations, type ProviderCallDeps } from './called-provider.ts';
import { statusTimeoutMs, type AcceptedCall } from './check.ts';

/**
 * Requests cancellation of the call. A later status check shows whether the provider canceled it.
 */
export function cancel(deps: ProviderCallDeps, task: AcceptedCall): Promise<CancelResult> {
  return getOperations(deps, task).cancel(task.operation, AbortSignal.timeout(statusTimeoutMs));
}
