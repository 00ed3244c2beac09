/** `studio admin operator create|revoke|ls|whoami`: operators, each with a key that can be revoked by itself. */
import type { Command } from 'commander';
import { addAction } from '../actions.ts';
import { cellOf, cellsOf } from '../columns.ts';
import { list } from '../output.ts';
import { addListing } from './admin-reads.ts';
import { addWrite, root } from './admin-writes.ts';

/** Adds the commands; those that write need the admin key of the deployment. */
export function addOperatorCommands(operators: Command): void {
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
    command: operators.command('whoami').description('the operator of this key'),
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
