/** `studio admin …`: what operators do; every write says who and why. */
import { Command } from 'commander';
import { z } from 'zod';
import { CliError } from '../api-client.ts';
import { cellOf, cellsOf, listAnswer, oneAnswer, type Fields } from '../columns.ts';
import { numeric } from '../fields.ts';
import { list, table } from '../output.ts';
import { sessionOf } from '../session.ts';
import { addOperationCommands } from './admin-operations.ts';
import { addJobStory } from './admin-job.ts';
import { addOperatorCommands } from './admin-operators.ts';
import { addListing, addReadCommands } from './admin-reads.ts';
import { at, root, write, writing } from './admin-writes.ts';
import { keyRequest, keyTable, newKeyText, withKeyOptions, type KeyOptions } from './keys.ts';
import { webhookText } from './webhooks.ts';
import { accountFields } from './usage.ts';

function organizationText({ data }: { data: Fields }): string {
  const columns = { organization: 'organizationId', name: 'name', status: 'status' };
  const owner = cellOf(data, 'ownerId');
  return list({
    ...cellsOf(data, columns),
    ...(owner !== null && { owner }),
    ...accountFields(data),
  });
}

const userColumns = { user: 'userId', name: 'name', role: 'role' };

/** `studio admin`. */
export function adminCommand(): Command {
  const admin = new Command('admin').description('what operators do, with a key of an operator');
  addOrganizationCommands(admin.command('org').description('organizations'));
  addUserCommands(admin.command('user').description('users of an organization'));
  addKeyCommands(admin.command('key').description('API keys of a user'));
  addCreditCommands(admin);
  addOperatorCommands(admin.command('operator').description('operators, each with a key'));
  addJobStory(admin);
  addReadCommands(admin);
  addOperationCommands(admin);
  return admin;
}

function addOrganizationCommands(org: Command): void {
  writing(org.command('create').argument('<name>'))
    .description('make an organization with an owner')
    .option('--window <credits>', 'allowance per six hours (default: no limit)', numeric)
    .action(async (name: string, options: { window?: number }, command: Command) => {
      const { body, raw } = await write(command, '/organizations', {
        schema: oneAnswer,
        body: { name, windowAllowanceCredits: options.window ?? null },
      });
      sessionOf(command).output.show(raw, () => organizationText(body));
    });
  for (const verb of ['suspend', 'activate']) {
    writing(org.command(verb).argument('<organizationId>'))
      .description(`${verb} an organization`)
      .action(async (id: string, _options: object, command: Command) => {
        const path = `/organizations/${at(id)}/${verb}`;
        const { body, raw } = await write(command, path, { schema: oneAnswer });
        sessionOf(command).output.show(raw, () => organizationText(body));
      });
  }
  org
    .command('get')
    .argument('<organizationId>')
    .description('show an organization')
    .action(async (id: string, _options: object, command: Command) => {
      const session = sessionOf(command);
      const path = `${root}/organizations/${at(id)}`;
      const { body, raw } = await session.admin().send(path, oneAnswer);
      session.output.show(raw, () => organizationText(body));
    });
  addListing({
    command: org
      .command('ls')
      .description('list organizations, newest first')
      .option('--status <status>', 'active or suspended')
      .option('--name <text>', 'only those whose name holds this'),
    path: () => '/organizations',
    columns: {
      organization: 'organizationId',
      name: 'name',
      status: 'status',
      available: 'balance.available',
      reserved: 'balance.reserved',
      'window used': 'window.used',
      'window limit': 'window.limit',
    },
  });
}

function addUserCommands(users: Command): void {
  writing(users.command('create').argument('<organizationId>').argument('<name>'))
    .description('add a user')
    .option('--role <role>', 'owner, admin, member or viewer', 'member')
    .action(async (...words: [string, string, { role: string }, Command]) => {
      const [id, name, options, command] = words;
      const { body, raw } = await write(command, `/organizations/${at(id)}/users`, {
        schema: oneAnswer,
        body: { name, role: options.role },
      });
      sessionOf(command).output.show(raw, () => list(cellsOf(body.data, userColumns)));
    });
  users
    .command('ls')
    .argument('<organizationId>')
    .description('list users')
    .action(async (id: string, _options: object, command: Command) => {
      const session = sessionOf(command);
      const path = `${root}/organizations/${at(id)}/users`;
      const { body, raw } = await session.admin().send(path, listAnswer);
      const columns = { ...userColumns, keys: 'keys' };
      session.output.show(raw, () => table(body.data.map((user) => cellsOf(user, columns))));
    });
}

