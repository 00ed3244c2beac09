/**
 * Refusals that are known before a job is started. Only the reservation decides; but an organization that
 * was refused a moment ago is looked up first, so that one which goes on asking with nothing left costs
 * a read each time and not a workflow.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { reserveVerdict, type Refusal } from '../../jobs/ledger-verdicts.ts';

/** See the file's head. */
export interface KnownRefusals {
  /** Remembers for a minute that the ledger has refused the organization. */
  note: (organizationId: string) => void;
  /**
   * The refusal that a Studio reservation of this price would meet now, for an organization that is
   * remembered; null: the ledger must be asked.
   */
  find: (wanted: WantedReservation) => Promise<Refusal | null>;
}

/** A Studio reservation that is wanted; the price in micro-credits. */
export interface WantedReservation {
  organizationId: string;
  keyId: string;
  priceMicro: number;
}

const rememberedMs = 60_000;
/** Organizations that are remembered at most; one that is forgotten costs a workflow once more. */
const organizationsMax = 10_000;

const known = z.object({ answer: reserveVerdict });

/** See `KnownRefusals`. */
export function createKnownRefusals(pool: DatabasePool): KnownRefusals {
  /** By organization: until when, by `performance.now()`. */
  const refused = new Map<string, number>();

  return {
    note(organizationId) {
      if (refused.size >= organizationsMax) refused.clear();
      refused.set(organizationId, performance.now() + rememberedMs);
    },
    async find({ organizationId, keyId, priceMicro }) {
      const untilMs = refused.get(organizationId);
      if (untilMs === undefined) return null;
      if (performance.now() >= untilMs) {
        refused.delete(organizationId);
        return null;
      }
      // The ledger's own decision, on the account as it stands.
      const row = await pool.maybeOne(sql.type(known)`
        SELECT (decide_reserve(a, NULL, ${sql.jsonb({ kind: 'studio', amount: priceMicro })},
            key_budget(${keyId}))).answer
        FROM account a WHERE organization_id = ${organizationId}`);
      return !row || row.answer.verdict === 'reserved' ? null : row.answer;
    },
  };
}
