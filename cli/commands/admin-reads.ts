/** `studio admin ledger|jobs|reservations|webhooks|actions|audit`: commands that only read. */
import type { Command } from 'commander';
import { z } from 'zod';
import { addListing } from '../listings.ts';
import { cellOf, cellsOf, fields, table } from '../output.ts';
import { apiRoots, sessionOf } from '../session.ts';

/** Adds the commands to `studio admin`. */
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
    as: 'operator',
    command: admin
      .command('ledger <organizationId>')
      .description('list ledger entries, newest first'),
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
    as: 'operator',
    command: admin
      .command('jobs')
      .description('list jobs of all organizations, newest first')
      .option('--org <organizationId>', 'only jobs of this organization')
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
    as: 'operator',
    command: admin
      .command('reservations')
      .description('list open reservations, oldest first')
      .option('--org <organizationId>', 'only reservations of this organization'),
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
    as: 'operator',
    command: admin
      .command('webhooks')
      .description('list caller webhooks that could not be delivered, newest job first')
      .option('--org <organizationId>', 'only webhooks of this organization')
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
    as: 'operator',
    command: admin
      .command('actions')
      .description('list operators’ actions, newest first')
      .option('--org <organizationId>', 'only actions on this organization'),
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

function addAudit(admin: Command): void {
  admin
    .command('audit')
    .description('audit the ledger; exits with 1 if an invariant is violated')
    .action(async (_options: object, command: Command) => {
      const session = sessionOf(command);
      const schema = z.looseObject({
        clean: z.boolean(),
        chatLossCredits: z.number(),
        findings: z.array(fields),
        checks: z.array(z.looseObject({ found: z.number() })),
      });
      const { body, raw } = await session
        .client('operator')
        .send(`${apiRoots.operator}/audit`, schema);
      const violated = body.checks.filter(({ found }) => found > 0);
      const counts = { found: 'found', name: 'finding' };
      const columns = { finding: 'finding', subject: 'subject' };
      session.output.show(raw, () =>
        body.clean
          ? `clean${body.chatLossCredits > 0 ? `; loss of chats: ${body.chatLossCredits} credits` : ''}\n`
          : `${table(violated.map((each) => cellsOf(each, counts)))}\n${table(body.findings.map((each) => cellsOf(each, columns)))}`,
      );
      if (!body.clean) process.exitCode = 1;
    });
}
