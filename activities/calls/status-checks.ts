/**
 * Looking at a call from outside its workflow: the provider is asked by the recorded operation. Nothing is
 * moved by a check; it is evidence.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import {
  ProviderFailure,
  providerOperation,
  type Operation,
  type Provider,
} from '../providers/provider.ts';

/** What a check found. */
export type CallVerdict =
  /** Certainly never taken by the provider. */
  | 'not_sent'
  /** Perhaps taken, and the provider cannot be asked: it never named the call. */
  | 'unknown'
  /** The provider could not be asked now. */
  | 'unreachable'
  | 'pending'
  | 'succeeded'
  | 'failed'
  | 'canceled';

/** Evidence on one call. */
export interface CallFinding {
  callIndex: number;
  provider: string;
  verdict: CallVerdict;
  /** The provider's handle, where it is known. */
  operation: Operation | null;
  /** The same in words. */
  words: string;
}

const recorded = z.object({
  callIndex: z.number(),
  provider: z.string(),
  state: z.enum(['waiting', 'begun', 'refused', 'accepted', 'answered', 'unknown']),
  operation: providerOperation.nullable(),
  endpoint: z.string().nullable(),
  notifiedId: z.string().nullable(),
});
type RecordedCall = z.infer<typeof recorded>;

/** Looks at calls. */
export interface StatusChecks {
  /** Evidence on every call of a job that was ever begun. */
  ofJob: (jobId: string) => Promise<CallFinding[]>;
}

const checkTimeoutMs = 20_000;

/** See `StatusChecks`. */
export function createStatusChecks(deps: {
  pool: DatabasePool;
  providers: Map<string, Provider>;
}): StatusChecks {
  return {
    async ofJob(jobId) {
      const calls = await deps.pool.any(sql.type(recorded)`
        SELECT c.call_index AS "callIndex", c.provider, c.state, c.operation, c.endpoint,
          (SELECT n.operation_id FROM notification n
            WHERE n.job_id = c.job_id AND n.call_index = c.call_index
            ORDER BY n.received_at DESC LIMIT 1) AS "notifiedId"
        FROM provider_call c WHERE c.job_id = ${jobId} ORDER BY c.call_index`);
      return Promise.all(calls.map((call) => checkCall(deps.providers.get(call.provider), call)));
    },
  };
}

async function checkCall(provider: Provider | undefined, call: RecordedCall): Promise<CallFinding> {
  const operation = operationOf(provider, call);
  const found = (verdict: CallVerdict, words: string): CallFinding => ({
    callIndex: call.callIndex,
    provider: call.provider,
    verdict,
    operation,
    words,
  });
  if (call.state === 'waiting' || call.state === 'refused') {
    return found('not_sent', `${call.provider} certainly did not take it`);
  }
  if (call.state === 'answered') return found('succeeded', 'its result was received and stored');
  if (!provider?.queue || !operation) {
    return found('unknown', `${call.provider} never named it, so it cannot be asked for it`);
  }
  try {
    const checked = await provider.queue.check(operation, {
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

/** The handle as recorded, or made from the id that a verified notification named. */
function operationOf(provider: Provider | undefined, call: RecordedCall): Operation | null {
  if (call.operation) return call.operation;
  if (!provider?.queue || call.notifiedId === null || call.endpoint === null) return null;
  return provider.queue.adopt(call.endpoint, call.notifiedId);
}
