/**
 * Status checks of calls from outside their workflow. A check requests the status of the recorded
 * operation and moves no credits.
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
  /** Never accepted by the provider. */
  | 'not_sent'
  /**
   * Possibly accepted; its status cannot be requested, because the provider request id is unknown.
   */
  | 'unknown'
  /** The provider could not be reached. */
  | 'unreachable'
  | 'pending'
  | 'succeeded'
  | 'failed'
  | 'canceled';

/** Evidence about one call. */
export interface CallFinding {
  callIndex: number;
  provider: string;
  verdict: CallVerdict;
  /** Operation of the provider, if it is known. */
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

/** Checks of calls. */
export function createStatusChecks(deps: { pool: DatabasePool; providers: Map<string, Provider> }) {
  return {
    /** Returns evidence about every call of a job that was sent. */
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
    return found('not_sent', `${call.provider} did not accept it`);
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
    if (checked.kind === 'pending') return found('pending', `${call.provider} still works on it`);
    if (checked.kind === 'result') return found('succeeded', `${call.provider} has the result`);
    const canceled = checked.failure.kind === 'canceled';
    return found(canceled ? 'canceled' : 'failed', checked.failure.message);
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    return found('unreachable', error.message);
  }
}

/** Returns the recorded operation, or one made from the request id of a verified notification. */
function operationOf(provider: Provider | undefined, call: RecordedCall): ProviderOperation | null {
  if (call.operation) return call.operation;
  if (!provider?.operations || call.notifiedId === null || call.providerEndpoint === null)
    return null;
  return provider.operations.adopt(call.providerEndpoint, call.notifiedId);
}
