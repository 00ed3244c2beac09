/** `studio usage`. */
import { Command } from 'commander';
import { z } from 'zod';
import { numeric, shortTime } from '../fields.ts';
import { list, table, type Cell } from '../output.ts';
import { sessionOf } from '../session.ts';

/** Balance and window of an organization. */
export const account = z.looseObject({
  balance: z.looseObject({ available: z.number(), reserved: z.number(), total: z.number() }),
  window: z.looseObject({
    limit: z.number().nullable(),
    used: z.number(),
    remaining: z.number().nullable(),
    resetAt: z.string().nullable(),
  }),
});
const usagePage = account.extend({
  usage: z.array(
    z.looseObject({
      id: z.string(),
      type: z.string(),
      model: z.string().nullable(),
      status: z.string(),
      credits: z.number(),
      inputTokens: z.number().optional(),
      outputTokens: z.number().optional(),
      keyId: z.string().nullable(),
      createdAt: z.string(),
    }),
  ),
  nextCursor: z.string().nullable(),
});

/** Balance and window, line by line. */
export function accountFields({ balance, window }: z.infer<typeof account>): Record<string, Cell> {
  return {
    available: balance.available,
    reserved: balance.reserved,
    total: balance.total,
    window:
      window.limit === null
        ? `${window.used} used, no limit`
        : `${window.used} of ${window.limit} used`,
    'window ends': shortTime(window.resetAt),
  };
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
        const records = body.usage.map((record) => ({
          created: shortTime(record.createdAt),
          type: record.type,
          model: record.model,
          status: record.status,
          credits: record.credits,
          'tokens in': record.inputTokens ?? null,
          out: record.outputTokens ?? null,
          id: record.id,
        }));
        return `${list(accountFields(body))}\n${table(records)}`;
      });
      if (body.nextCursor) session.output.note(`more: --cursor ${body.nextCursor}`);
    });
}
