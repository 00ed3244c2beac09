/** What the operators' writing commands share: who and why. */
import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { addAction, type Action } from '../actions.ts';

/** Path of the operators' API. */
export const root = '/api/admin/v1';

/** Who writes, and why. */
export interface WriteOptions {
  actor: string;
  reason: string;
}

/** A command that writes: it must say why, and may say who. */
function writing(command: Command): Command {
  return command
    .requiredOption('--reason <text>', 'why; recorded')
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
    // A user id without a name, as containers have them.
    return 'operator';
  }
}

/** Adds a command that writes; its path is one below the operators' API. */
export function addWrite<Options extends object>({
  command,
  path,
  body,
  ...action
}: Omit<Action<Options>, 'as'>): void {
  addAction<Options & WriteOptions>({
    method: 'POST',
    ...action,
    command: writing(command),
    as: 'admin',
    path: (...words) => root + path(...words),
    body: (options, words) => {
      const { actor, reason } = options;
      return { ...body?.(options, words), actor, reason };
    },
  });
}
