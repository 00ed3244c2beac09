/** `studio admin operator`: manages operators and their keys. */
import type { Command } from 'commander';
import { addAction } from '../actions.ts';
import { addListing } from '../listings.ts';
import { toCell, toCells, formatList } from '../output.ts';
import { addOperatorAction } from './operator-action.ts';

/** Adds the commands of `studio admin operator`; `create` and `revoke` require ADMIN_API_KEY. */
export function addOperatorCommands(operators: Command): void {
  addOperatorAction({
    command: operators
      .command('create <name>')
      .description('create an operator; the key is shown only once (requires ADMIN_API_KEY)'),
    path: () => '/operators',
    body: (_, [name]) => ({ name }),
    canRetry: true,
    text: (created) =>
      formatList(toCells(created, { operator: 'operatorId', name: 'name', key: 'key' })),
  });
  addOperatorAction({
    command: operators
      .command('revoke <operatorId>')
      .description('revoke the key of an operator (requires ADMIN_API_KEY)'),
    path: (operatorId) => `/operators/${operatorId}/revoke`,
    text: (_, [operatorId]) => `revoked ${operatorId}\n`,
  });
  addAction({
    command: operators.command('whoami').description('show which operator this key belongs to'),
    as: 'operator',
    path: () => `/operator`,
    text: (operator) => `${toCell(operator, 'name') ?? 'ADMIN_API_KEY'}\n`,
  });
  addListing({
    as: 'operator',
    command: operators.command('list').description('list operators, newest first'),
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
