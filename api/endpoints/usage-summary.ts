/**
 * GET /api/v1/usage/summary: sums up usage by day, month, model, key, type, end user and metadata, as JSON or CSV.
 */
import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import { isInMetadata, type UsageGroup, type UsageSum } from '../../ledger/usage-sums.ts';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { isoTime, toResponse } from '../../domain/json.ts';
import { isMetadataName } from '../../domain/metadata.ts';
import type { RecordFilter } from '../../platform/record-lists.ts';
import { csvFields, escapeFormula, formatCsvHeader, formatCsvRow } from '../http/csv.ts';
import { parseMs, time, toRecordFilter } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { usageFilter } from './usage.ts';

const dayMs = 86_400_000;
/** Default length of the period, in days. */
const defaultDays = 30;
/** Maximum length of the period, in days. */
const daysMax = 366;
const rowsMax = 10_000;
const groupsMax = 5;
const groupNames = ['day', 'month', 'model', 'key', 'type', 'endUser'] as const;
const groupRule = `must be a comma-separated list of at most ${groupsMax} different names: ${groupNames.join(', ')} or metadata.<name>`;

const groupBy = z
  .string()
  .max(400)
  .transform((text) => text.split(',').map((name) => name.trim()))
  .refine((names) => names.length <= groupsMax && new Set(names).size === names.length, groupRule)
  .refine((names): names is UsageGroup[] => names.every(isGroup), groupRule);

function isGroup(name: string): name is UsageGroup {
  const [, metadataName] = /^metadata\.(.*)$/.exec(name) ?? [];
  return metadataName === undefined
    ? groupNames.some((group) => group === name)
    : isMetadataName(metadataName);
}

const query = z.strictObject({
  groupBy: groupBy.prefault('day').meta({
    description:
      'Up to 5 comma-separated names: `day` (UTC), `month` (UTC), `model`, `key`, `type`, `endUser` or `metadata.<name>`.',
    example: 'day,model,metadata.team',
  }),
  by: z.enum(['created', 'booked']).default('created').meta({
    description:
      'Time at which an amount counts: `created`, when its job or chat was created; `booked`, when it was charged or refunded, so that a later refund changes no earlier day. `booked` requires `after` and `before` at midnight UTC, and has neither metadata nor end users.',
  }),
  ...usageFilter,
  after: usageFilter.after.meta({
    description:
      'Start of the period, inclusive: the report of a month and that of the next one neither overlap nor omit anything.',
  }),
  format: z
    .enum(['json', 'csv'])
    .optional()
    .meta({ description: 'Format of the response; overrides the Accept header.' }),
  ...csvFields,
});

const sums = {
  requests: z.int().meta({
    description:
      'Number of jobs and chats, including those that were not charged; with `by=booked` those that ended.',
  }),
  credits: z.number().meta({ description: 'Credits charged, less refunds.' }),
  inputTokens: z.int(),
  outputTokens: z.int(),
};
const summaryRow = z.object({
  day: z.iso.date().optional(),
  month: z
    .string()
    .regex(/^\d{4}-\d\d$/)
    .optional()
    .meta({ example: '2026-01' }),
  model: z.string().nullable().optional(),
  keyId: z.string().optional(),
  type: z.string().optional(),
  endUser: z.string().nullable().optional(),
  metadata: z.record(z.string(), z.string().nullable()).optional(),
  ...sums,
});
type SummaryRow = z.infer<typeof summaryRow>;
const summary = z
  .object({ after: time, before: time, rows: z.array(summaryRow), total: z.object(sums) })
  .meta({ id: 'UsageSummary' });

/** Endpoint that sums up usage. */
export const usageSummary = defineSection('Usage', {
  getUsageSummary: defineEndpoint({
    route: 'GET /api/v1/usage/summary',
    scope: 'usage:read',
    summary: 'Sum up usage by day, month, model, key, type, end user or metadata',
    description:
      `The sums cover the time from \`after\` (inclusive; default: ${defaultDays} days before \`before\`) to \`before\` (exclusive; default: now), at most ${daysMax} days. With \`format=csv\` ` +
      'or `Accept: text/csv` the response is CSV, in which text that looks like a formula begins with an apostrophe.',
    request: { query },
    response: z.unknown(),
    responses: {
      200: {
        description: 'The sums. A CSV response contains only the rows.',
        schema: summary,
        textTypes: ['text/csv'],
      },
    },
    async handle(
      { ctx, caller, query: { groupBy: groups, format, bom, ...selection } },
      { usageSums },
    ) {
      const { by } = selection;
      const { afterMs, beforeMs, ...filter } = completePeriod(
        { ...toRecordFilter(selection), afterMs: parseMs(selection.after) },
        by,
      );
      if (by === 'booked') throwIfNotBookable({ afterMs, beforeMs, ...filter }, groups);
      const sumsByGroup = await usageSums.sum(caller.organizationId, {
        ...filter,
        by,
        type: selection.type,
        status: selection.status,
        afterMs,
        beforeMs,
        groupBy: groups,
        limit: rowsMax + 1,
      });
      if (sumsByGroup.length > rowsMax) {
        throw invalidRequestError(
          'groupBy',
          `results in more than ${rowsMax} rows: use fewer names or a shorter period`,
        );
      }
      ctx.vary('Accept');
      if (isCsvRequested(ctx, format)) {
        ctx.set('Content-Type', 'text/csv; charset=utf-8');
        ctx.body = formatCsv(groups, sumsByGroup, bom);
        return undefined;
      }
      return {
        after: isoTime(afterMs),
        before: isoTime(beforeMs),
        rows: sumsByGroup.map((sum) => formatRow(groups, sum)),
        total: toResponse(sumRows(sumsByGroup)),
      };
    },
  }),
});

