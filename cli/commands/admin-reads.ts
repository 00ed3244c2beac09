/** `studio admin ledger|jobs|reservations|audit|actions`: what operators look at. */
import type { Command } from 'commander';
import { z } from 'zod';
import { cellOf, cellsOf, fields, listAnswer, type Columns, table } from '../output.ts';
import { numeric } from '../fields.ts';
import { sessionOf } from '../session.ts';
import { root } from './admin-writes.ts';

/** Options of a listing; those without a name of their own go into the query as they are. */
interface PageOptions {
  org?: string;
  [field: string]: string | number | undefined;
}

/** A list of the operators': its path and what is shown of a row. */
export interface Listing {
  command: Command;
  path: (...words: string[]) => string;
  columns: Columns;
  /** It has no pages. */
  isWhole?: true;
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
      .command('ledger <organizationId>')
      .description('entries of the ledger, newest first'),
    path: (organizationId) => `/organizations/${organizationId}/ledger`,
    columns: {
      '#': 'sequence',
      at: 'createdAt',
      kind: 'kind',
      posted: 'postedChange',
      reserved: 'reservedChange',
      'posted after': 'postedAfter',
      'reserved after': 'reservedAfter',
      for: (entry) => cellOf(entry, 'reservationId') ?? cellOf(entry, 'actor'),
      reason: 'reason',
    },
  });
}

function addJobs(admin: Command): void {
  addListing({
    command: admin
      .command('jobs')
      .description('jobs of all organizations, newest first')
      .option('--org <organizationId>', 'only of this organization')
      .option('--status <status>', 'open, completed, failed or canceled')
      .option('--type <type>', 'for example imageGenerate')
      .option(
        '--search <text>',
        'an id of the job, its request or its provider, an Idempotency-Key, or text of the prompt',
      ),
    path: () => '/jobs',
    columns: {
      job: 'jobId',
      organization: 'organizationId',
      type: 'type',
      model: 'model',
      provider: 'provider',
      status: 'status',
      error: 'errorCode',
      created: 'createdAt',
    },
  });
}

function addReservations(admin: Command): void {
  addListing({
    command: admin
      .command('reservations')
      .description('open reservations, oldest first')
      .option('--org <organizationId>', 'only of this organization'),
    path: () => '/reservations',
    columns: {
      reservation: 'id',
      organization: 'organizationId',
      kind: 'kind',
      credits: 'credits',
      'age s': 'ageSeconds',
      'owner missing': 'ownerMissingAt',
    },
  });
}

function addWebhooks(admin: Command): void {
  addListing({
    command: admin
      .command('webhooks')
      .description('callers’ webhooks that do not get through, newest job first')
      .option('--org <organizationId>', 'only of this organization')
      .option('--status <status>', 'waiting, delivering, delivered, gone or failed'),
    path: () => '/webhooks',
    columns: {
      job: 'jobId',
      organization: 'organizationId',
      state: 'state',
      attempts: 'attempts',
      last: (webhook) => cellOf(webhook, 'lastStatus') ?? cellOf(webhook, 'lastError'),
      next: 'nextAttemptAt',
      url: 'url',
    },
  });
}

function addActions(admin: Command): void {
  addListing({
    command: admin
      .command('actions')
      .description('operators’ actions, newest first')
      .option('--org <organizationId>', 'only to this organization'),
    path: () => '/actions',
    columns: {
      at: 'createdAt',
      action: 'action',
      subject: 'subject',
      actor: 'actor',
      reason: 'reason',
    },
  });
}

/** Adds a command that lists. */
export function addListing({ command, path, columns, isWhole }: Listing): void {
  if (!isWhole) {
    command
      .option('--limit <n>', 'how many', numeric)
      .option('--cursor <cursor>', 'continue where the last page ended');
  }
  command.action(async () => {
    const session = sessionOf(command);
    const { org, ...query } = command.opts<PageOptions>();
    const from = root + path(...command.args.map(encodeURIComponent));
    const { body, raw } = await session.admin().send(from, listAnswer, {
      query: { organizationId: org, ...query },
    });
    session.output.show(raw, () => table(body.data.map((row) => cellsOf(row, columns))));
    if (body.nextCursor) session.output.note(`more: --cursor ${body.nextCursor}`);
  });
}

function addAudit(admin: Command): void {
  admin
    .command('audit')
    .description('audit the ledger; exits with 1 if a promise is broken')
    .action(async (_options: object, command: Command) => {
      const session = sessionOf(command);
      const schema = z.looseObject({
        clean: z.boolean(),
        chatLossCredits: z.number(),
        findings: z.array(fields),
        checks: z.array(z.looseObject({ found: z.number() })),
      });
      const { body, raw } = await session.admin().send(`${root}/audit`, schema);
      const broken = body.checks.filter(({ found }) => found > 0);
      const counts = { found: 'found', name: 'finding' };
      const columns = { finding: 'finding', subject: 'subject' };
      session.output.show(raw, () =>
        body.clean
          ? `clean${body.chatLossCredits > 0 ? `; loss of chats: ${body.chatLossCredits} credits` : ''}\n`
          : `${table(broken.map((each) => cellsOf(each, counts)))}\n${table(body.findings.map((each) => cellsOf(each, columns)))}`,
      );
      if (!body.clean) process.exitCode = 1;
    });
}
