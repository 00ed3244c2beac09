/** Shared options of operator commands that change something: the actor and the reason. */
import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { addAction, type ActionCommand } from '../actions.ts';

/** Options of every operator command that changes something. */
export interface AuditOptions {
  actor: string;
  reason: string;
}

/** Adds the required option `--reason` and the option `--actor`. */
export function addAuditOptions(command: Command): Command {
  return command
    .requiredOption('--reason <text>', 'reason for the action, which is recorded')
    .option(
      '--actor <name>',
      'your name, recorded with the action (ignored if the key belongs to a named operator)',
      readLoginName(),
    );
}

function readLoginName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container, there may be no user name for the user id.
    return 'operator';
  }
}

/** Configures an operator command to send its request with the actor and the reason. */
export function addOperatorAction<Options extends object>({
  command,
  body,
  ...action
}: Omit<ActionCommand<Options>, 'as'>): void {
  addAction<Options & AuditOptions>({
    method: 'POST',
    ...action,
    command: addAuditOptions(command),
    as: 'operator',
    body: (options, args) => {
      const { actor, reason } = options;
      return { ...body?.(options, args), actor, reason };
    },
  });
}
