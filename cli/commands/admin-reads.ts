/** `studio admin ledger|jobs|reservations|audit|actions`: what operators look at. */
import type { Command } from 'commander';
import { z } from 'zod';
import { numeric, shortTime } from '../fields.ts';
import { table, type Cell } from '../output.ts';
import { sessionOf } from '../session.ts';
import { root } from './admin-writes.ts';

/** Options of a listing; those without a name of their own go into the query as they are. */
interface PageOptions {
  org?: string;
  limit?: number;
  cursor?: string;
  [field: string]: string | number | undefined;
}

/** A list of the operators': its path, what is read of a row, how it is shown. */
export interface Listing<Row> {
  command: Command;
  path: (...words: string[]) => string;
  row: z.ZodType<Row>;
  cells: (row: Row) => Record<string, Cell>;
}

/** Adds the commands that only read. */
export function addReadCommands(admin: Command): void {
  addLedger(admin);
  addJobs(admin);
  addReservations(admin);
  addWebhooks(admin);
  addActions(admin);
  addAudit(admin);
}

function addLedger(admin: Command): void {
  addListing({
    command: admin
      .command('ledger')
      .argument('<organizationId>')
      .description('entries of the ledger, newest first'),
    path: (organizationId = '') => `/organizations/${encodeURIComponent(organizationId)}/ledger`,
    row: z.looseObject({
      sequence: z.number(),
      kind: z.string(),
      postedChange: z.number(),
      reservedChange: z.number(),
      postedAfter: z.number(),
      reservedAfter: z.number(),
      reservationId: z.string().nullable(),
      actor: z.string().nullable(),
      reason: z.string().nullable(),
      createdAt: z.string(),
    }),
    cells: (entry) => ({
      '#': entry.sequence,
      at: shortTime(entry.createdAt),
      kind: entry.kind,
      posted: entry.postedChange,
      reserved: entry.reservedChange,
      'posted after': entry.postedAfter,
      'reserved after': entry.reservedAfter,
      for: entry.reservationId ?? entry.actor,
      reason: entry.reason,
    }),
  });
}

function addJobs(admin: Command): void {
  addListing({
    command: admin
      .command('jobs')
      .description('jobs of all organizations, newest first')
      .option('--org <organizationId>', 'only of this organization')
      .option('--status <status>', 'queued, completed, failed or canceled')
      .option('--type <type>', 'for example imageGenerate'),
    path: () => '/jobs',
    row: z.looseObject({
      jobId: z.string(),
      organizationId: z.string(),
      type: z.string(),
      model: z.string().nullable(),
      provider: z.string(),
      status: z.string(),
      errorCode: z.string().nullable(),
      createdAt: z.string(),
    }),
    cells: (job) => ({
      job: job.jobId,
      organization: job.organizationId,
      type: job.type,
      model: job.model,
      provider: job.provider,
      status: job.status,
      error: job.errorCode,
      created: shortTime(job.createdAt),
    }),
  });
}

function addReservations(admin: Command): void {
  addListing({
    command: admin
      .command('reservations')
      .description('reservations that nobody has settled, oldest first')
      .option('--org <organizationId>', 'only of this organization'),
    path: () => '/reservations',
    row: z.looseObject({
      id: z.string(),
      organizationId: z.string(),
      kind: z.string(),
      credits: z.number(),
      ageSeconds: z.number(),
      ownerMissingAt: z.string().nullable(),
    }),
    cells: (open) => ({
      reservation: open.id,
      organization: open.organizationId,
      kind: open.kind,
      credits: open.credits,
      'age s': open.ageSeconds,
      'owner missing': shortTime(open.ownerMissingAt),
    }),
  });
}

function addWebhooks(admin: Command): void {
  addListing({
    command: admin
      .command('webhooks')
      .description('webhooks that do not get through, newest job first')
      .option('--org <organizationId>', 'only of this organization')
      .option('--status <status>', 'waiting, delivering, delivered, gone or failed'),
    path: () => '/webhooks',
    row: z.looseObject({
      jobId: z.string(),
      organizationId: z.string(),
      url: z.string(),
      state: z.string(),
      attempts: z.number(),
      lastStatus: z.number().nullable(),
      lastError: z.string().nullable(),
      nextAttemptAt: z.string().nullable(),
    }),
    cells: (webhook) => ({
      job: webhook.jobId,
      organization: webhook.organizationId,
      state: webhook.state,
      attempts: webhook.attempts,
      last: webhook.lastStatus ?? webhook.lastError,
      next: shortTime(webhook.nextAttemptAt),
      url: webhook.url,
    }),
  });
}

function addActions(admin: Command): void {
  addListing({
    command: admin
      .command('actions')
      .description('what operators did, newest first')
      .option('--org <organizationId>', 'only to this organization'),
    path: () => '/actions',
    row: z.looseObject({
      action: z.string(),
      actor: z.string(),
      reason: z.string(),
      subject: z.string(),
      createdAt: z.string(),
    }),
    cells: ({ action, actor, reason, subject, createdAt }) => ({
      at: shortTime(createdAt),
      action,
      subject,
      actor,
      reason,
    }),
  });
}

/** Adds a command that lists. */
export function addListing<Row>(listing: Listing<Row>): void {
  const schema = z.looseObject({
    data: z.array(listing.row),
    nextCursor: z.string().nullish(),
  });
  listing.command
    .option('--limit <n>', 'how many', numeric)
    .option('--cursor <cursor>', 'go on where the last page ended')
    .action(async () => {
      const session = sessionOf(listing.command);
      const { org, limit, cursor, ...rest } = listing.command.opts<PageOptions>();
      const path = `${root}${listing.path(...listing.command.args)}`;
      const { body, raw } = await session.admin().send(path, schema, {
        query: { organizationId: org, limit, cursor, ...rest },
      });
      session.output.show(raw, () => table(body.data.map(listing.cells)));
      if (body.nextCursor) session.output.note(`more: --cursor ${body.nextCursor}`);
    });
}

function addAudit(admin: Command): void {
  admin
    .command('audit')
    .description('look for broken promises in the ledger; exits with 1 when there are any')
    .action(async (_options: object, command: Command) => {
      const session = sessionOf(command);
      const { body, raw } = await session.admin().send(
        `${root}/audit`,
        z.looseObject({
          clean: z.boolean(),
          findings: z.array(z.looseObject({ finding: z.string(), subject: z.string() })),
        }),
      );
      session.output.show(raw, () =>
        body.clean
          ? 'clean\n'
          : table(body.findings.map(({ finding, subject }) => ({ finding, subject }))),
      );
      if (!body.clean) process.exitCode = 1;
    });
}
