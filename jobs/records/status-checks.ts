/**
 * Checks the status of calls outside their workflow. A check only requests the status from the
 * provider; it changes no record and no credits.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import {
  providerOperation,
  type ProviderOperation,
  type Provider,
} from '../../providers/provider.ts';

/** Outcome of a check. */
type CallVerdict =
  /** The provider never accepted the call. */
  | 'not_sent'
  /**
   * The provider may have accepted the call. Its status cannot be requested, because the provider
   * request id is unknown.
   */
  | 'unknown'
  /** The provider could not be reached. */
  | 'unreachable'
  | 'pending'
  | 'succeeded'
  | 'failed'
  | 'canceled';

/** Result of the check of a call. */
export interface CallFinding {
  callIndex: number;
  provider: string;
  verdict: CallVerdict;
  /** Handle of the operation at the provider; null if unknown. */
  operation: ProviderOperation | null;
  /** Description for operators. */
  message: string;
}

const recordedCall = z.object({
  callIndex: z.number(),
  provider: z.string(),
  state: z.enum(['waiting', 'begun', 'refused', 'accepted', 'answered', 'unknown']),
  operation: providerOperation.nullable(),
  providerEndpoint: z.string().nullable(),
  notifiedId: z.string().nullable(),
});
type RecordedCall = z.infer<typeof recordedCall>;

const checkTimeoutMs = 20_000;

/** Creates the function that checks the calls of a job. */
export function createStatusChecks(deps: { pool: DatabasePool; providers: Map<string, Provider> }) {
  return {
    /** Checks every recorded call of a job. */
    async ofJob(jobId: string): Promise<CallFinding[]> {
      const calls = await deps.pool.any(sql.type(recordedCall)`
        SELECT c.call_index AS "callIndex", c.provider, c.state, c.operation, c.provider_endpoint AS "providerEndpoint",
          (SELECT n.operation_id FROM provider_notification n
            WHERE n.job_id = c.job_id AND n.call_index = c.call_index
            ORDER BY n.received_at DESC LIMIT 1) AS "notifiedId"
        FROM provider_call c WHERE c.job_id = ${jobId} ORDER BY c.call_index`);
      return Promise.all(calls.map((call) => checkCall(deps.providers.get(call.provider), call)));
    },
  };
}
async function checkCall(provider: Provider | undefined, call: RecordedCall): Promise<CallFinding> {
  const operation = operationOf(provider, call);
  const found = (verdict: CallVerdict, message: string): CallFinding => ({
    callIndex: call.callIndex,
    provider: call.provider,
    verdict,
    operation,
    message,
  });
  if (call.state === 'waiting' || call.state === 'refused') {
    return found('not_sent', `${call.provider} did not accept the call`);
  }
  if (call.state === 'answered') return found('succeeded', 'its result was received and stored');
  if (!provider?.operations || !operation) {
    return found(
      'unknown',
      `${call.provider} returned no request id, so its status cannot be requested`,
    );
  }
  try {
    const checked = await provider.operations.check(operation, {
      signal: AbortSignal.timeout(checkTimeoutMs),
      expectDone: false,
    });
    if (checked.kind === 'pending')
      return found('pending', `${call.provider} is still working on the call`);
    if (checked.kind === 'result') return found('succeeded', `${call.provider} has the result`);
    const canceled = checked.failure.kind === 'canceled';
    return found(canceled ? 'canceled' : 'failed', checked.failure.message);
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    return found('unreachable', error.message);
  }
}

/**
 * Returns the recorded operation, or one created from the operation id in a verified notification;
 * null if neither exists.
 */
function operationOf(provider: Provider | undefined, call: RecordedCall): ProviderOperation | null {
  if (call.operation) return call.operation;
  if (!provider?.operations || call.notifiedId === null || call.providerEndpoint === null)
    return null;
  return provider.operations.adopt(call.providerEndpoint, call.notifiedId);
}
