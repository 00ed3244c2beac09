/** Commands of `studio admin` that list records of all organizations. */
import type { Command } from 'commander';
import { parseNumber } from '../fields.ts';
import { addListing } from '../listings.ts';
import { toCell, readList, createNumberColumn, type Columns } from '../output.ts';

/** List command. `name` includes its arguments. */
interface List {
  name: string;
  description: string;
  /** Filter options, as flags and their help texts. */
  options?: Record<string, string>;
  path: (id: string) => string;
  columns: Columns;
}

const byOrganization = { '--org <organizationId>': 'only for this organization' };
const pause: Columns[string] = (provider) =>
  provider['paused'] === null
    ? null
    : `${toCell(provider, 'paused.since')} by ${toCell(provider, 'paused.actor')}: ${toCell(provider, 'paused.reason')}`;

/** Columns of a provider in the output of `studio admin pause` and `resume`. */
export const providerColumns: Columns = {
  provider: 'provider',
  paused: pause,
  waiting: 'waiting',
  open: 'open',
};

/** Returns a column that shows seconds with two decimals. */
function createSecondsColumn(path: string): Columns[string] {
  return (row) => {
    const seconds = toCell(row, path);
    return typeof seconds === 'number' ? Number(seconds.toFixed(2)) : null;
  };
}

const lists: readonly List[] = [
  {
    name: 'ledger <organizationId>',
    description: 'list ledger entries, newest first',
    path: (organizationId) => `/organizations/${organizationId}/ledger`,
    columns: {
      '#': 'sequence',
      at: 'createdAt',
      kind: 'kind',
      posted: 'postedChange',
      reserved: 'reservedChange',
      'posted after': 'postedAfter',
      'reserved after': 'reservedAfter',
      for: (entry) => toCell(entry, 'reservationId') ?? toCell(entry, 'actor'),
      reason: 'reason',
    },
  },
  {
    name: 'jobs',
    description: 'list jobs of all organizations, newest first',
    options: {
      ...byOrganization,
      '--status <status>': 'open, completed, failed or canceled',
      '--type <type>': 'for example imageGenerate',
      '--search <text>':
        'a job id, request id or provider request id, an Idempotency-Key, or text from the prompt',
    },
    path: () => '/jobs',
    columns: {
      job: 'jobId',
      organization: 'organizationId',
      type: 'type',
      model: 'model',
      provider: 'provider',
      status: 'status',
      error: 'errorCode',
      created: 'createdAt',
    },
  },
  {
    name: 'stuck',
    description: 'list reservations that have been open too long, with the reason, oldest first',
    options: {
      ...byOrganization,
      '--older-than-seconds <n>': 'minimum age in seconds (default 300)',
    },
    path: () => '/stuck',
    columns: {
      reservation: 'id',
      type: (row) => toCell(row, 'type') ?? toCell(row, 'kind'),
      credits: 'credits',
      created: 'createdAt',
      why: 'reasons',
    },
  },
  {
    name: 'unknown',
    description: 'list jobs released without knowing what the provider did, newest first',
    path: () => '/unknown-outcomes',
    columns: {
      job: 'jobId',
      type: 'type',
      error: 'errorCode',
      credits: 'credits',
      released: 'releasedAt',
      calls: (row) =>
        readList(row, 'calls')
          .map(
            (call) =>
              `${toCell(call, 'provider')}: ${toCell(call, 'state')}, notified ${toCell(call, 'lateNotificationAt') ?? 'never'}`,
          )
          .join('; '),
    },
  },
  {
    name: 'reservations',
    description: 'list open reservations, oldest first',
    options: byOrganization,
    path: () => '/reservations',
    columns: {
      reservation: 'id',
      organization: 'organizationId',
      kind: 'kind',
      credits: 'credits',
      'age (s)': 'ageSeconds',
      'owner missing': 'ownerMissingAt',
    },
  },
  {
    name: 'notifications',
    description: 'list stored provider notifications, newest first',
    options: {
      '--state <state>': 'received (workflow not yet signaled), delivered or late',
    },
    path: () => '/notifications',
    columns: {
      job: 'jobId',
      call: createNumberColumn('callIndex'),
      provider: 'provider',
      state: 'state',
      deliveries: 'deliveries',
      received: 'receivedAt',
    },
  },
  {
    name: 'webhooks',
    description: 'list caller webhooks that could not be delivered, newest job first',
    options: {
      ...byOrganization,
      '--status <status>': 'waiting, delivering, delivered, gone or failed',
    },
    path: () => '/webhooks',
    columns: {
      job: 'jobId',
      organization: 'organizationId',
      state: 'state',
      attempts: 'attempts',
      last: (webhook) => toCell(webhook, 'lastStatus') ?? toCell(webhook, 'lastError'),
      next: 'nextAttemptAt',
      url: 'url',
    },
  },
  {
    name: 'providers',
    description: 'list providers, with their calls and whether they are paused',
    path: () => '/providers',
    columns: {
      ...providerColumns,
      'calls (15 min)': 'recent.calls',
      failed: 'recent.failed',
      'median (s)': createSecondsColumn('recent.medianSeconds'),
      'p95 (s)': createSecondsColumn('recent.slowSeconds'),
    },
  },
  {
    name: 'actions',
    description: 'list the actions of operators, newest first',
    options: byOrganization,
    path: () => '/actions',
    columns: {
      at: 'createdAt',
      action: 'action',
      subject: 'subject',
      actor: 'actor',
      reason: 'reason',
    },
  },
];

/** Adds the commands to `studio admin`. */
export function addLists(admin: Command): void {
  for (const { name, description, options = {}, path, columns } of lists) {
    const command = admin.command(name).description(description);
    for (const [flags, text] of Object.entries(options)) {
      if (flags.endsWith('<n>')) command.option(flags, text, parseNumber);
      else command.option(flags, text);
    }
    addListing({ as: 'operator', command, path, columns });
  }
}
