/**
 * Pauses of providers. No new call is sent to a paused provider. Results of accepted calls are
 * still collected, and jobs that need the provider wait. The pause is read where a call is begun
 * (`call_begin`), so it holds for every dispatch from the moment it is written.
 */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../platform/database.ts';
import { firstIdAt } from '../domain/ids.ts';

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

const pauseRow = z.object({
  provider: z.string(),
  actor: z.string(),
  reason: z.string(),
  pausedAtMs: z.number(),
});
const countRow = z.object({ provider: z.string(), waiting: z.number(), open: z.number() });

/** Makes the pauses and open calls of providers; `providers` are their names. */
export function createProviderPauses(pool: DatabasePool, providers: readonly string[]) {
  return {
    /** Lists the providers of this configuration. */
    async list(): Promise<readonly ProviderLine[]> {
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
    /** Lists jobs with a call that waits for this provider. */
    waitingJobs: (provider: string): Promise<readonly string[]> =>
      pool.anyFirst(sql.type(idRow)`
        SELECT DISTINCT r.id FROM reservation r JOIN provider_call c ON c.job_id = r.id
        WHERE r.state = 'reserved' AND c.state = 'waiting' AND c.provider = ${provider}
        ORDER BY r.id`),
  };
}
export type ProviderPauses = ReturnType<typeof createProviderPauses>;

/** Pauses a provider; returns false if it was paused before, whose reason then stays. */
export async function pauseProvider(
  connection: CommonQueryMethods,
  { provider, actor, reason }: Pause,
): Promise<boolean> {
  const paused = await connection.any(sql.type(providerRow)`
    INSERT INTO provider_pause (provider, actor, reason) VALUES (${provider}, ${actor}, ${reason})
    ON CONFLICT (provider) DO NOTHING RETURNING provider`);
  return paused.length > 0;
}

/** Ends a pause; returns false if there was none. */
export async function resumeProvider(
  connection: CommonQueryMethods,
  provider: string,
): Promise<boolean> {
  const resumed = await connection.any(sql.type(providerRow)`
    DELETE FROM provider_pause WHERE provider = ${provider} RETURNING provider`);
  return resumed.length > 0;
}

/** Calls of a provider for the jobs that were accepted in the last minutes and have ended. */
const providerFigures = z.object({
  provider: z.string(),
  calls: z.number(),
  /**
   * Refused, failed or unanswered calls, without those that were declined because of their input.
   */
  failed: z.number(),
  /**
   * Time from sending a call to knowing that it has ended, of completed jobs; null if there is
   * none.
   */
  medianSeconds: z.number().nullable(),
  slowSeconds: z.number().nullable(),
});
/** Figures of a provider; `slowSeconds` is the 95th percentile. */
type ProviderFigures = z.infer<typeof providerFigures>;

/** Returns the figures of the last `minutes`, of the providers that were called. */
export function createReadProviderFigures(pool: DatabasePool) {
  return (minutes: number): Promise<readonly ProviderFigures[]> =>
    // Job ids are ordered by time, so no other index is needed.
    pool.any(sql.type(providerFigures)`
      SELECT c.provider, count(*) AS calls,
        count(*) FILTER (WHERE c.state <> 'answered' AND (c.state IN ('refused', 'unknown')
          OR j.error->>'code' IN ('PROVIDER_ERROR', 'DEADLINE_EXCEEDED', 'OUTCOME_UNKNOWN')))
          AS failed,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY t.seconds) AS "medianSeconds",
        percentile_cont(0.95) WITHIN GROUP (ORDER BY t.seconds) AS "slowSeconds"
      FROM job j JOIN provider_call c ON c.job_id = j.id
        LEFT JOIN LATERAL (SELECT extract(epoch FROM coalesce(c.answered_at,
            (SELECT min(n.received_at) FROM notification n
              WHERE n.job_id = c.job_id AND n.call_index = c.call_index),
            j.completed_at) - c.begun_at)::float8 AS seconds
          WHERE j.status = 'completed' AND c.state IN ('accepted', 'answered')) t ON true
      WHERE j.id >= ${firstIdAt('job', Date.now() - minutes * 60_000)} AND j.status <> 'queued'
      GROUP BY c.provider`);
}
