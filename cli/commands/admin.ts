/**
 * `studio admin …`: commands of operators. Every command that writes records its actor and reason.
 */
import { Command } from 'commander';
import { addActionCommands } from './admin-actions.ts';
import { addAudit } from './admin-audit.ts';
import { addCreditCommands } from './admin-credits.ts';
import { addJobStory } from './admin-job.ts';
import { addOperatorCommands } from './admin-operators.ts';
import { addKeyCommands, addOrganizationCommands, addUserCommands } from './admin-organizations.ts';
import { addLists } from './admin-lists.ts';

/** Makes the command `studio admin`. */
export function adminCommand(): Command {
  const admin = new Command('admin').description('operate the gateway, with an operator’s key');
  addOrganizationCommands(admin.command('org').description('organizations'));
  addUserCommands(admin.command('user').description('users of an organization'));
  addKeyCommands(admin.command('key').description('API keys of a user'));
  addCreditCommands(admin);
  addOperatorCommands(admin.command('operator').description('operators, each with a key'));
  addJobStory(admin);
  addLists(admin);
  addAudit(admin);
  addActionCommands(admin);
  return admin;
}
