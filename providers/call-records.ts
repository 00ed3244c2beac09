/**
 * Records of provider calls in the database. A call is recorded before it is sent, so that it is
 * never sent twice, even if a process crashes in between.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { asJson, type JsonObject } from '../domain/json.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import { callOutputs } from '../jobs/job-record.ts';
import type { CallOutputs } from '../jobs/job-plan.ts';
import { providerOperation, type CallProgress, type ProviderOperation } from './provider.ts';

/** Identifies a provider call: the job, and the index of the call in the job. */
export interface CallIds {
  jobId: string;
  callIndex: number;
}

/**
 * Result of `begin` and `find`: whether the attempt may send the call, or the state that an earlier
 * attempt recorded.
 */
const beginVerdict = z.discriminatedUnion('verdict', [
  z.object({ verdict: z.literal('send') }),
  /** The provider is paused, so the call must not be sent now. */
  z.object({ verdict: z.literal('paused') }),
  /** The job is settled, so none of its calls may be sent. */
  z.object({ verdict: z.literal('settled') }),
  /**
   * The provider is no longer paused. Only returned if the attempt merely waits for that
   * (`CallAttempt.wait`).
   */
  z.object({ verdict: z.literal('resumed') }),
  /**
   * `not_accepted` means that the provider certainly did not accept the call, `waiting` that the call
   * waits until its provider is resumed.
   */
  z.object({ verdict: z.enum(['not_accepted', 'waiting']) }),
  /**
   * Another attempt is sending the call. `touchedAtMs` is when it last recorded that it is running
   * (Unix milliseconds, database clock). `notifiedId` is the operation id in the newest
   * notification for the call; null if none was received.
   */
  z.object({
    verdict: z.literal('begun'),
    touchedAtMs: z.number(),
    notifiedId: z.string().nullable(),
  }),
  /** The call was sent and its outcome is unknown. `notifiedId` is as above. */
  z.object({ verdict: z.literal('unknown'), notifiedId: z.string().nullable() }),
  z.object({ verdict: z.literal('accepted'), operation: providerOperation }),
  z.object({
    verdict: z.literal('answered'),
    outputs: callOutputs,
    providerRequestId: z.string().nullable(),
  }),
]);
export type BeginVerdict = z.infer<typeof beginVerdict>;

const beginRow = z.object({ verdict: beginVerdict });

/** Attempt to send a call by one of its routes. */
interface CallAttempt extends CallIds {
  routeIndex: number;
  provider: string;
  providerEndpoint: string;
  /** Id of the attempt that sends the call. If the attempt repeats `begin`, it uses the same id. */
  senderId?: string;
  /**
   * True if the attempt only waits until the provider is resumed. The call is then not recorded as
   * begun.
   */
  wait?: true;
}

/** Response of a provider that certainly did not accept a call. */
interface FailedSubmit {
  message: string;
  /** The provider's id of the request; null if there was no response. */
  providerRequestId: string | null;
}

/** Creates the functions that read and write the records. */
export function createCallRecords(pool: DatabasePool) {
  async function record({ jobId, callIndex }: CallIds, change: JsonObject): Promise<void> {
    await pool.query(command`SELECT call_record(${jobId}, ${callIndex}, ${sql.jsonb(change)})`);
  }
  return {
    /**
     * Records that the call is about to be sent, unless it must not be sent; returns the verdict.
     */
    begin: (call: CallAttempt): Promise<BeginVerdict> =>
      pool.oneFirst(sql.type(beginRow)`SELECT call_begin(${sql.jsonb({ ...call })}) AS verdict`),
    /** Reads what earlier attempts recorded; null if there is no record. */
    find: ({ jobId, callIndex }: CallIds): Promise<BeginVerdict | null> =>
      pool.maybeOneFirst(sql.type(beginRow)`SELECT call_found(c) AS verdict FROM provider_call c
        WHERE job_id = ${jobId} AND call_index = ${callIndex}`),
    /** Records that the attempt that sends the call is still running. */
    markRunning: (call: CallIds): Promise<void> => record(call, {}),
    /**
     * Records that the provider certainly did not accept the call, so that it may be sent again.
     */
    markNotAccepted: (call: CallIds, submit: FailedSubmit): Promise<void> =>
      record(call, { state: 'not_accepted', ...submit }),
    /**
     * Records that the call was sent and its outcome is unknown, so that it is never sent again.
     */
    markUnknown: (call: CallIds, providerRequestId: string | null): Promise<void> =>
      record(call, { state: 'unknown', providerRequestId }),
    /** Records that the provider has responded with the result, which is being stored. */
    markResponded: (call: CallIds, providerRequestId: string | null): Promise<void> =>
      record(call, { providerRequestId, progress: { state: 'storing' } }),
    /**
     * Records that the provider has queued the call, with the operation that identifies it there.
     */
    markAccepted: ({
      operation,
      ...call
    }: CallIds & { operation: ProviderOperation }): Promise<void> =>
      record(call, { state: 'accepted', operation }),
    /** Records the stored outputs of the call. */
    markAnswered: ({ outputs, ...call }: CallIds & { outputs: CallOutputs }): Promise<void> =>
      record(call, { state: 'answered', outputs: asJson(outputs) }),
    /** Records the progress of the call. */
    recordProgress: ({ progress, ...call }: CallIds & { progress: CallProgress }): Promise<void> =>
      record(call, { progress }),
  };
}
export type CallRecords = ReturnType<typeof createCallRecords>;
