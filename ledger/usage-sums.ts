/**
 * Sums usage by day, month, model, key, type, end user and metadata: closed days from their sums, open ones row
 * by row.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { endUserPair } from '../domain/end-users.ts';
import type { DatabasePool } from '../platform/database.ts';
import { usageRecords, type UsageFilter } from './usage-records.ts';

/** Property to group by; `metadata.team` groups by the value of `team` in the metadata. */
export type UsageGroup =
  | 'day'
  | 'month'
  | 'model'
  | 'key'
  | 'type'
  | 'endUser'
  | `metadata.${string}`;

/** Returns whether a group is a part of the metadata, as it is stored. */
export const isInMetadata = (group: UsageGroup): boolean =>
  group === 'endUser' || group.startsWith('metadata.');

const sumColumns = z.object({
  requests: z.number(),
  /** Charges minus refunds, in micro-credits. */
  creditsMicro: z.number(),
  inputTokens: z.number(),
  outputTokens: z.number(),
});
/**
 * Schema of a row of a usage summary: the values of the grouped properties, in the requested order,
 * and the sums.
 */
export const usageSum = sumColumns.extend({ keys: z.array(z.string().nullable()) });
export type UsageSum = z.infer<typeof usageSum>;

interface UsageSummary extends UsageFilter {
  /**
   * Day on which an amount counts: `created` (default), the day on which its job or chat began;
   * `booked`, the day of its charge or refund. Booked sums have no metadata, and their period has
   * whole UTC days.
   */
  by?: 'created' | 'booked';
  groupBy: readonly UsageGroup[];
  limit: number;
}

const columnByGroup: Record<Exclude<UsageGroup, `metadata.${string}`>, FragmentSqlToken> = {
  day: sql.fragment`to_char(day, 'YYYY-MM-DD')`,
  month: sql.fragment`to_char(day, 'YYYY-MM')`,
  model: sql.fragment`model`,
  key: sql.fragment`key_id`,
  type: sql.fragment`type`,
  endUser: sql.fragment`metadata->>${endUserPair}`,
};

function groupColumn(group: UsageGroup): FragmentSqlToken {
  const [, name] = /^metadata\.(.*)$/.exec(group) ?? [];
  if (name !== undefined) return sql.fragment`metadata->>${name}`;
  // oxlint-disable-next-line no-unsafe-type-assertion -- every group without `metadata.` is a key of `columnByGroup`
  return columnByGroup[group as keyof typeof columnByGroup];
}

/** Builds the conditions that select the sums `u` of a filter, without its metadata. */
function sumConditions({ keyId, model, type, status }: UsageFilter): FragmentSqlToken[] {
  const values = { key_id: keyId, model, type, status };
  return Object.entries(values).flatMap(([column, value]) =>
    value === undefined ? [] : [sql.fragment`u.${sql.identifier([column])} = ${value}`],
  );
}

/** Builds the UTC date of a time in Unix milliseconds; null if there is none. */
const dayOf = (ms: number | undefined): FragmentSqlToken =>
  sql.fragment`(timestamp_of_ms(${ms ?? null}::bigint) AT TIME ZONE 'UTC')::date`;

/**
 * Builds the statement that selects the usage that was booked in a period, with the columns of
 * `selectUsage`: the sums of closed days, and the ledger entries behind them.
 */
function selectBooked(
  organizationId: string,
  { afterMs, beforeMs, ...filter }: UsageFilter,
): FragmentSqlToken {
  const conditions = [
    sql.fragment`u.day >= coalesce(${dayOf(afterMs)}, '-infinity')`,
    sql.fragment`u.day < coalesce(${dayOf(beforeMs)}, 'infinity')`,
    ...sumConditions(filter),
  ];
  return sql.fragment`
    SELECT u.day, u.model, u.key_id, u.type, NULL::jsonb AS metadata, u.requests, u.net, u.input_tokens, u.output_tokens
    FROM (SELECT day, type, model, key_id, status, requests, net, input_tokens, output_tokens
        FROM booked_day WHERE organization_id = ${organizationId}
      UNION ALL SELECT day, type, model, key_id, status, requests, net, input_tokens, output_tokens
        FROM booked_entries(${organizationId}, coalesce((SELECT next_sequence FROM booked_account
        WHERE organization_id = ${organizationId}), 1), 9223372036854775807)) AS u
    WHERE ${sql.join(conditions, sql.fragment` AND `)}`;
}