function invalidRequestError(path: string, message: string): GatewayError {
  return fieldError('INVALID_REQUEST', path, message);
}

/**
 * Sets the missing bounds of the period of a filter to their defaults, and checks the period. The
 * bounds are in Unix milliseconds.
 * @throws GatewayError INVALID_REQUEST
 */
function completePeriod<
  Filter extends { afterMs?: number | undefined; beforeMs?: number | undefined },
>(filter: Filter, by: 'created' | 'booked'): Filter & { afterMs: number; beforeMs: number } {
  const now = Date.now();
  // Booked sums are those of whole days.
  const end = by === 'booked' ? (Math.floor(now / dayMs) + 1) * dayMs : now;
  const beforeMs = filter.beforeMs ?? end;
  const afterMs = filter.afterMs ?? beforeMs - defaultDays * dayMs;
  if (afterMs >= beforeMs) throw invalidRequestError('after', 'must be earlier than before');
  if (beforeMs - afterMs > daysMax * dayMs) {
    throw invalidRequestError('after', `must be at most ${daysMax} days earlier than before`);
  }
  return { ...filter, afterMs, beforeMs };
}

/** @throws GatewayError INVALID_REQUEST if there are no booked sums of a period, filter and groups */
function throwIfNotBookable(
  { afterMs, beforeMs, metadata = {} }: RecordFilter & { afterMs: number; beforeMs: number },
  groups: readonly UsageGroup[],
): void {
  for (const [name, ms] of Object.entries({ after: afterMs, before: beforeMs })) {
    if (ms % dayMs !== 0) {
      throw invalidRequestError(name, 'must be midnight UTC if `by` is `booked`');
    }
  }
  if (groups.some(isInMetadata) || Object.keys(metadata).length > 0) {
    throw invalidRequestError(
      'by',
      'must be `created` if `groupBy` or a filter names metadata or end users',
    );
  }
}

function isCsvRequested(ctx: ParameterizedContext, format: 'json' | 'csv' | undefined): boolean {
  return format === undefined ? ctx.accepts('json', 'text/csv') === 'text/csv' : format === 'csv';
}

type UsageTotals = Omit<UsageSum, 'keys'>;

function sumRows(rows: readonly UsageSum[]): UsageTotals {
  const sumColumn = (name: keyof UsageTotals): number =>
    rows.reduce((total, row) => total + row[name], 0);
  return {
    requests: sumColumn('requests'),
    creditsMicro: sumColumn('creditsMicro'),
    inputTokens: sumColumn('inputTokens'),
    outputTokens: sumColumn('outputTokens'),
  };
}

function formatRow(groups: readonly UsageGroup[], { keys, ...row }: UsageSum): SummaryRow {
  const entries = groups.map((group, index): [string, string | null] => [
    group,
    keys[index] ?? null,
  ]);
  const metadataEntries = entries.filter(([group]) => group.startsWith('metadata.'));
  const otherEntries = entries.filter(([group]) => !group.startsWith('metadata.'));
  return {
    ...Object.fromEntries(otherEntries.map(([group, key]) => [toColumnName(group), key])),
    ...(metadataEntries.length > 0 && {
      metadata: Object.fromEntries(metadataEntries.map(([group, key]) => [group.slice(9), key])),
    }),
    ...toResponse(row),
  };
}

function toColumnName(group: string): string {
  return group === 'key' ? 'keyId' : group;
}

function formatCsv(
  groups: readonly UsageGroup[],
  rows: readonly UsageSum[],
  bom: 'true' | 'false',
): string {
  const header = formatCsvHeader([...groups.map(toColumnName), ...Object.keys(sums)], bom);
  const lines = rows.map(({ keys, ...row }) => {
    const texts = keys.map((key) => (key === null ? null : escapeFormula(key)));
    return formatCsvRow([...texts, ...Object.values(toResponse(row))]);
  });
  return header + lines.join('');
}
