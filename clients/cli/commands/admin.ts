/** `studio admin …`: commands for operators. A change is recorded with its actor and reason. */
import { Command } from 'commander';
import { addAction } from '../actions.ts';
import { addActionCommands } from './admin-actions.ts';
import { addArchive } from './admin-archive.ts';
import { addAudit } from './admin-audit.ts';
import { addBulkActionCommands } from './admin-bulk-actions.ts';
import { addCreditCommands } from './admin-credits.ts';
import { addJobExplanation } from './admin-job.ts';
import { addOperatorCommands } from './admin-operators.ts';
import { addKeyCommands, addOrganizationCommands, addUserCommands } from './admin-organizations.ts';
import { addLists } from './admin-lists.ts';
import { addMarginCommand, addPriceCommands } from './admin-prices.ts';

/** Creates the command `studio admin`. */
export function createAdminCommand(): Command {
  const admin = new Command('admin').description('operate the gateway (requires an operator key)');
  addOrganizationCommands(admin.command('org').description('manage organizations'));
  addUserCommands(admin.command('user').description('manage the users of an organization'));
  addKeyCommands(admin.command('key').description('manage the API keys of a user'));
  addCreditCommands(admin);
  addPriceCommands(admin.command('prices').description('set what organizations pay'));
  addMarginCommand(admin);
  addOperatorCommands(admin.command('operator').description('manage operators and their keys'));
  addJobExplanation(admin);
  addAction({
    command: admin.command('overview').description('show open work, queues, providers and credits'),
    as: 'operator',
    path: () => '/overview',
    text: (figures) =>
      Object.entries(figures)
        .map(([name, value]) => `${name}: ${JSON.stringify(value)}\n`)
        .join(''),
  });
  addLists(admin);
  addAudit(admin);
  addArchive(admin);
  addActionCommands(admin);
  addBulkActionCommands(admin);
  return admin;
}
