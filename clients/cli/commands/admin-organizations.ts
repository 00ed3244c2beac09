/** `studio admin org|user|key`: manages organizations, their users, and the users' keys. */
import type { Command } from 'commander';
import { addAction } from '../actions.ts';
import { parseNumber } from '../fields.ts';
import { addListing } from '../listings.ts';
import { toCell, toCells, formatList, type Fields } from '../output.ts';
import { addOperatorAction } from './operator-action.ts';
import {
  keyColumns,
  buildKeyRequest,
  formatNewKey,
  addKeyOptions,
  addLimitOptions,
  addRateOptions,
  buildLimitRequest,
  type KeyOptions,
  type LimitOptions,
} from './keys.ts';
import { accountColumns } from './usage.ts';

/** Formats an organization with its balance and six-hour usage window. */
export function formatOrganization(data: Fields): string {
  const columns = {
    organization: 'organizationId',
    name: 'name',
    status: 'status',
    'requests/min': 'rateLimit',
    'jobs max': 'jobsMax',
  };
  const owner = toCell(data, 'ownerId');
  return formatList({
    ...toCells(data, columns),
    ...(owner !== null && { owner }),
    ...toCells(data, accountColumns),
  });
}

/** Adds the commands of `studio admin org`. */
export function addOrganizationCommands(org: Command): void {
  addOperatorAction<{ window?: number }>({
    command: org
      .command('create <name>')
      .description('create an organization and its owner')
      .option('--window <credits>', 'Studio credits in six hours (default: no limit)', parseNumber),
    path: () => '/organizations',
    body: ({ window = null }, [name]) => ({ name, windowAllowanceCredits: window }),
    canRetry: true,
    text: formatOrganization,
  });
  addOperatorAction<LimitOptions>({
    command: addRateOptions(
      org
        .command('limits <organizationId>')
        .description('set how many requests per minute and open jobs an organization may have'),
    ),
    method: 'PUT',
    path: (id) => `/organizations/${id}/limits`,
    body: buildLimitRequest,
    text: formatOrganization,
  });
  for (const verb of ['suspend', 'activate']) {
    addOperatorAction({
      command: org.command(`${verb} <organizationId>`).description(`${verb} an organization`),
      path: (id) => `/organizations/${id}/${verb}`,
      text: formatOrganization,
    });
  }
  addAction({
    command: org.command('get <organizationId>').description('show an organization'),
    as: 'operator',
    path: (id) => `/organizations/${id}`,
    text: formatOrganization,
  });
  addListing({
    as: 'operator',
    command: org
      .command('list')
      .description('list organizations, newest first')
      .option('--status <status>', 'only organizations with this status: active or suspended')
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

const userColumns = { user: 'userId', name: 'name', role: 'role' };

/** Adds the commands of `studio admin user`. */
export function addUserCommands(users: Command): void {
  addOperatorAction<{ role: string }>({
    command: users
      .command('create <organizationId> <name>')
      .description('add a user to an organization')
      .option('--role <role>', 'role of the user: owner, admin, member or viewer', 'member'),
    path: (id) => `/organizations/${id}/users`,
    body: ({ role }, [, name]) => ({ name, role }),
    canRetry: true,
    text: (user) => formatList(toCells(user, userColumns)),
  });
  addListing({
    as: 'operator',
    command: users.command('list <organizationId>').description('list users'),
    path: (id) => `/organizations/${id}/users`,
    columns: { ...userColumns, keys: 'keys' },
    isUnpaged: true,
  });
}

/** Adds the commands of `studio admin key`. */
export function addKeyCommands(keys: Command): void {
  addOperatorAction<KeyOptions>({
    command: addKeyOptions(
      keys
        .command('create <userId> <name>')
        .description('create a key for a user; it is shown only once'),
    ),
    path: (userId) => `/users/${userId}/keys`,
    body: (options, [, name = '']) => buildKeyRequest(name, options),
    canRetry: true,
    text: formatNewKey,
  });
  addOperatorAction<LimitOptions>({
    command: addLimitOptions(keys.command('limit <keyId>')),
    method: 'PUT',
    path: (keyId) => `/keys/${keyId}/limit`,
    body: buildLimitRequest,
    text: (key) => formatList(toCells(key, keyColumns)),
  });
  addOperatorAction({
    command: keys.command('revoke <keyId>').description('revoke a key'),
    path: (keyId) => `/keys/${keyId}/revoke`,
    text: (_, [keyId]) => `revoked ${keyId}\n`,
  });
  addListing({
    as: 'operator',
    command: keys.command('list <userId>').description('list the keys of a user'),
    path: (userId) => `/users/${userId}/keys`,
    columns: keyColumns,
    isUnpaged: true,
  });
}
