/** What the operators' writing commands share: who and why. */
import { userInfo } from 'node:os';
import type { Command } from 'commander';
import type { z } from 'zod';
import type { Answer } from '../api-client.ts';
import { sessionOf } from '../session.ts';

/** Path of the operators' API. */
export const root = '/api/admin/v1';

interface WriteOptions {
  actor: string;
  reason?: string;
}

/** A command that writes: it must say why, and may say who. */
export function writing(command: Command): Command {
  return command
    .requiredOption('--reason <text>', 'why; recorded')
    .option('--actor <name>', 'who; recorded, unless the key has a name', loginName());
}

function loginName(): string {
  try {
    return userInfo().username;
  } catch {
    // A user id without a name, as containers have them.
    return 'operator';
  }
}

/** Sends a write with actor and reason. */
export async function write<Body>(
  command: Command,
  path: string,
  wanted: { schema: z.ZodType<Body>; body?: object; method?: 'POST' | 'PUT' },
): Promise<Answer<Body>> {
  const { actor, reason } = command.opts<WriteOptions>();
  return sessionOf(command)
    .admin()
    .send(`${root}${path}`, wanted.schema, {
      method: wanted.method ?? 'POST',
      body: { ...wanted.body, actor, reason },
    });
}

/** An id as a part of a path. */
export const at = (id: string): string => encodeURIComponent(id);
