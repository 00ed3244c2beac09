/** Commands of `studio admin` that list records of all organizations. */
import type { Command } from 'commander';
import { parseNumber } from '../fields.ts';
import { addListing } from '../listings.ts';
import { toCell, readList, createNumberColumn, type Columns } from '../output.ts';

/** Listing of `studio admin`. `name` includes its arguments, e.g. `ledger <organizationId>`. */
interface AdminListing {
  name: string;
  description: string;
  /** Filter options of the command: a help text for each flag. */
  options?: Record<string, string>;
  path: (id: string) => string;
  columns: Columns;
}

const organizationOption = { '--org <organizationId>': 'only records of this organization' };
const formatPause: Columns[string] = (provider) =>
  provider['paused'] === null
    ? null
    : `${toCell(provider, 'paused.since')} by ${toCell(provider, 'paused.actor')}: ${toCell(provider, 'paused.reason')}`;

/** Columns that show whether a provider is paused, and how many calls it has. */
export const providerColumns: Columns = {
  provider: 'provider',
  paused: formatPause,
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

const listCommands: readonly AdminListing[] = [
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
      ...organizationOption,
      '--status <status>': 'only jobs with this status: open, completed, failed or canceled',
      '--type <type>': 'only jobs of this type, for example imageGenerate',
      '--search <text>':
        'search by job id, request id, provider request id, Idempotency-Key or prompt',
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
    description: 'list stuck jobs and chats, and why they are still open, oldest first',
    options: {
      ...organizationOption,
      '--older-than-seconds <n>': 'minimum age of the job or chat in seconds (default 300)',
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
    name: 'bulks',
    description: 'list open bulk jobs, and why they are open, oldest first',
    options: organizationOption,
    path: () => '/bulks',
    columns: {
      'bulk job': 'bulkId',
      organization: 'organizationId',
      status: 'status',
      reason: 'stopReason',
      since: 'pausedAt',
      charged: 'charged',
      reserved: 'reserved',
      why: 'why',
    },
  },
  {
    name: 'unknown',
    description: 'list jobs whose credits were released before the outcome was known, newest first',
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
              `${toCell(call, 'provider')}: ${toCell(call, 'state')}, late notification: ${toCell(call, 'lateNotificationAt') ?? 'none'}`,
          )
          .join('; '),
    },
  },
  {
    name: 'reservations',
    description: 'list open reservations, oldest first',
    options: organizationOption,
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
      '--state <state>': 'only those that are received (not passed on yet), delivered or late',
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
    description: 'list caller webhooks whose last attempt failed, newest job first',
    options: {
      ...organizationOption,
      '--status <status>': 'instead those that are waiting, delivering, delivered, gone or failed',
    },
    path: () => '/webhooks',
    columns: {
      job: 'jobId',
      organization: 'organizationId',
      event: 'event',
      state: 'state',
      attempts: 'attempts',
      last: (webhook) => toCell(webhook, 'lastStatus') ?? toCell(webhook, 'lastError'),
      next: 'nextAttemptAt',
      url: 'url',
    },
  },
  {
    name: 'providers',
    description: 'list providers with their recent calls and pauses',
    path: () => '/providers',
    columns: {
      ...providerColumns,
      'calls (1 h)': 'recent.calls',
      failed: 'recent.failed',
      'median (s)': createSecondsColumn('recent.medianSeconds'),
      'p95 (s)': createSecondsColumn('recent.slowSeconds'),
    },
  },
  {
    name: 'actions',
    description: 'list operator actions, newest first',
    options: organizationOption,
    path: () => '/actions',
    columns: {
      at: 'createdAt',
      action: 'action',
      target: 'subject',
      actor: 'actor',
      reason: 'reason',
    },
  },
];

/** Adds the list commands to `studio admin`. */
export function addLists(admin: Command): void {
  for (const { name, description, options = {}, path, columns } of listCommands) {
    const command = admin.command(name).description(description);
    for (const [flags, text] of Object.entries(options)) {
      if (flags.endsWith('<n>')) command.option(flags, text, parseNumber);
      else command.option(flags, text);
    }
    addListing({ as: 'operator', command, path, columns });
  }
}
