/**
 * Records of provider calls. A call is recorded before it is sent, so that it is never sent twice,
 * also if a process dies in between (design §3.6).
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

/** Verdict on whether the call may be sent, or the record of an earlier attempt. */
const beginVerdict = z.discriminatedUnion('verdict', [
  z.object({ verdict: z.literal('send') }),
  /** The provider is paused: the call must not be sent. */
  z.object({ verdict: z.literal('paused') }),
  /** The job was settled: the call must not be sent. */
  z.object({ verdict: z.literal('settled') }),
  /** The pause has ended; returned only to attempts that wait for the end of a pause. */
  z.object({ verdict: z.literal('resumed') }),
  /** The provider certainly did not accept the call, or the call waits for the end of a pause. */
  z.object({ verdict: z.enum(['refused', 'waiting']) }),
  /**
   * Another attempt is sending the call, and was running at `touchedAtMs` (Unix ms of the
   * database's clock). A notification may have named the call since.
   */
  z.object({
    verdict: z.literal('begun'),
    touchedAtMs: z.number(),
    notifiedId: z.string().nullable(),
  }),
  /** The call was sent and its outcome is unknown. A notification may have named it. */
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
  /** Id of the attempt that is about to send the call, the same in its repeated requests. */
  senderId?: string;
  /** Waits for the end of a pause without beginning the call. */
  wait?: true;
}

/** Makes call records over a pool. */
export function createCallRecords(pool: DatabasePool) {
  async function record({ jobId, callIndex }: CallName, told: JsonObject): Promise<void> {
    await pool.query(command`SELECT call_record(${jobId}, ${callIndex}, ${sql.jsonb(told)})`);
  }
  return {
    /** Records that the call is about to be sent, unless it must not be. */
    begin: (call: RoutedCall): Promise<BeginVerdict> =>
      pool.oneFirst(sql.type(beginRow)`SELECT call_begin(${sql.jsonb({ ...call })}) AS verdict`),
    /** Reads the record of earlier attempts; null if there is none. */
    find: ({ jobId, callIndex }: CallName): Promise<BeginVerdict | null> =>
      pool.maybeOneFirst(sql.type(beginRow)`SELECT call_found(c) AS verdict FROM provider_call c
        WHERE job_id = ${jobId} AND call_index = ${callIndex}`),
    /** Records that the attempt that sends the call is still running. */
    touched: (call: CallName): Promise<void> => record(call, {}),
    /** Records that the provider certainly did not accept the call: it may be sent again. */
    refused: (call: CallName): Promise<void> => record(call, { state: 'refused' }),
    /** Records that the outcome of a sent call is unknown: it is never sent again. */
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