/**
 * Builds the statement that selects the filtered usage: one row for each sum of a closed day, and
 * one for each job and chat of the other days, at most from the creation of the organization until
 * now, and the sums of archived ones, whose days belong to the period as a whole if they begin in it.
 * Columns: day, model, key_id, type, metadata,
 * requests, net (micro-credits), input_tokens, output_tokens.
 */
function selectUsage(
  organizationId: string,
  { afterMs, beforeMs, ...filter }: UsageFilter,
  { byMetadata, withArchived }: { byMetadata: boolean; withArchived: boolean },
): FragmentSqlToken {
  const needsMetadata = byMetadata || Object.keys(filter.metadata ?? {}).length > 0;
  const bounds = [
    sql.fragment`x.created_at >= open_day.starts`,
    sql.fragment`x.created_at < open_day.ends`,
  ];
  const records = usageRecords(organizationId, { ...filter, bounds }).map(
    (select) => sql.fragment`
      SELECT open_day.day, model, key_id, type, metadata, 1::bigint AS requests, net, input_tokens, output_tokens
      -- Without OFFSET, Postgres would compare every row of the organization with every day.
      FROM open_day, LATERAL (${select} OFFSET 0) AS record`,
  );
  const closed = [sql.fragment`u.organization_id = ${organizationId}`, ...sumConditions(filter)];
  if (filter.metadata !== undefined) {
    closed.push(sql.fragment`u.metadata @> ${sql.jsonb(filter.metadata)}`);
  }
  // A period that begins within a day reads the rest of that day row by row.
  return sql.fragment`
    WITH period AS (
        SELECT greatest(timestamp_of_ms(${afterMs ?? null}::bigint),
            date_trunc('day', created_at, 'UTC')) AS starts,
          least(timestamp_of_ms(${beforeMs ?? null}::bigint), 'tomorrow') AS ends
        FROM organization WHERE id = ${organizationId}),
      days AS (SELECT d::date AS day, d AT TIME ZONE 'UTC' AS day_starts,
          (d + interval '1 day') AT TIME ZONE 'UTC' AS day_ends
        FROM period, generate_series(date_trunc('day', starts AT TIME ZONE 'UTC'), ends AT TIME ZONE 'UTC',
          interval '1 day') AS d),
      summed_day AS MATERIALIZED (SELECT day, day_starts, day_ends, c.closed IS NOT NULL AND day_starts >= starts
            AND day_ends <= ends AS is_closed, day_starts >= starts AND day_starts < ends AS has_archived
        FROM period, days LEFT JOIN (SELECT c.day, true AS closed FROM usage_closed_day c WHERE c.organization_id = ${organizationId}
          AND NOT c.stale AND (c.has_metadata OR NOT ${needsMetadata})) AS c USING (day)),
      open_day AS MATERIALIZED (SELECT day, greatest(day_starts, starts) AS starts, least(day_ends, ends) AS ends
        FROM summed_day, period WHERE NOT is_closed)
    SELECT u.day, u.model, u.key_id, u.type, u.metadata, u.requests, u.net, u.input_tokens, u.output_tokens
      FROM usage_day u JOIN summed_day USING (day)
      WHERE CASE WHEN u.archived THEN has_archived AND ${withArchived} ELSE is_closed END
        AND u.day BETWEEN (SELECT min(day) FROM days) AND (SELECT max(day) FROM days)
        AND ${sql.join(closed, sql.fragment` AND `)}
    UNION ALL ${sql.join(records, sql.fragment` UNION ALL `)}`;
}

