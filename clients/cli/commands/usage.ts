/** Command `studio usage`. */
import { Command } from 'commander';
import { z } from 'zod';
import { toCell, toCells, fields, type Columns, formatList, formatTable } from '../output.ts';
import { type FilterOptions, parseNumber, buildFilterQuery, collectPair } from '../fields.ts';
import { openSession, type Session } from '../session.ts';
import { addEventCommands } from './usage-events.ts';

const usagePage = z.looseObject({ usage: z.array(fields), nextCursor: z.string().nullable() });

const usageSums = z.looseObject({ rows: z.array(fields), total: fields });
const metadataValues = z.record(z.string(), z.string().nullable());
const sumColumns = {
  requests: 'requests',
  credits: 'credits',
  'input tokens': 'inputTokens',
  'output tokens': 'outputTokens',
};

/** Columns for an organization's balance and six-hour usage window. */
export const accountColumns: Columns = {
  available: 'balance.available',
  reserved: 'balance.reserved',
  total: 'balance.total',
  window: (row) => {
    const used = toCell(row, 'window.used');
    const limit = toCell(row, 'window.limit');
    return limit === null ? `${used} used, no limit` : `${used} of ${limit} used`;
  },
  'window ends': 'window.resetAt',
};
const recordColumns = {
  created: 'createdAt',
  type: 'type',
  model: 'model',
  status: 'status',
  credits: 'credits',
  'input tokens': 'inputTokens',
  'output tokens': 'outputTokens',
  id: 'id',
};

interface UsageOptions extends FilterOptions {
  by?: string;
  booked?: true;
  limit?: number;
  cursor?: string;
}

/** Creates the command `studio usage`. */
export function createUsageCommand(): Command {
  const usage = new Command('usage')
    .description('show the balance, the six-hour usage window and usage records')
    .option(
      '--by <groups>',
      'show totals grouped by day, month, model, key, type or metadata.<name> (comma-separated)',
    )
    .option('--booked', 'with --by: count amounts on the day of their charge or refund')
    .option('--after <time>', 'only usage after this ISO 8601 time; with --by also at this time')
    .option('--before <time>', 'only usage before this ISO 8601 time')
    .option('--key <keyId>', 'only usage by this key')
    .option('--model <id>', 'only usage of this model')
    .option('--type <type>', 'only usage of this type: chat, or for example imageGenerate')
    .option('--status <status>', 'only usage in this billing state: reserved, charged or released')
    .option(
      '--metadata <name=value>',
      'only usage with this metadata pair (repeatable)',
      collectPair,
    )
    .option('--limit <n>', 'maximum number of records, 1–100', parseNumber)
    .option('--cursor <cursor>', 'cursor of the next page, printed below the previous page')
    .action(async ({ by, booked, limit, cursor, ...filter }: UsageOptions, command: Command) => {
      const session = openSession(command);
      await (by === undefined
        ? showRecords(session, filter, { limit, cursor })
        : showSums(session, filter, { groupBy: by, ...(booked && { by: 'booked' }) }));
    });
  addEventCommands(usage);
  return usage;
}

async function showRecords(
  session: Session,
  filter: FilterOptions,
  page: { limit: number | undefined; cursor: string | undefined },
): Promise<void> {
  const query = { ...buildFilterQuery(filter), ...page };
  const { body, raw } = await session.client('caller').send('/api/v1/usage', usagePage, { query });
  session.output.show(raw, () => {
    const records = body.usage.map((row) => toCells(row, recordColumns));
    return `${formatList(toCells(body, accountColumns))}\n${formatTable(records)}`;
  });
  session.output.noteNextPage(body.nextCursor);
}

/** Returns the table column for a group. The name in `metadata.<name>` may contain dots. */
function createGroupColumn(group: string): Columns[string] {
  const [, name] = /^metadata\.(.*)$/.exec(group) ?? [];
  if (name === undefined) return group === 'key' ? 'keyId' : group;
  return (row) => metadataValues.safeParse(row['metadata']).data?.[name];
}

async function showSums(
  session: Session,
  filter: FilterOptions,
  grouping: { groupBy: string; by?: string },
): Promise<void> {
  const query = { ...buildFilterQuery(filter), ...grouping };
  const { body, raw } = await session
    .client('caller')
    .send('/api/v1/usage/summary', usageSums, { query });
  const columns = Object.fromEntries(
    grouping.groupBy.split(',').map((group) => [group, createGroupColumn(group)]),
  );
  session.output.show(raw, () => {
    const rows = body.rows.map((row) => toCells(row, { ...columns, ...sumColumns }));
    return `${formatTable(rows)}\n${formatList(toCells(body.total, sumColumns))}`;
  });
}