function addKeyCommands(keys: Command): void {
  writing(withKeyOptions(keys.command('create').argument('<userId>').argument('<name>')))
    .description('make a key for a user; it is shown once')
    .action(async (...words: [string, string, KeyOptions, Command]) => {
      const [userId, name, options, command] = words;
      const { body, raw } = await write(command, `/users/${at(userId)}/keys`, {
        schema: oneAnswer,
        body: keyRequest(name, options),
      });
      sessionOf(command).output.show(raw, () => newKeyText(body.data));
    });
  writing(keys.command('revoke').argument('<keyId>'))
    .description('end a key at once')
    .action(async (keyId: string, _options: object, command: Command) => {
      const { raw } = await write(command, `/keys/${at(keyId)}/revoke`, { schema: oneAnswer });
      sessionOf(command).output.show(raw, () => `revoked ${keyId}\n`);
    });
  keys
    .command('ls')
    .argument('<userId>')
    .description('list the keys of a user')
    .action(async (userId: string, _options: object, command: Command) => {
      const session = sessionOf(command);
      const path = `${root}/users/${at(userId)}/keys`;
      const { body, raw } = await session.admin().send(path, listAnswer);
      session.output.show(raw, () => keyTable(body.data));
    });
}

const creditMoves = [
  { name: 'grant', path: 'grants', does: 'add credits', done: 'granted' },
  {
    name: 'take-back',
    path: 'take-backs',
    does: 'take back credits that are not reserved',
    done: 'taken back',
  },
];

function addCreditCommands(admin: Command): void {
  for (const { name, path, does, done } of creditMoves) {
    writing(admin.command(name).argument('<organizationId>').argument('<credits>', '', numeric))
      .description(`${does}; the same --id never moves them twice`)
      .requiredOption('--id <id>', 'for example the number of the invoice')
      .action(async (...words: [string, number, { id: string }, Command]) => {
        const [id, credits, options, command] = words;
        const { body, raw } = await write(command, `/organizations/${at(id)}/${path}`, {
          schema: z.looseObject({ repeated: z.boolean(), available: z.number() }),
          body: { id: options.id, credits },
        });
        sessionOf(command).output.show(raw, () =>
          list({ [done]: body.repeated ? 'already before' : credits, available: body.available }),
        );
      });
  }
  writing(admin.command('window').argument('<organizationId>').argument('<credits>'))
    .description('set the allowance per six hours; `none` = no limit')
    .action(async (...words: [string, string, object, Command]) => {
      const [id, credits, , command] = words;
      if (credits !== 'none' && !/^\d+(\.\d+)?$/.test(credits)) {
        throw new CliError('credits: a number, or `none`');
      }
      const { body, raw } = await write(command, `/organizations/${at(id)}/window-allowance`, {
        schema: oneAnswer,
        body: { credits: credits === 'none' ? null : Number(credits) },
        method: 'PUT',
      });
      sessionOf(command).output.show(raw, () => organizationText(body));
    });
  writing(admin.command('redeliver-webhook').argument('<jobId>'))
    .description('deliver the webhook of a job again, now')
    .action(async (jobId: string, _options: object, command: Command) => {
      const { body, raw } = await write(command, `/jobs/${at(jobId)}/webhook/redeliver`, {
        schema: oneAnswer,
      });
      sessionOf(command).output.show(raw, () => webhookText(body.data));
    });
  writing(admin.command('cancel').argument('<jobId>'))
    .description('cancel a job of any organization')
    .action(async (jobId: string, _options: object, command: Command) => {
      const { body, raw } = await write(command, `/jobs/${at(jobId)}/cancel`, {
        schema: oneAnswer,
      });
      const columns = { job: 'jobId', status: 'status' };
      sessionOf(command).output.show(raw, () => list(cellsOf(body.data, columns)));
    });
}
