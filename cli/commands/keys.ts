/** `studio keys ls|create|show|limit|rotate|revoke`. */
import { Command } from 'commander';
import { z } from 'zod';
import { cellOf, cellsOf, fields, type Columns, type Fields } from '../columns.ts';
import { durationMs, given, keyLimit, several } from '../fields.ts';
import { list, table } from '../output.ts';
import { sessionOf } from '../session.ts';

const keyList = z.looseObject({ keys: z.array(fields) });

/** Options that narrow a new key. */
export interface KeyOptions {
  expiresIn?: number;
  scope?: string[];
  model?: string[];
  limit?: { credits: number; per: string };
}

/** Adds the options that narrow a new key. */
export function withKeyOptions(command: Command): Command {
  return command
    .option('--expires-in <duration>', 'for example 30d or 12h', durationMs)
    .option('--scope <scope>', 'what the key may do (repeatable; default: all of yours)', several)
    .option('--model <id>', 'a model the key may use (repeatable; default: all of yours)', several)
    .option('--limit <credits/period>', 'what it may spend, for example 500/month', keyLimit);
}

/** The body of a request for a key. */
export function keyRequest(name: string, options: KeyOptions): Record<string, unknown> {
  return given({
    name,
    expiresAt: options.expiresIn === undefined ? undefined : Date.now() + options.expiresIn,
    scopes: options.scope,
    allowedModels: options.model,
    limit: options.limit,
  });
}

const keyColumns: Columns = {
  id: 'keyId',
  key: (key) => `${cellOf(key, 'keyPrefix')}…`,
  name: 'name',
  created: 'createdAt',
  expires: 'expiresAt',
  'last used': 'lastUsedAt',
  limit: limitText,
};

function limitText(key: Fields): string | null {
  const credits = cellOf(key, 'limit.credits');
  return credits === null ? null : `${String(credits)}/${String(cellOf(key, 'limit.per'))}`;
}

/** The key in use, and what is left of its limit. */
const ownColumns: Columns = {
  organization: 'organizationName',
  'organization id': 'organizationId',
  role: 'role',
  ...keyColumns,
  scopes: 'scopes',
  models: 'allowedModels',
  used: 'budget.used',
  left: 'budget.remaining',
  'begins again': 'budget.resetsAt',
};

/** What is shown of keys. */
export function keyTable(keys: readonly Fields[]): string {
  return table(keys.map((key) => cellsOf(key, keyColumns)));
}

/** What is shown of a new key, once. */
export function newKeyText(made: Fields): string {
  const shown = cellsOf(made, { key: 'key', id: 'keyId', name: 'name', expires: 'expiresAt' });
  return `${list(shown)}Keep the key now: it is not shown again.\n`;
}

const pathOf = (keyId: string): string => `/api/v1/api-keys/${encodeURIComponent(keyId)}`;

const limitOrNone = (text: string) => ({ limit: text === 'none' ? null : keyLimit(text) });

/** `studio keys`. */
export function keysCommand(): Command {
  const keys = new Command('keys').description('API keys of yours');
  keys
    .command('ls')
    .description('list the keys')
    .action(async (_options: object, command: Command) => {
      const session = sessionOf(command);
      const { body, raw } = await session.api().send('/api/v1/api-keys', keyList);
      session.output.show(raw, () => keyTable(body.keys));
    });
  withKeyOptions(keys.command('create').argument('<name>'))
    .description('make a key; it is shown once')
    .action(async (name: string, options: KeyOptions, command: Command) => {
      const session = sessionOf(command);
      const { body, raw } = await session
        .api()
        .send('/api/v1/api-keys', fields, { body: keyRequest(name, options) });
      session.output.show(raw, () => newKeyText(body));
    });
  keys
    .command('show')
    .description('show the key in use, what it may do and what is left of its limit')
    .action(async (_options: object, command: Command) => {
      const session = sessionOf(command);
      const { body, raw } = await session.api().send('/api/v1/key', fields);
      session.output.show(raw, () => list(cellsOf(body, ownColumns)));
    });
  keys
    .command('limit')
    .argument('<keyId>')
    .requiredOption('--to <credits/period>', 'for example 500/month, or none', limitOrNone)
    .description('limit what a key may spend')
    .action(async (keyId: string, { to }: { to: object }, command: Command) => {
      const session = sessionOf(command);
      const { body, raw } = await session
        .api()
        .send(`${pathOf(keyId)}/limit`, fields, { method: 'PUT', body: to });
      session.output.show(raw, () => keyTable([body]));
    });
  keys
    .command('rotate')
    .argument('<keyId>')
    .description('make a key that takes the place of another')
    .option('--overlap <duration>', 'how long the old key still works (default 1d)', durationMs)
    .action(async (keyId: string, { overlap }: { overlap?: number }, command: Command) => {
      const session = sessionOf(command);
      const overlapSeconds = overlap === undefined ? undefined : Math.ceil(overlap / 1000);
      const { body, raw } = await session
        .api()
        .send(`${pathOf(keyId)}/rotate`, fields, { body: given({ overlapSeconds }) });
      session.output.show(raw, () => newKeyText(body));
    });
  keys
    .command('revoke')
    .argument('<keyId>')
    .description('end a key at once')
    .action(async (keyId: string, _options: object, command: Command) => {
      const session = sessionOf(command);
      const { raw } = await session.api().send(pathOf(keyId), fields, { method: 'DELETE' });
      session.output.show(raw, () => `revoked ${keyId}\n`);
    });
  return keys;
}
