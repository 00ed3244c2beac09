/**
 * Pausing a provider: no new call is sent to it. What it has already taken is still collected, and jobs
 * that need it wait. The pause is read where a call is begun (`call_begin`), so it holds for every way of
 * dispatch and from the moment it is written.
 */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';

const idRow = z.object({ id: z.string() });
const providerRow = z.object({ provider: z.string() });

/** A provider as operators see it; times are Unix ms. */
export interface ProviderLine {
  provider: string;
  paused: { sinceMs: number; actor: string; reason: string } | null;
  /** Calls that wait for the end of the pause. */
  waiting: number;
  /** Calls that were sent and have not ended. */
  open: number;
}

interface Pause {
  provider: string;
  actor: string;
  reason: string;
}

/** Reads over a pool. */
export interface ProviderPauses {
  /** The providers of this configuration. */
  list: () => Promise<readonly ProviderLine[]>;
  /** Jobs with a call that waits for this provider. */
  waitingJobs: (provider: string) => Promise<readonly string[]>;
}

const pauseRow = z.object({
  provider: z.string(),
  actor: z.string(),
  reason: z.string(),
  pausedAtMs: z.number(),
});
const countRow = z.object({ provider: z.string(), waiting: z.number(), open: z.number() });

/** See `ProviderPauses`; `providers` are the names in force. */
export function createProviderPauses(
  pool: DatabasePool,
  providers: readonly string[],
): ProviderPauses {
  return {
    async list() {
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
    waitingJobs: (provider) =>
      pool.anyFirst(sql.type(idRow)`
        SELECT DISTINCT r.id FROM reservation r JOIN provider_call c ON c.job_id = r.id
        WHERE r.state = 'reserved' AND c.state = 'waiting' AND c.provider = ${provider}
        ORDER BY r.id`),
  };
}

/** Pauses a provider; false when it already was, and stays so for the first reason given. */
export async function pauseProvider(
  connection: CommonQueryMethods,
  { provider, actor, reason }: Pause,
): Promise<boolean> {
  const paused = await connection.any(sql.type(providerRow)`
    INSERT INTO provider_pause (provider, actor, reason) VALUES (${provider}, ${actor}, ${reason})
    ON CONFLICT (provider) DO NOTHING RETURNING provider`);
  return paused.length > 0;
}

/** Ends a pause; false when there was none. */
export async function resumeProvider(
  connection: CommonQueryMethods,
  provider: string,
): Promise<boolean> {
  const resumed = await connection.any(sql.type(providerRow)`
    DELETE FROM provider_pause WHERE provider = ${provider} RETURNING provider`);
  return resumed.length > 0;
}
