/** `studio usage`. */
import { Command } from 'commander';
import { z } from 'zod';
import { cellOf, cellsOf, fields, type Columns, type Fields } from '../columns.ts';
import { numeric } from '../fields.ts';
import { list, table, type Cell } from '../output.ts';
import { sessionOf } from '../session.ts';

const usagePage = z.looseObject({ usage: z.array(fields), nextCursor: z.string().nullable() });

const account: Columns = {
  available: 'balance.available',
  reserved: 'balance.reserved',
  total: 'balance.total',
  window: (row) => {
    const used = cellOf(row, 'window.used');
    const limit = cellOf(row, 'window.limit');
    return limit === null ? `${used} used, no limit` : `${used} of ${limit} used`;
  },
  'window ends': 'window.resetAt',
};
const record = {
  created: 'createdAt',
  type: 'type',
  model: 'model',
  status: 'status',
  credits: 'credits',
  'tokens in': 'inputTokens',
  out: 'outputTokens',
  id: 'id',
};

/** Balance and window, line by line. */
export function accountFields(row: Fields): Record<string, Cell> {
  return cellsOf(row, account);
}

interface UsageOptions {
  after?: string;
  limit?: number;
  cursor?: string;
  key?: string;
}

/** `studio usage`. */
export function usageCommand(): Command {
  return new Command('usage')
    .description('balance, six-hour window and what was used')
    .option('--after <time>', 'only later than this ISO 8601 time')
    .option('--limit <n>', '1–100', numeric)
    .option('--cursor <cursor>', 'go on where the last page ended')
    .option('--key <keyId>', 'only what this key used')
    .action(async ({ after, limit, cursor, key }: UsageOptions, command: Command) => {
      const session = sessionOf(command);
      const { body, raw } = await session.api().send('/api/v1/usage', usagePage, {
        query: { after, limit, cursor, keyId: key },
      });
      session.output.show(raw, () => {
        const records = body.usage.map((each) => cellsOf(each, record));
        return `${list(accountFields(body))}\n${table(records)}`;
      });
      if (body.nextCursor) session.output.note(`more: --cursor ${body.nextCursor}`);
    });
}
