/**
 * Records provider calls in the database. A call is recorded before it is sent, so that it is never
 * sent twice, even if the process crashes.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'slonik';
import { z } from 'zod';
import { asJson, toStorable, type JsonObject } from '../domain/json.ts';
import { command, isDatabaseUnavailable, type DatabasePool } from '../platform/database.ts';
import { callOutputs } from '../domain/job-record.ts';
import type { CallOutputs } from '../domain/job-plan.ts';
import type { ProviderFailure } from '../domain/provider-failure.ts';
import { providerOperation, type CallProgress, type ProviderOperation } from './provider.ts';

/** Identification of a provider call: the id of its job, and its index in the job. */
export interface CallIds {
  jobId: string;
  callIndex: number;
}

/**
 * Schema of the result of `begin` and `find`: whether the attempt may send the call, or the state
 * that an earlier attempt has recorded.
 */
const beginResult = z.discriminatedUnion('verdict', [
  z.object({ verdict: z.literal('send') }),
  /** The provider is paused, so the call must not be sent. */
  z.object({ verdict: z.literal('paused') }),
  /** The job is settled, so none of its calls may be sent. */
  z.object({ verdict: z.literal('settled') }),
  /**
   * The provider is not paused. This is the result only if the attempt waits for the provider to be
   * resumed (`CallAttempt.wait`).
   */
  z.object({ verdict: z.literal('resumed') }),
  /**
   * `not_accepted`: the provider certainly did not accept the call. `waiting`: the call waits until
   * its provider is resumed.
   */
  z.object({ verdict: z.enum(['not_accepted', 'waiting']) }),
  /**
   * Another attempt is sending the call. `updatedAtMs` is the Unix time in milliseconds at which
   * that attempt last recorded that it is running, by the clock of the database. `notifiedId` is
   * the operation id in the most recent notification for the call; null if none was received.
   */
  z.object({
    verdict: z.literal('begun'),
    updatedAtMs: z.number(),
    notifiedId: z.string().nullable(),
  }),
  /** The call was sent and its outcome is unknown. `notifiedId` means the same as in `begun`. */
  z.object({ verdict: z.literal('unknown'), notifiedId: z.string().nullable() }),
  z.object({ verdict: z.literal('accepted'), operation: providerOperation }),
  z.object({
    verdict: z.literal('answered'),
    outputs: callOutputs,
    providerRequestId: z.string().nullable(),
  }),
]);
export type BeginResult = z.infer<typeof beginResult>;

const beginRow = z.object({ result: beginResult });
const countRow = z.object({ count: z.number() });

/** Attempt to send a call on one of its routes. */
export interface CallAttempt extends CallIds {
  routeIndex: number;
  provider: string;
  providerEndpoint: string;
  /** Id of this attempt. If the attempt repeats `begin`, it passes the same id. */
  senderId?: string;
  /**
   * True if the attempt only waits until the provider is resumed. The call is then not recorded as
   * `begun`.
   */
  wait?: true;
}

/** Details of the error with which a submit failed; null if the provider sent none. */
type ErrorIds = Pick<ProviderFailure, 'providerRequestId' | 'providerErrorType'>;

/** Submit that the provider certainly did not accept. */
type UnacceptedSubmit = ErrorIds & { message: string };

/** Attempt that has ended, and whose call no provider has accepted. */
type UnsentCall = CallIds & { senderId: string };

/** Interval at which unsent calls are recorded until the database is available, in milliseconds. */
const unsentIntervalMs = 1000;
/**
 * Milliseconds for which unsent calls are recorded again: a server that was frozen may execute a
 * `begin` late whose attempt has received no response.
 */
const unsentRepeatMs = 10_000;

/**
 * Returns `noteUnsent`, which records in the background that an attempt has ended and no provider has
 * accepted its call, as soon as the database is available. Without this record, a call whose `begin`
 * was executed, but whose attempt received no response to it, could never be sent.
 */
