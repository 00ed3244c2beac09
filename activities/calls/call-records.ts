/**
 * Records of provider calls: what was about to be sent is written before it is sent, so that a call is
 * never sent a second time silently (design §3.6), whatever dies in between.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { jsonOf, type Json, type JsonObject } from '../../domain/json.ts';
import { createBatcher } from '../../platform/batch.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { CallOutputs } from '../../jobs/job-plan.ts';
import type { Operation } from '../providers/provider.ts';

/** Names one call of one job. */
export interface CallName {
  jobId: string;
  callIndex: number;
}

/** Whether the call may be sent, or what an earlier attempt left. */
export type BeginVerdict =
  | { verdict: 'send' }
  /** The provider is paused: nothing may be sent now. */
  | { verdict: 'paused' }
  /** The job was settled: nothing may be sent for it any more. */
  | { verdict: 'settled' }
  /**
   * Another attempt sends it, and said that it lives at `touchedAtMs` (Unix ms of the database's clock); a
   * notification may have named it since.
   */
  | { verdict: 'begun'; touchedAtMs: number; notifiedId: string | null }
  /** It was sent, and nobody knows what came of it; a notification may have named it. */
  | { verdict: 'unknown'; notifiedId: string | null }
  | { verdict: 'accepted'; operation: Operation }
  | { verdict: 'answered'; outputs: CallOutputs };

/** Call records over a pool. */
export interface CallRecords {
  begin: (
    call: CallName & { routeIndex: number; provider: string; endpoint: string },
  ) => Promise<BeginVerdict>;
  /** The attempt that sends the call lives. */
  touched: (call: CallName) => Promise<void>;
  /** The provider certainly did not take the call: it may be sent again. */
  refused: (call: CallName) => Promise<void>;
  /** It was sent, and what came of it is not known: it is never sent again. */
  unknown: (call: CallName) => Promise<void>;
  accepted: (call: CallName & { operation: Operation }) => Promise<void>;
  answered: (call: CallName & { outputs: CallOutputs }) => Promise<void>;
  progressed: (call: CallName & { progress: Json }) => Promise<void>;
}

const answers = z.object({ answers: z.custom<BeginVerdict[]>() });

/** Call records, written in shared commits. */
export function createCallRecords(pool: DatabasePool): CallRecords {
  const move = createBatcher<JsonObject, BeginVerdict>({
    name: 'calls',
    sizeMax: 200,
    parallelMax: 2,
    run: (moves) =>
      pool.oneFirst(sql.type(answers)`SELECT call_apply(${sql.jsonb(moves)}) AS answers`),
  });
  const record = async (fields: JsonObject): Promise<void> => {
    await move({ verb: 'record', ...fields });
  };
  return {
    begin: async (call) => await move({ verb: 'begin', ...call }),
    touched: (call) => record({ ...call }),
    refused: (call) => record({ ...call, state: 'refused' }),
    unknown: (call) => record({ ...call, state: 'unknown' }),
    accepted: (call) => record({ ...call, state: 'accepted' }),
    answered: (call) => record({ ...call, state: 'answered', outputs: jsonOf(call.outputs) }),
    progressed: (call) => record({ ...call }),
  };
}
