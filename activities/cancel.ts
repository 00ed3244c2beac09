/** Activity `cancel`: requests cancellation of a call from its provider. */
import type { CancelResult } from '../providers/provider.ts';
import { getOperations, type ProviderCallDeps } from './attempt.ts';
import { statusTimeoutMs, type AcceptedCall } from './check.ts';

/** Requests cancellation of a call. A later check shows whether the provider has canceled it. */
export function cancel(deps: ProviderCallDeps, task: AcceptedCall): Promise<CancelResult> {
  return getOperations(deps, task).cancel(task.operation, AbortSignal.timeout(statusTimeoutMs));
}