/**
 * Maximum number of sums of an organization's day. A day whose metadata would make more, such as an
 * id of each request, is summed up without metadata.
 */
const dayRowsMax = 1000;
/** Number of past days in which a pass looks for days to sum up. */
const recentDays = 7;

const dayRow = z.object({ organizationId: z.string(), day: z.string() });
const accountRow = z.object({ id: z.string() });
const countRow = z.object({ count: z.number() });
const closedRow = z.object({ closed: z.boolean() });

/** Creates the functions that sum up usage. */
export function createUsageSums(pool: DatabasePool) {
  /** Becomes true after this process has looked for days to sum up in the whole past. */
  let hasSearchedAll = false;
  return {
    /** Sums usage records by group. */
    sum: (
      organizationId: string,
      { by, groupBy, limit, ...filter }: UsageSummary,
    ): Promise<readonly UsageSum[]> => {
      const byMetadata = groupBy.some(isInMetadata);
      const usage =
        by === 'booked'
          ? selectBooked(organizationId, filter)
          : selectUsage(organizationId, filter, { byMetadata, withArchived: true });
      const named = groupBy.map((group, index) => {
        const name = sql.identifier([`key_${index}`]);
        return { name, column: sql.fragment`${groupColumn(group)} AS ${name}` };
      });
      const columns = named.map(({ column }) => column);
      const keys = sql.join(
        named.map(({ name }) => name),
        sql.fragment`, `,
      );
      // The array of the keys is made for each sum, not for each row.
      return pool.any(sql.type(usageSum)`
        SELECT jsonb_build_array(${keys}) AS keys, sum(requests)::bigint AS requests,
          sum(net)::bigint AS "creditsMicro",
          coalesce(sum(input_tokens), 0)::bigint AS "inputTokens",
          coalesce(sum(output_tokens), 0)::bigint AS "outputTokens"
        FROM (SELECT ${sql.join(columns, sql.fragment`, `)}, requests, net, input_tokens, output_tokens
          FROM (${usage}) AS usage) AS keyed
        GROUP BY ${keys} ORDER BY 1 LIMIT ${limit}`);
    },
    /** Counts jobs that are not archived. */
    countJobs: (organizationId: string, filter: UsageFilter): Promise<number> =>
      pool.oneFirst(sql.type(countRow)`
        SELECT coalesce(sum(requests), 0)::bigint AS count
        FROM (${selectUsage(organizationId, filter, { byMetadata: false, withArchived: false })}) AS usage WHERE type <> 'chat'`),
    /** Sums up the days that can be closed. Returns their number. */
    async closeDays(signal?: AbortSignal): Promise<number> {
      const first = hasSearchedAll
        ? sql.fragment`(now() AT TIME ZONE 'UTC')::date - ${recentDays}::integer`
        : sql.fragment`'-infinity'::date`;
      // A day may get jobs and chats until shortly after midnight, because clocks differ.
      const today = sql.fragment`(now() AT TIME ZONE 'UTC' - interval '10 minutes')::date`;
      const days = await pool.any(sql.type(dayRow)`
        SELECT organization_id AS "organizationId", day::text AS day
        FROM usage_days_to_close(${first}, ${today}) ORDER BY day DESC`);
      let count = 0;
      const close = async (statement: FragmentSqlToken): Promise<boolean> => {
        signal?.throwIfAborted();
        const closed = await pool.oneFirst(sql.type(closedRow)`SELECT ${statement} AS closed`);
        if (closed) count += 1;
        return closed;
      };
      for (const { organizationId, day } of days) {
        await close(sql.fragment`close_usage_day(${organizationId}, ${day}::date, ${dayRowsMax})`);
      }
      const accounts = await pool.anyFirst(
        sql.type(accountRow)`SELECT accounts_to_close(${today}) AS id`,
      );
      for (const id of accounts) {
        while (await close(sql.fragment`close_booked_day(${id}, ${today})`));
      }
      hasSearchedAll = true;
      return count;
    },
  };
}
