/**
 * Pauses and resumes providers. No new call is sent to a paused provider, and jobs that need it
 * wait. The results of calls that it has already accepted are still read. A pause takes effect when
 * it is committed, because `call_begin` reads it in the transaction that begins a call.
 */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../platform/database.ts';

const idRow = z.object({ id: z.string() });
const providerRow = z.object({ provider: z.string() });

/** State of a provider, as operators see it. Times are in Unix milliseconds. */
export interface ProviderState {
  provider: string;
  paused: { sinceMs: number; actor: string; reason: string } | null;
  /** Number of calls that wait for the provider to be resumed. */
  waiting: number;
  /** Number of calls that were sent and have not ended. */
  open: number;
}

interface Pause {
  provider: string;
  actor: string;
  reason: string;
}

const pauseRow = z.object({
  provider: z.string(),
  actor: z.string(),
  reason: z.string(),
  pausedAtMs: z.number(),
});
const countRow = z.object({ provider: z.string(), waiting: z.number(), open: z.number() });

/**
 * Creates the functions that read the pauses and the open calls of providers. `providers` contains
 * the names of the configured providers.
 */
export function createProviderPauses(pool: DatabasePool, providers: readonly string[]) {
  return {
    /** Returns the state of every configured provider. */
    async list(): Promise<readonly ProviderState[]> {
      const pauses = await pool.any(sql.type(pauseRow)`
        SELECT provider, actor, reason, paused_at AS "pausedAtMs" FROM provider_pause`);
      const counts = await pool.any(sql.type(countRow)`
        SELECT c.provider, count(*) FILTER (WHERE c.state = 'waiting') AS waiting,
          count(*) FILTER (WHERE c.state IN ('begun', 'accepted', 'unknown')) AS open
        FROM reservation r JOIN provider_call c ON c.job_id = r.id
        WHERE r.state = 'reserved' GROUP BY c.provider`);
      return providers.map((provider) => {
        const pause = pauses.find((row) => row.provider === provider);
        const count = counts.find((row) => row.provider === provider);
        return {
          provider,
          paused: pause
            ? { sinceMs: pause.pausedAtMs, actor: pause.actor, reason: pause.reason }
            : null,
          waiting: count?.waiting ?? 0,
          open: count?.open ?? 0,
        };
      });
    },
    /** Returns the ids of the jobs with a call that waits for a provider to be resumed. */
    listWaitingJobs: (provider: string): Promise<readonly string[]> =>
      pool.anyFirst(sql.type(idRow)`
        SELECT DISTINCT r.id FROM reservation r JOIN provider_call c ON c.job_id = r.id
        WHERE r.state = 'reserved' AND c.state = 'waiting' AND c.provider = ${provider}
        ORDER BY r.id`),
  };
}
export type ProviderPauses = ReturnType<typeof createProviderPauses>;

/** Pauses a provider. Returns false if it is already paused; that pause stays as it is. */
export async function pauseProvider(
  connection: CommonQueryMethods,
  { provider, actor, reason }: Pause,
): Promise<boolean> {
  const insertedRows = await connection.any(sql.type(providerRow)`
    INSERT INTO provider_pause (provider, actor, reason) VALUES (${provider}, ${actor}, ${reason})
    ON CONFLICT (provider) DO NOTHING RETURNING provider`);
  return insertedRows.length > 0;
}

/** Resumes a provider. Returns false if it was not paused. */
export async function resumeProvider(
  connection: CommonQueryMethods,
  provider: string,
): Promise<boolean> {
  const deletedRows = await connection.any(sql.type(providerRow)`
    DELETE FROM provider_pause WHERE provider = ${provider} RETURNING provider`);
  return deletedRows.length > 0;
}
