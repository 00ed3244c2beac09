/** The processes of the gateway, as they report themselves, and the wish that one of them drains. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from './database.ts';
import type { Logger } from './logger.ts';

const askedRow = z.object({ asked: z.number().nullable() });
const none = z.object({});
const idRow = z.object({ id: z.string() });

/** A process that reports itself; times are Unix ms. */
const gatewayProcess = z.object({
  id: z.string(),
  kind: z.enum(['api', 'worker']),
  host: z.string(),
  pid: z.number(),
  buildId: z.string().nullable(),
  startedAtMs: z.number(),
  seenAtMs: z.number(),
  drainAskedAtMs: z.number().nullable(),
});
/** See `gatewayProcess`. */
export type GatewayProcess = z.infer<typeof gatewayProcess>;

interface RegisterOptions {
  pool: DatabasePool;
  logger: Logger;
  kind: GatewayProcess['kind'];
  buildId: string | null;
  /** Called once, when an operator asks this process to drain. */
  onDrain: () => void;
}

/** How often a process reports, and hears of the wish that it drains. */
const reportIntervalMs = 2000;

/** Reports this process until the returned function is called; never throws. */
export function registerProcess(options: RegisterOptions): () => Promise<void> {
  const { pool, logger, kind, buildId } = options;
  const id = `${kind}-${randomUUID().slice(0, 8)}`;
  let asked = false;
  let reporting: Promise<void> | null = null;

  async function report(): Promise<void> {
    try {
      const wish = await pool.oneFirst(sql.type(askedRow)`
        INSERT INTO gateway_process (id, kind, host, pid, build_id)
          VALUES (${id}, ${kind}, ${hostname()}, ${process.pid}, ${buildId})
        ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp()
        RETURNING drain_asked_at AS asked`);
      if (wish === null || asked) return;
      asked = true;
      logger.info({ processId: id }, 'process.drain_asked');
      options.onDrain();
    } catch (error) {
      // A database that is away is reported elsewhere; a process that does not report still serves.
      logger.debug({ error }, 'process.not_reported');
    }
  }
  const tick = (): void => {
    reporting ??= report().finally(() => {
      reporting = null;
    });
  };
  tick();
  const timer = setInterval(tick, reportIntervalMs);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await reporting;
    await pool.query(sql.type(none)`DELETE FROM gateway_process WHERE id = ${id}`).catch(() => {});
  };
}

/** Processes that reported in the last seconds; those that died without a word are forgotten after a minute. */
export function listProcesses(pool: DatabasePool): Promise<readonly GatewayProcess[]> {
  return pool.any(sql.type(gatewayProcess)`
    WITH gone AS (
      DELETE FROM gateway_process WHERE seen_at < clock_timestamp() - interval '1 minute')
    SELECT id, kind, host, pid, build_id AS "buildId", started_at AS "startedAtMs",
      seen_at AS "seenAtMs", drain_asked_at AS "drainAskedAtMs"
    FROM gateway_process WHERE seen_at >= clock_timestamp() - interval '1 minute'
    ORDER BY started_at`);
}

/** Asks a process to drain; false when there is none of that id. */
export async function askToDrain(connection: CommonQueryMethods, id: string): Promise<boolean> {
  const rows = await connection.any(sql.type(idRow)`
    UPDATE gateway_process SET drain_asked_at = coalesce(drain_asked_at, clock_timestamp())
    WHERE id = ${id} RETURNING id`);
  return rows.length > 0;
}
