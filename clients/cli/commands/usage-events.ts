/** `studio usage events` and `studio usage export`: the usage feed, as lines of JSON or as a FOCUS table. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { z } from 'zod';
import { CliError } from '../api-client.ts';
import { parseNumber } from '../fields.ts';
import { openSession, type Session } from '../session.ts';

/** Event of the usage feed, with the fields that the commands read. */
const usageEvent = z.looseObject({
  id: z.string(),
  organizationId: z.string(),
  number: z.number(),
  kind: z.enum(['charge', 'release', 'refund', 'grant']),
  createdAt: z.string(),
  startedAt: z.string().nullable(),
  type: z.string().nullable(),
  model: z.string().nullable(),
  quantity: z.number().nullable(),
  unit: z.string().nullable(),
  credits: z.number(),
  priceRows: z.array(z.string()),
  keyId: z.string().nullable(),
  metadata: z.record(z.string(), z.string()),
  endUser: z.string().nullable(),
  jobId: z.string().nullable(),
  chatId: z.string().nullable(),
});
type UsageEvent = z.infer<typeof usageEvent>;
const page = z.looseObject({
  data: z.array(usageEvent),
  hasMore: z.boolean(),
  nextAfter: z.number(),
});
const priceList = z.looseObject({ usdPerCredit: z.number() });

/** Pause between two requests of `--follow`, in milliseconds. */
const followMs = 1000;

/** Yields the pages of events behind a number; with `isFollowing`, it waits for later ones and does not end. */
async function* readPages(
  session: Session,
  { after, isFollowing }: { after: number; isFollowing: boolean },
): AsyncGenerator<UsageEvent[]> {
  const client = session.client('caller');
  for (let next = after; ;) {
    const query = { after: next, limit: 1000 };
    const { body } = await client.send('/api/v1/usage/events', page, { query });
    yield body.data;
    next = body.nextAfter;
    if (body.hasMore) continue;
    if (!isFollowing) return;
    await sleep(followMs);
  }
}

/** Columns of FOCUS, the FinOps Foundation's format of cost and usage data, and their values. */
const focusColumns: Record<string, (event: UsageEvent, usd: number) => string | number | null> = {
  BilledCost: (_, usd) => usd,
  BillingAccountId: ({ organizationId }) => organizationId,
  BillingCurrency: () => 'USD',
  BillingPeriodStart: ({ createdAt }) => startOfMonth(createdAt, 0),
  BillingPeriodEnd: ({ createdAt }) => startOfMonth(createdAt, 1),
  ChargeCategory: () => 'Usage',
  ChargeClass: ({ kind }) => (kind === 'refund' ? 'Correction' : null),
  ChargeDescription: ({ kind, type, model }) => [kind, type, model].filter(Boolean).join(' '),
  ChargeFrequency: () => 'Usage-Based',
  ChargePeriodStart: ({ startedAt, createdAt }) => startedAt ?? createdAt,
  ChargePeriodEnd: ({ createdAt }) => createdAt,
  ConsumedQuantity: ({ quantity }) => quantity,
  ConsumedUnit: ({ unit }) => unit,
  ContractedCost: (_, usd) => usd,
  EffectiveCost: (_, usd) => usd,
  InvoiceIssuerName: () => 'Studio Gateway',
  ListCost: (_, usd) => usd,
  PricingCategory: () => 'Standard',
  PricingQuantity: ({ quantity }) => quantity,
  PricingUnit: ({ unit }) => unit,
  ProviderName: () => 'Studio Gateway',
  PublisherName: () => 'Studio Gateway',
  ResourceId: ({ jobId, chatId }) => jobId ?? chatId,
  ResourceType: ({ type }) => type,
  ServiceCategory: () => 'AI and Machine Learning',
  ServiceName: ({ type }) => (type === 'chat' ? 'Chat' : 'Studio'),
  SkuId: ({ model }) => model,
  SkuPriceId: ({ priceRows }) => priceRows.join(' ') || null,
  SubAccountId: ({ keyId }) => keyId,
  Tags: ({ metadata, endUser }) =>
    JSON.stringify({ ...metadata, ...(endUser !== null && { endUser }) }),
  x_EventId: ({ id }) => id,
  x_Credits: ({ credits }) => credits,
};

function startOfMonth(time: string, offset: number): string {
  const date = new Date(time);
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + offset)).toISOString();
}

/** Formats a value for a CSV file. Text that a spreadsheet would run as a formula begins with an apostrophe. */
function formatCsv(value: string | number | null): string {
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value ?? '') ? `'${value}` : (value ?? '');
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Rounds an amount in USD to billionths, so that it shows no binary rounding error. */
const toUsd = (credits: number, usdPerCredit: number): number =>
  Number((credits * usdPerCredit).toFixed(9));

/** Adds `events` and `export` to `studio usage`. */
export function addEventCommands(usage: Command): void {
  const events = usage
    .command('events')
    .description('print charges, releases, refunds and grants as lines of JSON, oldest first')
    .option('--since <number>', 'number of the last event that you have', parseNumber, 0)
    .option('--follow', 'wait for later events, until the command is stopped');
  events.action(async () => {
    const { since: after, follow = false } = events.opts<{ since: number; follow?: boolean }>();
    const session = openSession(events);
    for await (const read of readPages(session, { after, isFollowing: follow })) {
      session.output.write(read.map((event) => `${JSON.stringify(event)}\n`).join(''));
    }
  });
  const exported = usage
    .command('export')
    .description('print the charges and refunds of a period as a table')
    .requiredOption('--focus', 'in the columns of FOCUS, the FinOps format, as CSV')
    .option(
      '--since <number>',
      'only events behind this number, as after an archive',
      parseNumber,
      0,
    )
    .option('--from <time>', 'only events from this ISO 8601 time on')
    .option('--to <time>', 'only events before this time');
  exported.action(async () => {
    const {
      since: after,
      from,
      to,
    } = exported.opts<{ since: number; from?: string; to?: string }>();
    const [fromMs, toMs] = [parseTime(from, 0), parseTime(to, Infinity)];
    const session = openSession(exported);
    const { body } = await session.client('caller').send('/api/v1/pricing', priceList);
    session.output.write(`${Object.keys(focusColumns).join(',')}\n`);
    for await (const read of readPages(session, { after, isFollowing: false })) {
      const shown = read.filter(({ kind, createdAt }) => {
        const atMs = Date.parse(createdAt);
        return (kind === 'charge' || kind === 'refund') && atMs >= fromMs && atMs < toMs;
      });
      for (const event of shown) {
        const usd = toUsd(event.credits, body.usdPerCredit);
        const values = Object.values(focusColumns).map((column) => formatCsv(column(event, usd)));
        session.output.write(`${values.join(',')}\n`);
      }
    }
  });
}

function parseTime(text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise;
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new CliError(`${JSON.stringify(text)} is not an ISO 8601 time`);
  return ms;
}