function createUnsentNotes(pool: DatabasePool): (call: UnsentCall) => void {
  /** Unsent calls, and the time at which they were first recorded; null before. */
  const unsentCalls = new Map<UnsentCall, number | null>();
  async function recordUnsentCalls(): Promise<void> {
    while (unsentCalls.size > 0) {
      const calls = [...unsentCalls.keys()];
      try {
        await pool.query(
          command`SELECT call_unsent(${sql.jsonb(calls.map((call) => ({ ...call })))})`,
        );
        const nowMs = performance.now();
        for (const call of calls) {
          const recordedAtMs = unsentCalls.get(call) ?? nowMs;
          if (nowMs - recordedAtMs > unsentRepeatMs) unsentCalls.delete(call);
          else unsentCalls.set(call, recordedAtMs);
        }
      } catch (error) {
        // Another error does not end by waiting, e.g. because the process stops.
        if (!isDatabaseUnavailable(error)) unsentCalls.clear();
      }
      await sleep(unsentIntervalMs, undefined, { ref: false });
    }
  }
  return ({ jobId, callIndex, senderId }) => {
    unsentCalls.set({ jobId, callIndex, senderId }, null);
    if (unsentCalls.size === 1) void recordUnsentCalls();
  };
}

/** Creates the functions that read and write the records of provider calls. */
export function createCallRecords(pool: DatabasePool) {
  async function record({ jobId, callIndex }: CallIds, change: JsonObject): Promise<void> {
    await pool.query(
      command`SELECT call_record(${jobId}, ${callIndex}, ${sql.jsonb(toStorable(change))})`,
    );
  }
  return {
    /** Decides whether a call may be sent now; records it as `begun` or `waiting` (calls.sql). */
    begin: (call: CallAttempt): Promise<BeginResult> =>
      pool.oneFirst(sql.type(beginRow)`SELECT call_begin(${sql.jsonb({ ...call })}) AS result`),
    /** Reads the record of a call; null if no attempt has recorded the call. */
    find: ({ jobId, callIndex }: CallIds): Promise<BeginResult | null> =>
      pool.maybeOneFirst(sql.type(beginRow)`SELECT call_found(c) AS result FROM provider_call c
        WHERE job_id = ${jobId} AND call_index = ${callIndex}`),
    /** Records that the attempt that sends the call is still running. */
    markRunning: (call: CallIds): Promise<void> => record(call, {}),
    noteUnsent: createUnsentNotes(pool),
    /**
     * Records that the provider certainly did not accept the call. The call may be sent again.
     * Returns how often the provider of the current route did not accept it.
     */
    async markNotAccepted(call: CallIds, submit: UnacceptedSubmit): Promise<number> {
      await record(call, { state: 'not_accepted', ...submit });
      return pool.oneFirst(sql.type(countRow)`
        SELECT count(*) AS count FROM provider_call c, jsonb_array_elements(unaccepted_submits) AS s
        WHERE job_id = ${call.jobId} AND call_index = ${call.callIndex}
          AND (s->>'routeIndex')::integer = c.route_index`);
    },
    /** Records that the call was sent and its outcome is unknown. The call is never sent again. */
    markUnknown: (call: CallIds, ids: ErrorIds): Promise<void> =>
      record(call, { state: 'unknown', ...ids }),
    /**
     * Records that the operation of an accepted call has ended because its provider could not read an
     * input file. The call may be sent again. Has no effect if the call has another operation.
     */
    markUnread: (
      { operation, ...call }: CallIds & { operation: ProviderOperation },
      failure: { message: string; providerErrorType: string | null },
    ): Promise<void> =>
      record(call, {
        state: 'not_accepted',
        unread: operation,
        providerRequestId: operation.id,
        ...failure,
      }),
    /** Records the provider's own type of the error with which an accepted call failed. */
    recordErrorType: (call: CallIds, providerErrorType: string): Promise<void> =>
      record(call, { providerErrorType }),
    /**
     * Records that the provider has responded with the result and that the result is being stored.
     */
    markResponded: (call: CallIds, providerRequestId: string | null): Promise<void> =>
      record(call, { providerRequestId, progress: { state: 'storing' } }),
    /** Records that the provider has queued the call as the given operation. */
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
