/**
 * `studio admin …`: commands of operators. Every command that writes records its actor and reason.
 */
import { Command } from 'commander';
import { addAction } from '../actions.ts';
import { CliError } from '../api-client.ts';
import { cellOf, cellsOf, list, type Fields } from '../output.ts';
import { numeric } from '../fields.ts';
import { addActionCommands } from './admin-actions.ts';
import { addJobStory } from './admin-job.ts';
import { addListing, addReadCommands } from './admin-reads.ts';
import { addWrite, root } from './admin-writes.ts';
import { keyColumns, keyRequest, newKeyText, withKeyOptions, type KeyOptions } from './keys.ts';
import { webhookText } from './jobs.ts';
import { accountFields } from './usage.ts';

function organizationText(data: Fields): string {
  const columns = { organization: 'organizationId', name: 'name', status: 'status' };
  const owner = cellOf(data, 'ownerId');
  return list({
    ...cellsOf(data, columns),
    ...(owner !== null && { owner }),
    ...accountFields(data),
  });
}

const userColumns = { user: 'userId', name: 'name', role: 'role' };

/** Makes the command `studio admin`. */
export function adminCommand(): Command {
  const admin = new Command('admin').description('operate the gateway, with an operator’s key');
  addOrganizationCommands(admin.command('org').description('organizations'));
  addUserCommands(admin.command('user').description('users of an organization'));
  addKeyCommands(admin.command('key').description('API keys of a user'));
  addCreditCommands(admin);
  addOperatorCommands(admin.command('operator').description('operators, each with a key'));
  addJobStory(admin);
  addReadCommands(admin);
  addActionCommands(admin);
  return admin;
}

