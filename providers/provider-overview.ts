/**
 * Pauses of providers, and figures of their calls. No new call is sent to a paused provider; the
 * results of calls that it has already accepted are still read, and jobs that need it wait. The
 * pause is read in the transaction that begins a call (`call_begin`), so it applies to every call
 * from the moment it is written.
 */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../platform/database.ts';
import { firstIdAt } from '../domain/ids.ts';

const idRow = z.object({ id: z.string() });
const providerRow = z.object({ provider: z.string() });

/** State of a provider, for operators; times are Unix ms. */
export interface ProviderLine {
  provider: string;
  paused: { sinceMs: number; actor: string; reason: string } | null;
  /** Number of calls that wait for the end of the pause. */
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
 * Makes the reader of pauses and open calls; `providers` are the names of the configured providers.
 */
export function createProviderPauses(pool: DatabasePool, providers: readonly string[]) {
  return {
    /** Returns the state of every configured provider. */
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
    /** Returns the ids of jobs with a call that waits for this provider. */
    waitingJobs: (provider: string): Promise<readonly string[]> =>
      pool.anyFirst(sql.type(idRow)`
        SELECT DISTINCT r.id FROM reservation r JOIN provider_call c ON c.job_id = r.id
        WHERE r.state = 'reserved' AND c.state = 'waiting' AND c.provider = ${provider}
        ORDER BY r.id`),
  };
}
export type ProviderPauses = ReturnType<typeof createProviderPauses>;

/**
 * Pauses a provider; returns false if it was already paused, and keeps the reason of that pause.
 */
export async function pauseProvider(
  connection: CommonQueryMethods,
  { provider, actor, reason }: Pause,
): Promise<boolean> {
  const paused = await connection.any(sql.type(providerRow)`
    INSERT INTO provider_pause (provider, actor, reason) VALUES (${provider}, ${actor}, ${reason})
    ON CONFLICT (provider) DO NOTHING RETURNING provider`);
  return paused.length > 0;
}

/** Ends the pause of a provider; returns false if the provider was not paused. */
export async function resumeProvider(
  connection: CommonQueryMethods,
  provider: string,
): Promise<boolean> {
  const resumed = await connection.any(sql.type(providerRow)`
    DELETE FROM provider_pause WHERE provider = ${provider} RETURNING provider`);
  return resumed.length > 0;
}

/**
 * Schema of the figures of a provider in a time step: its calls for jobs that were accepted in that
 * time and have ended.
 */
const providerFigures = z.object({
  provider: z.string(),
  /** Index of the time step in which the jobs were accepted; 0 is the oldest. */
  step: z.number(),
  calls: z.number(),
  /**
   * Number of calls that were refused, failed or had no response. Calls whose input was rejected
   * are not counted.
   */
  failed: z.number(),
  /**
   * Median time from sending a call to the report of its end, for completed jobs; null if there are
   * none.
   */
  medianSeconds: z.number().nullable(),
  /** 95th percentile of the same times; null if there are none. */
  slowSeconds: z.number().nullable(),
});
/** Figures of a provider in a time step. */
export type ProviderFigures = z.infer<typeof providerFigures>;

/** Time of which figures are read, in equal steps that end now. */
interface FigureSteps {
  minutes: number;
  steps: number;
}

/** Makes the function that reads the figures of each time step with calls, for each provider. */
export function createReadProviderFigures(pool: DatabasePool) {
  return ({ minutes, steps }: FigureSteps): Promise<readonly ProviderFigures[]> => {
    const startMs = Date.now() - minutes * 60_000;
    // Job ids are ordered by time, so the query uses the primary key.
    return pool.any(sql.type(providerFigures)`
      SELECT c.provider,
        least(greatest(width_bucket(extract(epoch FROM j.created_at) * 1000, ${startMs},
          ${startMs + minutes * 60_000}, ${steps}) - 1, 0), ${steps - 1}) AS step,
        count(*) AS calls,
        count(*) FILTER (WHERE c.state <> 'answered' AND (c.state IN ('refused', 'unknown')
          OR j.error->>'code' IN ('PROVIDER_ERROR', 'DEADLINE_EXCEEDED', 'OUTCOME_UNKNOWN')))
          AS failed,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY t.seconds) AS "medianSeconds",
        percentile_cont(0.95) WITHIN GROUP (ORDER BY t.seconds) AS "slowSeconds"
      FROM job j JOIN provider_call c ON c.job_id = j.id
        LEFT JOIN LATERAL (SELECT extract(epoch FROM coalesce(c.answered_at,
            (SELECT min(n.received_at) FROM provider_notification n
              WHERE n.job_id = c.job_id AND n.call_index = c.call_index),
            j.completed_at) - c.begun_at)::float8 AS seconds
          WHERE j.status = 'completed' AND c.state IN ('accepted', 'answered')) t ON true
      WHERE j.id >= ${firstIdAt('job', startMs)} AND j.status <> 'open'
      GROUP BY 1, 2`);
  };
}
