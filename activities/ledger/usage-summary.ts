/** What an organization used, summed up by day, model, key, type and tags. */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { usageRecords, type UsageFilter } from './usage-records.ts';

/** What records are put together by; `metadata.team` is the value of a tag. */
export type UsageGroup = 'day' | 'model' | 'key' | 'type' | `metadata.${string}`;

const sums = z.object({
  requests: z.number(),
  /** Micro-credits that were charged. */
  chargedMicro: z.number(),
  inputTokens: z.number(),
  outputTokens: z.number(),
});
/** One row of a summary: the values of its groups in the order asked for, and the sums. */
const usageSum = sums.extend({ keys: z.array(z.string().nullable()) });
/** See `usageSum`. */
export type UsageSum = z.infer<typeof usageSum>;

/** What to sum up. */
export interface UsageSummary extends UsageFilter {
  groupBy: readonly UsageGroup[];
  /** Most rows that are read. */
  limit: number;
}

const columns: Record<Exclude<UsageGroup, `metadata.${string}`>, FragmentSqlToken> = {
  day: sql.fragment`to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')`,
  model: sql.fragment`model`,
  key: sql.fragment`key_id`,
  type: sql.fragment`type`,
};

function columnOf(group: UsageGroup): FragmentSqlToken {
  const [, tag] = /^metadata\.(.*)$/.exec(group) ?? [];
  if (tag !== undefined) return sql.fragment`metadata->>${tag}`;
  // oxlint-disable-next-line no-unsafe-type-assertion -- what is no tag is one of the others
  return columns[group as keyof typeof columns];
}

/** Sums up, in the order of the groups. */
export type SumUsage = (
  organizationId: string,
  summary: UsageSummary,
) => Promise<readonly UsageSum[]>;

/** See `SumUsage`. */
export function createSumUsage(pool: DatabasePool): SumUsage {
  return (organizationId, { groupBy, limit, ...filter }) => {
    const records = sql.join(usageRecords(organizationId, filter), sql.fragment` UNION ALL `);
    const keys = sql.join(groupBy.map(columnOf), sql.fragment`, `);
    return pool.any(sql.type(usageSum)`
      SELECT jsonb_build_array(${keys}) AS keys, count(*) AS requests,
        sum(charged)::bigint AS "chargedMicro",
        coalesce(sum(input_tokens), 0)::bigint AS "inputTokens",
        coalesce(sum(output_tokens), 0)::bigint AS "outputTokens"
      FROM (${records}) AS records GROUP BY 1 ORDER BY 1 LIMIT ${limit}`);
  };
}
