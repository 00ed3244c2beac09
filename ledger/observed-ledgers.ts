/** Adds metrics and traces to the ledgers of Studio and chat. */
import { SpanKind } from '@opentelemetry/api';
import { sql } from 'slonik';
import { z } from 'zod';
import { creditsFromMicro } from '../domain/credits.ts';
import { inSpan } from '../platform/telemetry.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { Ledger } from './ledger.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';

/** Objects to which ledger operations are reported: the metrics and the settlement counter. */
export interface Observers {
  metrics: Metrics;
  settlements: Settlements;
}

interface LedgerResult {
  verdict: string;
}

/** Runs a ledger operation in a span that records its result. */
export function observeLedgerOperation<Result extends LedgerResult>(
  name: string,
  operation: () => Promise<Result>,
): Promise<Result> {
  return inSpan({ name, kind: SpanKind.CLIENT }, async (span) => {
    const result = await operation();
    span.setAttributes({ 'ledger.verdict': result.verdict });
    return result;
  });
}

/** Runs a settlement in a span, and counts it in the metrics. */
export async function observeSettlement<Result extends LedgerResult>(
  { settlements }: Observers,
  id: string,
  settle: () => Promise<Result>,
): Promise<Result> {
  const result = await observeLedgerOperation('ledger.settle', settle);
  if (result.verdict === 'settled') settlements.add(id);
  return result;
}

/** Counts the reserved credits of a reservation, or its rejection, in the metrics. */
export function countReserve(
  metrics: Metrics,
  kind: string,
  { verdict, amountMicro }: LedgerResult & { amountMicro: number },
): void {
  if (verdict === 'reserved') metrics.creditsReserved.inc({ kind }, creditsFromMicro(amountMicro));
  else metrics.reservationsRejected.inc({ kind, verdict });
}

/** Adds metrics and traces to the Studio ledger. */
export function observeLedger(ledger: Ledger, observers: Observers): Ledger {
  const { metrics } = observers;
  return {
    ...ledger,
    async reserve(reserve) {
      const result = await observeLedgerOperation('ledger.reserve', () => ledger.reserve(reserve));
      const { kind, amountMicro } = reserve;
      const repeated = result.verdict === 'reserved' && result.repeated;
      if (!repeated) countReserve(metrics, kind, { verdict: result.verdict, amountMicro });
      return result;
    },
    settle: (settle) => observeSettlement(observers, settle.id, () => ledger.settle(settle)),
  };
}

const settledRow = z.object({
  kind: z.string(),
  amount: z.number(),
  charged: z.number(),
  seconds: z.number(),
  /** Seconds of a completed job outside its calls; null if the end of a call is not recorded. */
  overheadSeconds: z.number().nullable(),
  type: z.string().nullable(),
  status: z.string().nullable(),
  reason: z.string().nullable(),
  /** Model of the job or chat. A job without a model has its type here. */
  model: z.string(),
  provider: z.string(),
});

/**
 * Maximum number of settlements that wait for the next scrape. When it is reached, all of them are
 * counted immediately.
 */
const pendingMax = 5000;

/**
 * Creates the counter of this process's settlements. It collects the ids of settled reservations,
 * reads their rows at the next scrape, and counts them in the metrics.
 */
export function createSettlements(
  pool: DatabasePool,
  { metrics, logger }: { metrics: Metrics; logger: Logger },
) {
  let pending: string[] = [];

  async function countPending(): Promise<void> {
    const ids = pending;
    if (ids.length === 0) return;
    pending = [];
    try {
      const rows = await pool.any(sql.type(settledRow)`
        SELECT r.kind, r.amount, coalesce(r.charged, 0) AS charged,
          extract(epoch FROM r.settled_at - r.created_at)::float8 AS seconds,
          extract(epoch FROM r.settled_at - r.created_at - p.worked)::float8 AS "overheadSeconds",
          j.type, j.status, j.error->>'code' AS reason,
          coalesce(j.model, r.model, j.type) AS model, coalesce(j.provider, r.provider) AS provider
        FROM reservation r LEFT JOIN job j ON j.id = r.id
          LEFT JOIN LATERAL (
            SELECT max(h.responded_at) - min(c.begun_at) AS worked
            FROM provider_call c, LATERAL (SELECT coalesce(c.answered_at,
              (SELECT min(n.received_at) FROM provider_notification n
                WHERE n.job_id = c.job_id AND n.call_index = c.call_index)) AS responded_at) h
            WHERE c.job_id = j.id AND j.status = 'completed'
            HAVING bool_and(h.responded_at IS NOT NULL)) p ON true
        WHERE r.id = ANY(${sql.array(ids, 'text')}) AND r.state <> 'reserved'`);
      for (const row of rows) countOne(metrics, row);
    } catch (error) {
      logger.warn({ error, settlements: ids.length }, 'metrics.settlements_not_read');
      // Drops the oldest settlements if more than `pendingMax` wait.
      pending = [...ids, ...pending].slice(-pendingMax);
    }
  }

  metrics.onScrape(countPending);
  return {
    /** Adds the id of a reservation that this process has settled. */
    add(id: string): void {
      pending.push(id);
      if (pending.length >= pendingMax) void countPending();
    },
  };
}
type Settlements = ReturnType<typeof createSettlements>;

function countOne(metrics: Metrics, row: z.infer<typeof settledRow>): void {
  const { kind, amount, charged, type, status, provider, model } = row;
  metrics.creditsCharged.inc({ kind, provider, model }, creditsFromMicro(charged));
  metrics.creditsReleased.inc({ kind }, creditsFromMicro(Math.max(0, amount - charged)));
  if (type === null || status === null) return;
  metrics.jobsEnded.inc({ type, status, reason: row.reason ?? 'none' });
  metrics.jobSeconds.observe({ type, status }, row.seconds);
  metrics.genAiSeconds.observe(
    {
      gen_ai_operation_name: 'generate_content',
      gen_ai_provider_name: provider,
      gen_ai_request_model: model,
      error_type: row.reason ?? '',
    },
    row.seconds,
  );
  if (row.overheadSeconds === null) return;
  // The duration is negative if a status check found the outputs before the notification arrived.
  metrics.jobOverheadSeconds.observe({ type }, Math.max(0, row.overheadSeconds));
}
