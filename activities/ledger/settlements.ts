/**
 * What settlements came to, in metrics. The settling code only notes the id; the rows are read together
 * when somebody looks, so that a charge costs no more than it did.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { creditsFromMicro } from '../../domain/credits.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../platform/metrics.ts';

/** Counts settlements of this process. */
export interface Settlements {
  /** This reservation has just been settled, by a move of this process. */
  note: (id: string) => void;
}

const settled = z.object({
  kind: z.string(),
  amount: z.number(),
  charged: z.number(),
  seconds: z.number(),
  /** Of those, not between the first call and the provider's last word; null where its word was not noted. */
  overheadSeconds: z.number().nullable(),
  type: z.string().nullable(),
  status: z.string().nullable(),
  reason: z.string().nullable(),
});

/** Without a scraper the list must not grow for ever. */
const notedMax = 5000;

/** See `Settlements`. */
export function createSettlements(
  pool: DatabasePool,
  { metrics, logger }: { metrics: Metrics; logger: Logger },
): Settlements {
  let noted: string[] = [];

  async function count(): Promise<void> {
    const ids = noted;
    if (ids.length === 0) return;
    noted = [];
    try {
      const rows = await pool.any(sql.type(settled)`
        SELECT r.kind, r.amount, coalesce(r.charged, 0) AS charged,
          extract(epoch FROM r.settled_at - r.created_at)::float8 AS seconds,
          extract(epoch FROM r.settled_at - r.created_at - p.worked)::float8 AS "overheadSeconds",
          j.type, j.status, j.error->>'code' AS reason
        FROM reservation r LEFT JOIN job j ON j.id = r.id
          LEFT JOIN LATERAL (
            SELECT max(h.heard_at) - min(c.begun_at) AS worked
            FROM provider_call c, LATERAL (SELECT coalesce(c.answered_at,
              (SELECT min(n.received_at) FROM notification n
                WHERE n.job_id = c.job_id AND n.call_index = c.call_index)) AS heard_at) h
            WHERE c.job_id = j.id AND j.status = 'completed'
            HAVING bool_and(h.heard_at IS NOT NULL)) p ON true
        WHERE r.id = ANY(${sql.array(ids, 'text')}) AND r.state <> 'reserved'`);
      for (const row of rows) countOne(metrics, row);
    } catch (error) {
      logger.warn({ error, settlements: ids.length }, 'metrics.settlements_not_read');
      noted = [...ids, ...noted].slice(-notedMax);
    }
  }

  metrics.onScrape(count);
  return {
    note(id) {
      noted.push(id);
      if (noted.length >= notedMax) void count();
    },
  };
}

function countOne(metrics: Metrics, row: z.infer<typeof settled>): void {
  const { kind, amount, charged, type, status } = row;
  metrics.creditsCharged.inc({ kind }, creditsFromMicro(charged));
  metrics.creditsReleased.inc({ kind }, creditsFromMicro(amount - charged));
  if (type === null || status === null) return;
  metrics.jobsEnded.inc({ type, status, reason: row.reason ?? 'none' });
  metrics.jobSeconds.observe({ type, status }, row.seconds);
  if (row.overheadSeconds === null) return;
  // A notification may come later than the check that found the outputs.
  metrics.jobOverheadSeconds.observe({ type }, Math.max(0, row.overheadSeconds));
}
