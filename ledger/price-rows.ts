/** Changes and reads of the rows of the price book, and the margin that results, for operators. */
import { sql, type CommonQueryMethods, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { newId } from '../domain/ids.ts';
import type { DatabasePool } from '../platform/database.ts';
import { priceRow, type PriceRow } from './price-book.ts';

/** Row to add. A row without `validFromAtMs` is valid as soon as a change counts. */
export type NewPriceRow = Omit<PriceRow, 'id' | 'validFromAtMs' | 'createdAtMs'> & {
  validFromAtMs: number | null;
};

const idRow = z.object({ id: z.string().nullable() });

const columns = sql.fragment`p.id, p.organization_id AS "organizationId", p.what, p.markup, p.unit,
  p.unit_micro AS "unitMicro", p.input_micro AS "inputMicro", p.output_micro AS "outputMicro",
  p.valid_from AS "validFromAtMs", p.valid_until AS "validUntilAtMs", p.created_at AS "createdAtMs"`;

/** Reads a row; null if there is none. */
export const readPriceRow = (
  connection: CommonQueryMethods,
  id: string,
): Promise<PriceRow | null> =>
  connection.maybeOne(sql.type(priceRow)`SELECT ${columns} FROM price_row p WHERE id = ${id}`);

/** Adds a row. Returns null if it begins earlier than a change counts, or ends before it begins. */
export async function addPriceRow(
  connection: CommonQueryMethods,
  { validFromAtMs, validUntilAtMs, ...row }: NewPriceRow,
  delayMs: number,
): Promise<PriceRow | null> {
  const input = { ...row, fromMs: validFromAtMs, untilMs: validUntilAtMs, delayMs };
  const id = await connection.oneFirst(sql.type(idRow)`
    SELECT (add_price_row(${sql.jsonb({ id: newId('priceRow'), ...input })})).id`);
  return id === null ? null : readPriceRow(connection, id);
}

/** Ends a row at a time, by default as soon as a change counts. Returns null if it cannot end then. */
export async function endPriceRow(
  connection: CommonQueryMethods,
  { id, untilMs }: { id: string; untilMs: number | null },
  delayMs: number,
): Promise<PriceRow | null> {
  const ended = await connection.oneFirst(sql.type(idRow)`
    SELECT (end_price_row(${id}, ${untilMs}::bigint, ${delayMs}::bigint)).id`);
  return ended === null ? null : readPriceRow(connection, id);
}

interface RowFilter {
  organizationId: string | undefined;
  what: string | undefined;
  /** Omits rows that have ended. */
  isCurrent: boolean;
  /** Id of the last row on the previous page; undefined for the first page. */
  before: string | undefined;
  limit: number;
}

/** Property by which the margin is summed up. */
export const marginGroups = ['day', 'organization', 'model', 'type'] as const;
export type MarginGroup = (typeof marginGroups)[number];

/** Schema of a sum of the margin: the values of the grouped properties, and the amounts. */
const marginSum = z.object({
  keys: z.array(z.string().nullable()),
  requests: z.number(),
  /** Charges less refunds, in micro-credits. */
  chargedMicro: z.number(),
  /** Price in the catalog of what was charged. */
  costMicro: z.number(),
});

interface MarginFilter {
  organizationId: string | undefined;
  /** First UTC day, and the day behind the last one, as `YYYY-MM-DD`. */
  after: string;
  before: string;
  groupBy: readonly MarginGroup[];
  limit: number;
}

const groupColumns: Record<MarginGroup, FragmentSqlToken> = {
  day: sql.fragment`b.day::text`,
  organization: sql.fragment`b.organization_id`,
  model: sql.fragment`b.model`,
  type: sql.fragment`b.type`,
};

/** Creates the functions that read the price book and the margin. */
export function createPriceReads(pool: DatabasePool) {
  return {
    /** Lists rows, newest first. */
    list: ({ organizationId = '', what = '', isCurrent, before = '', limit }: RowFilter) =>
      pool.any(sql.type(priceRow)`
        SELECT ${columns} FROM price_row p
        WHERE (${organizationId} = '' OR organization_id = ${organizationId})
          AND (${what} = '' OR what = ${what}) AND (${before} = '' OR id < ${before})
          AND (NOT ${isCurrent} OR valid_until IS NULL OR valid_until > now())
        ORDER BY id DESC LIMIT ${limit}`),
    /**
     * Sums up what was charged and what it costs, by the day of the charge: closed days from their sums,
     * and the entries behind them.
     */
    margin({ organizationId = '', after, before, groupBy, limit }: MarginFilter) {
      const keys = sql.join(
        groupBy.map((group) => groupColumns[group]),
        sql.fragment`, `,
      );
      const columnsOfDays = sql.fragment`day, type, model, requests, net, cost`;
      return pool.any(sql.type(marginSum)`
        SELECT jsonb_build_array(${keys}) AS keys, sum(b.requests)::bigint AS requests,
          sum(b.net)::bigint AS "chargedMicro", sum(b.cost)::bigint AS "costMicro"
        FROM (SELECT organization_id, ${columnsOfDays} FROM booked_day
            WHERE day >= ${after}::date AND day < ${before}::date
              AND (${organizationId} = '' OR organization_id = ${organizationId})
          UNION ALL
          SELECT a.organization_id, ${columnsOfDays}
          FROM account a LEFT JOIN booked_account c USING (organization_id),
            LATERAL booked_entries(a.organization_id, coalesce(c.next_sequence, 1), 9223372036854775807)
          WHERE a.sequence >= coalesce(c.next_sequence, 1) AND day >= ${after}::date AND day < ${before}::date
            AND (${organizationId} = '' OR a.organization_id = ${organizationId})) AS b
        GROUP BY ${keys} HAVING sum(b.net) <> 0 OR sum(b.cost) <> 0 ORDER BY 1 LIMIT ${limit}`);
    },
  };
}
