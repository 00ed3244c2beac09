/**
 * Options and requests of the operators' commands that write: the actor and the reason are
 * recorded.
 */
import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { addAction, type Action } from '../actions.ts';

/** Options of every command that writes. */
export interface WriteOptions {
  actor: string;
  reason: string;
}

/** Adds the options for the reason, which is required, and for the actor. */
function addWriteOptions(command: Command): Command {
  return command
    .requiredOption('--reason <text>', 'reason of the action, recorded with it')
    .option(
      '--actor <name>',
      'your name, recorded with the action unless the key has a name',
      loginName(),
    );
}

function loginName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container, the user id may have no name.
    return 'operator';
  }
}

/** Registers the action of a command that writes. */
export function addWrite<Options extends object>({
  command,
  body,
  ...action
}: Omit<Action<Options>, 'as'>): void {
  addAction<Options & WriteOptions>({
    method: 'POST',
    ...action,
    command: addWriteOptions(command),
    as: 'operator',
    body: (options, args) => {
      const { actor, reason } = options;
      return { ...body?.(options, args), actor, reason };
    },
  });
}
