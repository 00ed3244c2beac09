/** Activity `cancel`: requests a provider to stop working on a call. */
import type { Canceled } from '../providers/provider.ts';
import { queueOf, type ProviderCallDeps } from './called-provider.ts';
import { statusTimeoutMs, type AcceptedCall } from './check.ts';

/** Requests the provider to stop; its later status decides whether it did. */
export function cancel(deps: ProviderCallDeps, task: AcceptedCall): Promise<Canceled> {
  return queueOf(deps, task).cancel(task.operation, AbortSignal.timeout(statusTimeoutMs));
}
