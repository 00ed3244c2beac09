/**
 * Checks the status of a job's provider calls for operators, outside of its workflow. A check only
 * requests the status from the provider; it changes no record and no credits.
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

/** Status of a call, according to its record or its provider. */
type CallStatus =
  /** The provider never accepted the call. */
  | 'not_sent'
  /**
   * The provider may have accepted the call. Its status cannot be requested, because no operation
   * of the call is known.
   */
  | 'unknown'
  /** The provider could not be reached. */
  | 'unreachable'
  | 'pending'
  | 'succeeded'
  | 'failed'
  | 'canceled';

/** Result of the status check of a call. */
export interface CallFinding {
  callIndex: number;
  provider: string;
  verdict: CallStatus;
  /** Provider operation of the call; null if it is unknown. */
  operation: ProviderOperation | null;
  /** Description of the result for operators. */
  message: string;
}

const recordedCall = z.object({
  callIndex: z.number(),
  provider: z.string(),
  state: z.enum(['waiting', 'begun', 'not_accepted', 'accepted', 'answered', 'unknown']),
  operation: providerOperation.nullable(),
  providerEndpoint: z.string().nullable(),
  notifiedId: z.string().nullable(),
});
type RecordedCall = z.infer<typeof recordedCall>;

const checkTimeoutMs = 20_000;

/** Creates the function that checks all recorded calls of a job. */
export function createCallChecker(deps: { pool: DatabasePool; providers: Map<string, Provider> }) {
  return async (jobId: string): Promise<CallFinding[]> => {
    const calls = await deps.pool.any(sql.type(recordedCall)`
      SELECT c.call_index AS "callIndex", c.provider, c.state, c.operation, c.provider_endpoint AS "providerEndpoint",
        (SELECT n.operation_id FROM provider_notification n
          WHERE n.job_id = c.job_id AND n.call_index = c.call_index
          ORDER BY n.received_at DESC LIMIT 1) AS "notifiedId"
      FROM provider_call c WHERE c.job_id = ${jobId} ORDER BY c.call_index`);
    return Promise.all(calls.map((call) => checkCall(deps.providers.get(call.provider), call)));
  };
}

async function checkCall(provider: Provider | undefined, call: RecordedCall): Promise<CallFinding> {
  const operation = findOperation(provider, call);
  const createFinding = (verdict: CallStatus, message: string): CallFinding => ({
    callIndex: call.callIndex,
    provider: call.provider,
    verdict,
    operation,
    message,
  });
  if (call.state === 'waiting' || call.state === 'not_accepted') {
    return createFinding('not_sent', `${call.provider} did not accept the call`);
  }
  if (call.state === 'answered') {
    return createFinding('succeeded', 'the result was received and stored');
  }
  if (!provider?.operations || !operation) {
    return createFinding(
      'unknown',
      `the status at ${call.provider} cannot be requested, because no operation of the call is known`,
    );
  }
  try {
    const checkResult = await provider.operations.check(operation, {
      signal: AbortSignal.timeout(checkTimeoutMs),
      hasEnded: false,
    });
    if (checkResult.kind === 'pending') {
      return createFinding('pending', `${call.provider} is still working on the call`);
    }
    if (checkResult.kind === 'result') {
      return createFinding('succeeded', `${call.provider} has the result`);
    }
    const isCanceled = checkResult.failure.kind === 'canceled';
    return createFinding(isCanceled ? 'canceled' : 'failed', checkResult.failure.message);
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    return createFinding('unreachable', error.message);
  }
}

/**
 * Returns the provider operation of a call from its record, or creates it from the id in a verified
 * notification. Returns null if the call has neither.
 */
function findOperation(
  provider: Provider | undefined,
  call: RecordedCall,
): ProviderOperation | null {
  if (call.operation) return call.operation;
  if (!provider?.operations || call.notifiedId === null || call.providerEndpoint === null)
    return null;
  return provider.operations.adopt(call.providerEndpoint, call.notifiedId);
}

export type CallChecker = ReturnType<typeof createCallChecker>;
