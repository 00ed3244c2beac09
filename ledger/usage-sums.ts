/** Sums usage records by day, model, key, type and metadata. */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../platform/database.ts';
import { usageRecords, type UsageFilter } from './usage-records.ts';

/** Property to group by; `metadata.team` groups by the value of `team` in the metadata. */
export type UsageGroup = 'day' | 'model' | 'key' | 'type' | `metadata.${string}`;

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
const usageSum = sumColumns.extend({ keys: z.array(z.string().nullable()) });
export type UsageSum = z.infer<typeof usageSum>;

interface UsageSummary extends UsageFilter {
  groupBy: readonly UsageGroup[];
  limit: number;
}

const columnByGroup: Record<Exclude<UsageGroup, `metadata.${string}`>, FragmentSqlToken> = {
  day: sql.fragment`to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')`,
  model: sql.fragment`model`,
  key: sql.fragment`key_id`,
  type: sql.fragment`type`,
};

function groupColumn(group: UsageGroup): FragmentSqlToken {
  const [, tag] = /^metadata\.(.*)$/.exec(group) ?? [];
  if (tag !== undefined) return sql.fragment`metadata->>${tag}`;
  // oxlint-disable-next-line no-unsafe-type-assertion -- every group without `metadata.` is a key of `columnByGroup`
  return columnByGroup[group as keyof typeof columnByGroup];
}

/** Creates the function that sums usage records by group. */
export function createSumUsage(pool: DatabasePool) {
  return (
    organizationId: string,
    { groupBy, limit, ...filter }: UsageSummary,
  ): Promise<readonly UsageSum[]> => {
    const records = sql.join(usageRecords(organizationId, filter), sql.fragment` UNION ALL `);
    const keys = sql.join(groupBy.map(groupColumn), sql.fragment`, `);
    return pool.any(sql.type(usageSum)`
      SELECT jsonb_build_array(${keys}) AS keys, count(*) AS requests,
        sum(net)::bigint AS "creditsMicro",
        coalesce(sum(input_tokens), 0)::bigint AS "inputTokens",
        coalesce(sum(output_tokens), 0)::bigint AS "outputTokens"
      FROM (${records}) AS records GROUP BY 1 ORDER BY 1 LIMIT ${limit}`);
  };
}
