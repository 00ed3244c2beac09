/** `studio admin operator create|revoke|ls|whoami`: operators, each with a key that can be revoked by itself. */
import type { Command } from 'commander';
import { cellOf, cellsOf, oneAnswer } from '../columns.ts';
import { list } from '../output.ts';
import { sessionOf } from '../session.ts';
import { addListing } from './admin-reads.ts';
import { at, root, write, writing } from './admin-writes.ts';

const columns = {
  operator: 'operatorId',
  name: 'name',
  key: 'keyPrefix',
  created: 'createdAt',
  'last used': 'lastUsedAt',
  revoked: 'revokedAt',
};

/** Adds the commands; those that write need the admin key of the deployment. */
export function addOperatorCommands(operators: Command): void {
  writing(operators.command('create').argument('<name>'))
    .description('make an operator with a key, which is shown once; needs ADMIN_API_KEY')
    .action(async (name: string, _options: object, command: Command) => {
      const { body, raw } = await write(command, '/operators', {
        schema: oneAnswer,
        body: { name },
      });
      const { operator, name: named } = cellsOf(body.data, columns);
      sessionOf(command).output.show(raw, () =>
        list({ operator, name: named, key: cellOf(body.data, 'key') }),
      );
    });
  writing(operators.command('revoke').argument('<operatorId>'))
    .description('end the key of an operator at once; needs ADMIN_API_KEY')
    .action(async (operatorId: string, _options: object, command: Command) => {
      const path = `/operators/${at(operatorId)}/revoke`;
      const { raw } = await write(command, path, { schema: oneAnswer });
      sessionOf(command).output.show(raw, () => `revoked ${operatorId}\n`);
    });
  operators
    .command('whoami')
    .description('the operator of this key')
    .action(async (_options: object, command: Command) => {
      const session = sessionOf(command);
      const { body, raw } = await session.admin().send(`${root}/operator`, oneAnswer);
      session.output.show(raw, () => `${cellOf(body.data, 'name') ?? 'ADMIN_API_KEY'}\n`);
    });
  addListing({
    command: operators.command('ls').description('list operators, newest first'),
    path: () => '/operators',
    columns,
  });
}
