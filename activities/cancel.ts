/** Activity `cancel`: requests that a provider cancel a call. */
import type { Canceled } from '../providers/provider.ts';
import { queueOf, type ProviderCallDeps } from './called-provider.ts';
import { statusTimeoutMs, type AcceptedCall } from './check.ts';

/**
 * Requests that the provider cancel the call; a later status check shows whether it was canceled.
 */
export function cancel(deps: ProviderCallDeps, task: AcceptedCall): Promise<Canceled> {
  return queueOf(deps, task).cancel(task.operation, AbortSignal.timeout(statusTimeoutMs));
}
