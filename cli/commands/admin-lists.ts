/** Commands of `studio admin` that list records of all organizations. */
import type { Command } from 'commander';
import { numeric } from '../fields.ts';
import { addListing } from '../listings.ts';
import { toCell, readList, numberColumn, type Columns } from '../output.ts';

/** List command: its name with arguments, its path, and the columns of its table. */
interface List {
  name: string;
  about: string;
  /** Flags and texts of its filters, in addition to those of the page. */
  options?: Record<string, string>;
  path: (id: string) => string;
  columns: Columns;
}

const byOrganization = { '--org <organizationId>': 'only of this organization' };
const pause: Columns[string] = (provider) =>
  provider['paused'] === null
    ? null
    : `${toCell(provider, 'paused.since')} by ${toCell(provider, 'paused.actor')}: ${toCell(provider, 'paused.reason')}`;

/** Columns of a provider. */
export const providerColumns: Columns = {
  provider: 'provider',
  paused: pause,
  waiting: 'waiting',
  open: 'open',
};

/** Makes a column that shows seconds with two decimals. */
function secondsColumn(path: string): Columns[string] {
  return (row) => {
    const seconds = toCell(row, path);
    return typeof seconds === 'number' ? Number(seconds.toFixed(2)) : null;
  };
}

const lists: readonly List[] = [
  {
    name: 'ledger <organizationId>',
    about: 'list ledger entries, newest first',
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
    about: 'list jobs of all organizations, newest first',
    options: {
      ...byOrganization,
      '--status <status>': 'open, completed, failed or canceled',
      '--type <type>': 'for example imageGenerate',
      '--search <text>':
        'an id of the job, its request or its provider, an Idempotency-Key, or text of the prompt',
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
    about: 'list reservations that are open for too long, with the reason; oldest first',
    options: {
      ...byOrganization,
      '--older-than-seconds <n>': 'minimum age in seconds (default 300)',
    },
    path: () => '/stuck',
    columns: {
      reservation: 'id',
      type: (line) => toCell(line, 'type') ?? toCell(line, 'kind'),
      credits: 'credits',
      created: 'createdAt',
      why: 'reasons',
    },
  },
  {
    name: 'unknown',
    about: 'list jobs that were released with an unknown provider outcome, newest first',
    path: () => '/unknown-outcomes',
    columns: {
      job: 'jobId',
      type: 'type',
      error: 'errorCode',
      credits: 'credits',
      released: 'releasedAt',
      calls: (line) =>
        readList(line, 'calls')
          .map(
            (call) =>
              `${toCell(call, 'provider')}: ${toCell(call, 'state')}, notified ${toCell(call, 'lateNotificationAt') ?? 'never'}`,
          )
          .join('; '),
    },
  },
  {
    name: 'reservations',
    about: 'list open reservations, oldest first',
    options: byOrganization,
    path: () => '/reservations',
    columns: {
      reservation: 'id',
      organization: 'organizationId',
      kind: 'kind',
      credits: 'credits',
      'age s': 'ageSeconds',
      'owner missing': 'ownerMissingAt',
    },
  },
  {
    name: 'notifications',
    about: 'list stored provider notifications, newest first',
    options: {
      '--state <state>': 'received (not signaled to its workflow yet), delivered or late',
    },
    path: () => '/notifications',
    columns: {
      job: 'jobId',
      call: numberColumn('callIndex'),
      provider: 'provider',
      state: 'state',
      sent: 'deliveries',
      received: 'receivedAt',
    },
  },
  {
    name: 'webhooks',
    about: 'list caller webhooks that could not be delivered, newest job first',
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
    about: 'list providers with their calls and pauses',
    path: () => '/providers',
    columns: {
      ...providerColumns,
      'calls, 15 min': 'recent.calls',
      failed: 'recent.failed',
      'median s': secondsColumn('recent.medianSeconds'),
      '95% s': secondsColumn('recent.slowSeconds'),
    },
  },
  {
    name: 'actions',
    about: 'list operators’ actions, newest first',
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
  for (const { name, about, options = {}, path, columns } of lists) {
    const command = admin.command(name).description(about);
    for (const [flags, text] of Object.entries(options)) {
      if (flags.endsWith('<n>')) command.option(flags, text, numeric);
      else command.option(flags, text);
    }
    addListing({ as: 'operator', command, path, columns });
  }
}
