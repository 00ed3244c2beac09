/** `studio admin stuck|unknown|reverify|…`: what operators do about jobs that hang and providers that fail. */
import type { Command } from 'commander';
import {
  cellOf,
  cellsOf,
  listIn,
  numberOf,
  type Columns,
  type Fields,
  list,
  table,
  type Cell,
} from '../output.ts';
import { numeric } from '../fields.ts';
import { addListing } from './admin-reads.ts';
import { addWrite } from './admin-writes.ts';

/** Adds the commands. */
export function addActionCommands(admin: Command): void {
  addOutcomeLists(admin);
  addNotificationList(admin);
  addJobCommands(admin);
  addProviderCommands(admin);
}

function addOutcomeLists(admin: Command): void {
  addListing({
    command: admin
      .command('stuck')
      .description('reservations open for too long, with the reason; oldest first')
      .option('--org <organizationId>', 'only of this organization')
      .option('--older-than-seconds <n>', 'open for longer than this (default 300)', numeric),
    path: () => '/stuck',
    columns: {
      reservation: 'id',
      type: (line) => cellOf(line, 'type') ?? cellOf(line, 'kind'),
      credits: 'credits',
      created: 'createdAt',
      why: 'reasons',
    },
  });
  addListing({
    command: admin
      .command('unknown')
      .description('jobs released without the provider’s answer, newest first'),
    path: () => '/unknown-outcomes',
    columns: {
      job: 'jobId',
      type: 'type',
      error: 'errorCode',
      credits: 'credits',
      released: 'releasedAt',
      calls: (line) =>
        listIn(line, 'calls')
          .map(
            (call) =>
              `${cellOf(call, 'provider')}: ${cellOf(call, 'state')}, notified ${cellOf(call, 'lateNotificationAt') ?? 'never'}`,
          )
          .join('; '),
    },
  });
}

function addNotificationList(admin: Command): void {
  addListing({
    command: admin
      .command('notifications')
      .description('stored notifications of providers, newest first')
      .option('--state <state>', 'received (not signaled to its workflow yet), delivered or late'),
    path: () => '/notifications',
    columns: {
      job: 'jobId',
      call: numberOf('callIndex'),
      provider: 'provider',
      state: 'state',
      sent: 'deliveries',
      received: 'receivedAt',
    },
  });
}

const settled = { job: 'jobId', status: 'status', billing: 'billing', error: 'errorCode' };
const evidence = {
  call: numberOf('callIndex'),
  provider: 'provider',
  verdict: 'verdict',
  evidence: 'message',
};

function settledText(job: Fields, extra: Record<string, Cell>): string {
  const state = list({ ...cellsOf(job, settled), ...extra });
  const looks = listIn(job, 'findings').map((finding) => cellsOf(finding, evidence));
  return looks.length === 0 ? state : `${state}\n${table(looks)}`;
}

function addJobCommands(admin: Command): void {
  addWrite({
    command: admin
      .command('reverify <jobId>')
      .description(
        'check the calls of a job with their providers now; a running workflow checks immediately',
      ),
    path: (jobId) => `/jobs/${jobId}/reverify`,
    text: (job) =>
      settledText(job, { workflow: job['workflowSignaled'] ? 'signaled' : 'not running' }),
  });
  addWrite<{ release?: boolean }>({
    command: admin
      .command('resettle <jobId>')
      .description('settle a job whose workflow no longer exists, by the provider’s outcome')
      .option(
        '--release',
        'also release a job that the provider may still deliver, if it cannot be continued',
      ),
    path: (jobId) => `/jobs/${jobId}/resettle`,
    body: ({ release = false }) => ({ release }),
    text: (job) => settledText(job, { decision: cellOf(job, 'decision') }),
  });
}

function addProviderCommands(admin: Command): void {
  const columns: Columns = {
    provider: 'provider',
    paused: (each) =>
      each['paused'] === null
        ? null
        : `${cellOf(each, 'paused.since')} by ${cellOf(each, 'paused.actor')}: ${cellOf(each, 'paused.reason')}`,
    waiting: 'waiting',
    open: 'open',
  };
  addListing({
    command: admin.command('providers').description('providers, and which of them are paused'),
    path: () => '/providers',
    columns: {
      ...columns,
      'calls, 15 min': 'recent.calls',
      failed: 'recent.failed',
      'median s': 'recent.medianSeconds',
      '95% s': 'recent.slowSeconds',
    },
  });
  for (const [verb, does] of [
    ['pause', 'send no new call to a provider; accepted calls are still delivered'],
    ['resume', 'send calls to a provider again'],
  ] as const) {
    addWrite({
      command: admin.command(`${verb} <provider>`).description(does),
      path: (provider) => `/providers/${provider}/${verb}`,
      text: (provider) => list(cellsOf(provider, columns)),
    });
  }
}
