/**
 * The usage feed: the charges, releases, refunds and grants of an account, in the order of its ledger
 * entries. Entries get their numbers under the account's lock, so a reader that has seen a number misses no
 * smaller one.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { fixedUnits } from '../domain/book-price.ts';
import { GatewayError } from '../domain/errors.ts';
import type { DatabasePool } from '../platform/database.ts';

const usageEvent = z.object({
  number: z.int(),
  kind: z.enum(['charge', 'release', 'refund', 'grant']),
  postedChangeMicro: z.number(),
  /** Time of the entry. */
  createdAtMs: z.number(),
  /** Time at which the job or chat began; null for a grant. */
  startedAtMs: z.number().nullable(),
  /** `chat`, or the type of the job; null for a grant. */
  type: z.string().nullable(),
  model: z.string().nullable(),
  inputTokens: z.number().nullable(),
  outputTokens: z.number().nullable(),
  cachedInputTokens: z.number().nullable(),
  cacheWriteTokens: z.number().nullable(),
  reasoningTokens: z.number().nullable(),
  /** Delivered units of a job; null for other entries. */
  units: z.array(z.object({ unit: z.enum(fixedUnits), quantity: z.number() })).nullable(),
  priceRows: z.array(z.string()).nullable(),
  keyId: z.string().nullable(),
  metadata: z.record(z.string(), z.string()).nullable(),
  subjectId: z.string().nullable(),
  requestId: z.string().nullable(),
});
/** Event of the usage feed. */
export type UsageEvent = z.infer<typeof usageEvent>;

const archiveRow = z.object({ archivedThrough: z.number(), archive: z.string() });
const position = z.object({ organizationId: z.string(), lastNumber: z.int() });

interface EventPage {
  /** Number of the last event that the reader has. */
  after: number;
  limit: number;
}

/** Creates the functions that read the usage feed. */
export function createUsageEvents(pool: DatabasePool) {
  return {
    /**
     * Reads the events behind a number.
     * @throws GatewayError USAGE_ARCHIVED if some of them are archived
     */
    async read(
      organizationId: string,
      { after, limit }: EventPage,
    ): Promise<readonly UsageEvent[]> {
      const events = await pool.any(sql.type(usageEvent)`
        SELECT e.sequence AS number, e.kind, e.posted_change AS "postedChangeMicro", e.created_at AS "createdAtMs",
          r.created_at AS "startedAtMs", CASE WHEN r.id IS NOT NULL THEN coalesce(j.type, 'chat') END AS type,
          coalesce(j.model, r.model) AS model, u.input_tokens AS "inputTokens", u.output_tokens AS "outputTokens",
          u.cached_input_tokens AS "cachedInputTokens", u.cache_write_tokens AS "cacheWriteTokens",
          u.reasoning_tokens AS "reasoningTokens",
          CASE WHEN e.kind = 'charge' AND r.kind = 'studio' THEN coalesce((
            SELECT jsonb_agg(jsonb_build_object('unit', x.unit, 'quantity', x.quantity) ORDER BY x.unit)
            FROM (SELECT line->>'unit' AS unit, sum((line->>'quantity')::bigint) AS quantity
              FROM jsonb_path_query(j.outputs, '$[*].line') AS line GROUP BY 1) AS x), '[]') END AS units,
          e.price_rows AS "priceRows", coalesce(j.key_id, r.key_id) AS "keyId", coalesce(j.metadata, r.metadata) AS metadata,
          e.reservation_id AS "subjectId", coalesce(j.request_id, r.request_id) AS "requestId"
        FROM ledger_entry e LEFT JOIN reservation r ON r.id = e.reservation_id LEFT JOIN job j ON j.id = r.id
          LEFT JOIN LATERAL (SELECT r.* WHERE e.kind = 'charge') AS u ON true
        WHERE e.organization_id = ${organizationId} AND e.sequence > ${after}::bigint AND e.kind <> 'reserve'
        ORDER BY e.sequence LIMIT ${limit}`);
      // Archived entries are looked for behind the read: an archive that was written meanwhile is found.
      const archived = await pool.maybeOne(sql.type(archiveRow)`
        SELECT sequence AS "archivedThrough", storage_key AS archive FROM archive_segment
        WHERE organization_id = ${organizationId} AND sequence > ${after}::bigint ORDER BY sequence LIMIT 1`);
      if (!archived) return events;
      const { archivedThrough, archive } = archived;
      throw new GatewayError(
        'USAGE_ARCHIVED',
        `The events from ${after + 1} to ${archivedThrough} are in the archive ${archive}, which the operator has. Go on with after=${archivedThrough}.`,
        { body: { archivedThrough, archive } },
      );
    },
    /** Lists the accounts behind an organization by their ids, with the numbers of their last entries. */
    positions: (after: string, limit: number) =>
      pool.any(sql.type(position)`
        SELECT organization_id AS "organizationId", sequence AS "lastNumber" FROM account
        WHERE organization_id > ${after} ORDER BY organization_id LIMIT ${limit}`),
  };
}