function addOrganizationCommands(org: Command): void {
  addWrite<{ window?: number }>({
    command: org
      .command('create <name>')
      .description('create an organization with an owner')
      .option('--window <credits>', 'allowance per six hours (default: no limit)', numeric),
    path: () => '/organizations',
    body: ({ window = null }, [name]) => ({ name, windowAllowanceCredits: window }),
    text: organizationText,
  });
  for (const verb of ['suspend', 'activate']) {
    addWrite({
      command: org.command(`${verb} <organizationId>`).description(`${verb} an organization`),
      path: (id) => `/organizations/${id}/${verb}`,
      text: organizationText,
    });
  }
  addAction({
    command: org.command('get <organizationId>').description('show an organization'),
    as: 'admin',
    path: (id) => `${root}/organizations/${id}`,
    text: organizationText,
  });
  addListing({
    command: org
      .command('ls')
      .description('list organizations, newest first')
      .option('--status <status>', 'active or suspended')
      .option('--name <text>', 'only organizations whose name contains this text'),
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
  addWrite<{ role: string }>({
    command: users
      .command('create <organizationId> <name>')
      .description('add a user to an organization')
      .option('--role <role>', 'owner, admin, member or viewer', 'member'),
    path: (id) => `/organizations/${id}/users`,
    body: ({ role }, [, name]) => ({ name, role }),
    text: (user) => list(cellsOf(user, userColumns)),
  });
  addListing({
    command: users.command('ls <organizationId>').description('list users'),
    path: (id) => `/organizations/${id}/users`,
    columns: { ...userColumns, keys: 'keys' },
    isWhole: true,
  });
}

function addKeyCommands(keys: Command): void {
  addWrite<KeyOptions>({
    command: withKeyOptions(
      keys
        .command('create <userId> <name>')
        .description('create a key for a user; it is shown once'),
    ),
    path: (userId) => `/users/${userId}/keys`,
    body: (options, [, name = '']) => keyRequest(name, options),
    text: newKeyText,
  });
  addWrite({
    command: keys.command('revoke <keyId>').description('revoke a key'),
    path: (keyId) => `/keys/${keyId}/revoke`,
    text: (_, [keyId]) => `revoked ${keyId}\n`,
  });
  addListing({
    command: keys.command('ls <userId>').description('list the keys of a user'),
    path: (userId) => `/users/${userId}/keys`,
    columns: keyColumns,
    isWhole: true,
  });
}

const creditMoves = [
  { name: 'grant', path: 'grants', description: 'add credits', done: 'granted' },
  {
    name: 'take-back',
    path: 'take-backs',
    description: 'take back credits that are not reserved',
    done: 'taken back',
  },
];

function addCreditCommands(admin: Command): void {
  for (const { name, path, description, done } of creditMoves) {
    addWrite<{ id: string }>({
      command: admin
        .command(`${name} <organizationId>`)
        .argument('<credits>', '', numeric)
        .description(`${description}; a repeated --id has no effect`)
        .requiredOption('--id <id>', 'for example the number of the invoice'),
      path: (id) => `/organizations/${id}/${path}`,
      body: ({ id }, [, credits]) => ({ id, credits: Number(credits) }),
      bare: true,
      text: (moved, [, credits]) =>
        list({
          [done]: moved['repeated'] === true ? 'already before' : Number(credits),
          available: cellOf(moved, 'available'),
        }),
    });
  }
  addWrite<{ id: string; credits?: number }>({
    command: admin
      .command('refund <jobId>')
      .description('give charged credits of a job back; a repeated --id has no effect')
      .requiredOption('--id <id>', 'for example the number of the ticket')
      .option('--credits <credits>', 'amount (default: all that are not refunded yet)', numeric),
    path: (jobId) => `/jobs/${jobId}/refunds`,
    body: ({ id, credits }) => ({ id, credits }),
    bare: true,
    text: (refund) => {
      const amount = cellOf(refund, 'credits');
      return list({
        refunded: refund['repeated'] === true ? `${amount} already before` : amount,
        'refunded in total': cellOf(refund, 'refunded'),
        available: cellOf(refund, 'available'),
      });
    },
  });
  addWrite({
    command: admin
      .command('window <organizationId> <credits>')
      .description('set the allowance per six hours; `none`: no limit'),
    method: 'PUT',
    path: (id) => `/organizations/${id}/window-allowance`,
    body: (_, [, credits = '']) => ({ credits: creditsOrNone(credits) }),
    text: organizationText,
  });
  addWrite({
    command: admin
      .command('redeliver-webhook <jobId>')
      .description('deliver the webhook of a job again, now'),
    path: (jobId) => `/jobs/${jobId}/webhook/redeliver`,
    text: webhookText,
  });
  addWrite({
    command: admin.command('cancel <jobId>').description('cancel a job of any organization'),
    path: (jobId) => `/jobs/${jobId}/cancel`,
    text: (job) => list(cellsOf(job, { job: 'jobId', status: 'status' })),
  });
}

function creditsOrNone(text: string): number | null {
  if (text === 'none') return null;
  if (!/^\d+(\.\d+)?$/.test(text)) {
    throw new CliError(`credits: must be a number or none (received ${JSON.stringify(text)})`);
  }
  return Number(text);
}

/** Adds the commands of `studio admin operator`. Those that write require the ADMIN_API_KEY. */
function addOperatorCommands(operators: Command): void {
  addWrite({
    command: operators
      .command('create <name>')
      .description('create an operator with a key, which is shown once; needs ADMIN_API_KEY'),
    path: () => '/operators',
    body: (_, [name]) => ({ name }),
    text: (made) => list(cellsOf(made, { operator: 'operatorId', name: 'name', key: 'key' })),
  });
  addWrite({
    command: operators
      .command('revoke <operatorId>')
      .description('revoke the key of an operator; needs ADMIN_API_KEY'),
    path: (operatorId) => `/operators/${operatorId}/revoke`,
    text: (_, [operatorId]) => `revoked ${operatorId}\n`,
  });
  addAction({
    command: operators.command('whoami').description('show the operator of this key'),
    as: 'admin',
    path: () => `${root}/operator`,
    text: (operator) => `${cellOf(operator, 'name') ?? 'ADMIN_API_KEY'}\n`,
  });
  addListing({
    command: operators.command('ls').description('list operators, newest first'),
    path: () => '/operators',
    columns: {
      operator: 'operatorId',
      name: 'name',
      key: 'keyPrefix',
      created: 'createdAt',
      'last used': 'lastUsedAt',
      revoked: 'revokedAt',
    },
  });
}
