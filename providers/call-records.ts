/**
 * Records of provider calls: what was about to be sent is written before it is sent, so that a call is
 * never sent a second time silently (design §3.6), whatever dies in between.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { jsonOf, type Json, type JsonObject } from '../domain/json.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import { callOutputs } from '../jobs/job-record.ts';
import type { CallOutputs } from '../jobs/job-plan.ts';
import { providerOperation, type Operation } from './provider.ts';

/** Names one call of one job. */
export interface CallName {
  jobId: string;
  callIndex: number;
}

/** Whether the call may be sent, or what an earlier attempt left. */
const beginVerdict = z.discriminatedUnion('verdict', [
  z.object({ verdict: z.literal('send') }),
  /** The provider is paused: nothing may be sent now. */
  z.object({ verdict: z.literal('paused') }),
  /** The job was settled: nothing may be sent for it any more. */
  z.object({ verdict: z.literal('settled') }),
  /** An attempt that only waits for the end of a pause finds none. */
  z.object({ verdict: z.literal('resumed') }),
  /** The provider certainly did not take it, or it waits for the end of a pause. */
  z.object({ verdict: z.enum(['refused', 'waiting']) }),
  /**
   * Another attempt sends it, and said that it lives at `touchedAtMs` (Unix ms of the database's clock); a
   * notification may have named it since.
   */
  z.object({
    verdict: z.literal('begun'),
    touchedAtMs: z.number(),
    notifiedId: z.string().nullable(),
  }),
  /** It was sent, and nobody knows what came of it; a notification may have named it. */
  z.object({ verdict: z.literal('unknown'), notifiedId: z.string().nullable() }),
  z.object({ verdict: z.literal('accepted'), operation: providerOperation }),
  z.object({ verdict: z.literal('answered'), outputs: callOutputs }),
]);
export type BeginVerdict = z.infer<typeof beginVerdict>;

const beginRow = z.object({ verdict: beginVerdict });

/** A call by one of its routes. */
interface RoutedCall extends CallName {
  routeIndex: number;
  provider: string;
  endpoint: string;
  /** The attempt that is going to send the call: the same in its repeats of `begin`. */
  senderId?: string;
  /** Only waits for the end of a pause: nothing is begun. */
  wait?: true;
}

/** Call records over a pool. */
export function createCallRecords(pool: DatabasePool) {
  async function record({ jobId, callIndex }: CallName, told: JsonObject): Promise<void> {
    await pool.query(command`SELECT call_record(${jobId}, ${callIndex}, ${sql.jsonb(told)})`);
  }
  return {
    /** Records that the call is about to be sent, unless it must not be. */
    begin: (call: RoutedCall): Promise<BeginVerdict> =>
      pool.oneFirst(sql.type(beginRow)`SELECT call_begin(${sql.jsonb({ ...call })}) AS verdict`),
    /** Reads what earlier attempts recorded; null when there were none. */
    find: ({ jobId, callIndex }: CallName): Promise<BeginVerdict | null> =>
      pool.maybeOneFirst(sql.type(beginRow)`SELECT call_found(c) AS verdict FROM provider_call c
        WHERE job_id = ${jobId} AND call_index = ${callIndex}`),
    /** Records that the attempt that sends the call is running. */
    touched: (call: CallName): Promise<void> => record(call, {}),
    /** The provider certainly did not take the call: it may be sent again. */
    refused: (call: CallName): Promise<void> => record(call, { state: 'refused' }),
    /** It was sent, and brought nothing that is known: it is never sent again. */
    unknown: (call: CallName): Promise<void> => record(call, { state: 'unknown' }),
    accepted: ({ operation, ...call }: CallName & { operation: Operation }): Promise<void> =>
      record(call, { state: 'accepted', operation }),
    answered: ({ outputs, ...call }: CallName & { outputs: CallOutputs }): Promise<void> =>
      record(call, { state: 'answered', outputs: jsonOf(outputs) }),
    progressed: ({ progress, ...call }: CallName & { progress: Json }): Promise<void> =>
      record(call, { progress }),
  };
}
export type CallRecords = ReturnType<typeof createCallRecords>;
