/**
 * Refusals that are known before a job is started. Only the reservation decides; but an organization that
 * was refused a moment ago is looked up first, so that one which goes on asking with nothing left costs
 * a read each time and not a workflow.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import type { Refusal } from '../../jobs/ledger-verdicts.ts';

/** See the file's head. */
export interface ForeseenRefusals {
  /** Remembers for a minute that the ledger has refused the organization. */
  note: (organizationId: string) => void;
  /**
   * The refusal that a Studio reservation of this price would meet now, for an organization that is
   * remembered; null: the ledger must be asked.
   */
  foresee: (organizationId: string, amountMicro: number) => Promise<Refusal | null>;
}

const rememberedMs = 60_000;
/** Organizations that are remembered at most; one that is forgotten costs a workflow once more. */
const organizationsMax = 10_000;

const account = z.object({
  posted: z.number(),
  reserved: z.number(),
  leased: z.boolean(),
  windowFull: z.boolean(),
  resetAt: z.string(),
  now: z.string(),
});

/** See `ForeseenRefusals`. */
export function createForeseenRefusals(pool: DatabasePool): ForeseenRefusals {
  /** By organization: until when, by `performance.now()`. */
  const refused = new Map<string, number>();

  return {
    note(organizationId) {
      if (refused.size >= organizationsMax) refused.clear();
      refused.set(organizationId, performance.now() + rememberedMs);
    },
    async foresee(organizationId, amountMicro) {
      const untilMs = refused.get(organizationId);
      if (untilMs === undefined) return null;
      if (performance.now() >= untilMs) {
        refused.delete(organizationId);
        return null;
      }
      const row = await pool.maybeOne(sql.type(account)`
        SELECT posted, reserved,
          EXISTS (SELECT FROM reservation r WHERE r.organization_id = a.organization_id
            AND r.kind = 'lease' AND r.state = 'reserved') AS leased,
          coalesce(now() < ledger_window_end(window_started_at)
            AND window_used + ${amountMicro}::bigint > window_limit, false) AS "windowFull",
          to_json(coalesce(ledger_window_end(window_started_at), now())) #>> '{}' AS "resetAt",
          to_json(now()) #>> '{}' AS now
        FROM account a WHERE organization_id = ${organizationId}`);
      return row && refusalOf(row, amountMicro);
    },
  };
}

/** In the ledger's own order. What is leased to chats can be had back: the ledger asks for it. */
function refusalOf(row: z.infer<typeof account>, amountMicro: number): Refusal | null {
  const { posted, reserved, resetAt, now } = row;
  const balance = { posted, reserved, available: posted - reserved };
  if (balance.available < amountMicro) {
    return row.leased ? null : { verdict: 'insufficient_credits', required: amountMicro, balance };
  }
  return row.windowFull ? { verdict: 'window_exhausted', resetAt, now, balance } : null;
}
