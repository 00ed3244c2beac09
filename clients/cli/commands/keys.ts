/** `studio keys list|create|show|limit|rotate|revoke`. */
import { Command } from 'commander';
import { addAction } from '../actions.ts';
import {
  toCell,
  toCells,
  readList,
  type Columns,
  type Fields,
  formatList,
  formatTable,
} from '../output.ts';
import {
  parseDurationMs,
  omitUndefined,
  parseKeyLimit,
  parseNumber,
  collectValue,
  orNone,
} from '../fields.ts';

/** Options that restrict a new key. */
export interface KeyOptions {
  expiresIn?: number;
  scope?: string[];
  model?: string[];
  limit?: { credits: number; per: string };
  rateLimit?: number;
  jobsMax?: number;
}

/** Changes of limits; `none` removes a limit. */
export interface LimitOptions {
  to?: KeyOptions['limit'] | 'none';
  rateLimit?: number | 'none';
  jobsMax?: number | 'none';
}

/** Adds the options that restrict a new key. */
export function addKeyOptions(command: Command): Command {
  return command
    .option(
      '--expires-in <duration>',
      'time until the key expires, for example 30d or 12h',
      parseDurationMs,
    )
    .option(
      '--scope <scope>',
      'scope of the new key (repeatable; default: all scopes that you may grant)',
      collectValue,
    )
    .option(
      '--model <id>',
      'model that the key may use (repeatable; default: all models of your key)',
      collectValue,
    )
    .option('--limit <credits/period>', 'credit limit, for example 500/month', parseKeyLimit)
    .option('--rate-limit <requests>', 'requests per minute', parseNumber)
    .option('--jobs-max <jobs>', 'Jobs that may be open at the same time', parseNumber);
}

/** Adds options for limits of requests and jobs that can be removed with `none`. */
export function addRateOptions(command: Command): Command {
  return command
    .option('--rate-limit <requests>', 'requests per minute, or none', orNone(parseNumber))
    .option(
      '--jobs-max <jobs>',
      'Jobs that may be open at the same time, or none',
      orNone(parseNumber),
    );
}

/** Adds the options that change the limits of a key. */
export function addLimitOptions(command: Command): Command {
  return addRateOptions(
    command.option(
      '--to <limit>',
      'credit limit, for example 500/month, or none',
      orNone(parseKeyLimit),
    ),
  ).description('set limits of a key: credits, requests per minute, open jobs');
}

/** Builds the request body that changes limits. */
export function buildLimitRequest({ to, rateLimit, jobsMax }: LimitOptions) {
  const changes = Object.entries(omitUndefined({ limit: to, rateLimit, jobsMax }));
  return Object.fromEntries(
    changes.map(([name, limit]) => [name, limit === 'none' ? null : limit]),
  );
}

/** Builds the request body that creates a key. */
export function buildKeyRequest(name: string, options: KeyOptions): Record<string, unknown> {
  return omitUndefined({
    name,
    expiresAt: options.expiresIn === undefined ? undefined : Date.now() + options.expiresIn,
    scopes: options.scope,
    allowedModels: options.model,
    limit: options.limit,
    rateLimit: options.rateLimit,
    jobsMax: options.jobsMax,
  });
}

/** Table columns for API keys. */
export const keyColumns: Columns = {
  id: 'keyId',
  key: (key) => `${toCell(key, 'keyPrefix')}…`,
  name: 'name',
  created: 'createdAt',
  expires: 'expiresAt',
  'last used': 'lastUsedAt',
  limit: formatLimit,
  'requests/min': 'rateLimit',
  'jobs max': 'jobsMax',
};

function formatLimit(key: Fields): string | null {
  const credits = toCell(key, 'limit.credits');
  return credits === null ? null : `${String(credits)}/${String(toCell(key, 'limit.per'))}`;
}

/** Columns for the key in use, including the credits that remain of its limit. */
const currentKeyColumns: Columns = {
  organization: 'organizationName',
  'organization id': 'organizationId',
  role: 'role',
  ...keyColumns,
  scopes: 'scopes',
  models: 'allowedModels',
  used: 'budget.used',
  remaining: 'budget.remaining',
  resets: 'budget.resetsAt',
  'open jobs': 'jobsOpen',
  "organization's requests/min": 'organizationLimits.rateLimit',
  "organization's jobs max": 'organizationLimits.jobsMax',
  "organization's open jobs": 'organizationLimits.jobsOpen',
};

function formatKeys(keys: readonly Fields[]): string {
  return formatTable(keys.map((key) => toCells(key, keyColumns)));
}

/** Formats a new key, with a warning that it will not be shown again. */
export function formatNewKey(created: Fields): string {
  const shown = toCells(created, { key: 'key', id: 'keyId', name: 'name', expires: 'expiresAt' });
  return `${formatList(shown)}Save this key now: it will not be shown again.\n`;
}

const path = '/api-keys';

/** Creates the command `studio keys`. */
export function createKeysCommand(): Command {
  const keys = new Command('keys').description('list, create and revoke your API keys');
  addAction({
    command: keys.command('list').description('list your keys'),
    path: () => path,
    isUnwrapped: true,
    text: (response) => formatKeys(readList(response, 'keys')),
  });
  addAction<KeyOptions>({
    command: addKeyOptions(
      keys.command('create <name>').description('create a key; it is shown only once'),
    ),
    path: () => path,
    body: (options, [name = '']) => buildKeyRequest(name, options),
    canRetry: true,
    isUnwrapped: true,
    text: formatNewKey,
  });
  addAction({
    command: keys
      .command('show')
      .description('show the key in use, its scopes, and the credits that remain of its limit'),
    path: () => '/key',
    isUnwrapped: true,
    text: (key) => formatList(toCells(key, currentKeyColumns)),
  });
  addAction<LimitOptions>({
    command: addLimitOptions(keys.command('limit <keyId>')),
    method: 'PUT',
    path: (keyId) => `${path}/${keyId}/limit`,
    body: buildLimitRequest,
    isUnwrapped: true,
    text: (key) => formatKeys([key]),
  });
  addAction<{ overlap?: number }>({
    command: keys
      .command('rotate <keyId>')
      .description('replace a key with a new one')
      .option('--overlap <duration>', 'validity of the old key (default 1d)', parseDurationMs),
    path: (keyId) => `${path}/${keyId}/rotate`,
    body: ({ overlap }) =>
      overlap === undefined ? {} : { overlapSeconds: Math.ceil(overlap / 1000) },
    canRetry: true,
    isUnwrapped: true,
    text: formatNewKey,
  });
  addAction({
    command: keys.command('revoke <keyId>').description('revoke a key'),
    method: 'DELETE',
    path: (keyId) => `${path}/${keyId}`,
    isUnwrapped: true,
    text: (_, [keyId]) => `revoked ${keyId}\n`,
  });
  return keys;
}
