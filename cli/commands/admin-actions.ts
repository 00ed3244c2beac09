/** `studio admin stuck|unknown|reverify|…`: commands for stuck jobs and failing providers. */
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
import { addListing } from '../listings.ts';
import { addWrite } from './admin-writes.ts';
import { webhookText } from './jobs.ts';

/** Adds the commands to `studio admin`. */
export function addActionCommands(admin: Command): void {
  addOutcomeLists(admin);
  addNotificationList(admin);
  addJobCommands(admin);
  addProviderCommands(admin);
}

function addOutcomeLists(admin: Command): void {
  addListing({
    as: 'operator',
    command: admin
      .command('stuck')
      .description('list reservations that are open for too long, with the reason; oldest first')
      .option('--org <organizationId>', 'only reservations of this organization')
      .option('--older-than-seconds <n>', 'minimum age in seconds (default 300)', numeric),
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
    as: 'operator',
    command: admin
      .command('unknown')
      .description('list jobs that were released with an unknown provider outcome, newest first'),
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
    as: 'operator',
    command: admin
      .command('notifications')
      .description('list stored provider notifications, newest first')
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

const jobColumns = { job: 'jobId', status: 'status', billing: 'billing', error: 'errorCode' };
const findingColumns = {
  call: numberOf('callIndex'),
  provider: 'provider',
  verdict: 'verdict',
  evidence: 'message',
};

function settledText(job: Fields, extra: Record<string, Cell>): string {
  const state = list({ ...cellsOf(job, jobColumns), ...extra });
  const findings = listIn(job, 'findings').map((finding) => cellsOf(finding, findingColumns));
  return findings.length === 0 ? state : `${state}\n${table(findings)}`;
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
      .description(
        'settle a job whose workflow no longer exists, according to the provider’s outcome',
      )
      .option(
        '--release',
        'also release a job that the provider may still deliver, if it cannot be continued',
      ),
    path: (jobId) => `/jobs/${jobId}/resettle`,
    body: ({ release = false }) => ({ release }),
    text: (job) => settledText(job, { decision: cellOf(job, 'decision') }),
  });
  addWrite({
    command: admin
      .command('redeliver-webhook <jobId>')
      .description('deliver the webhook of a job again, now'),
    path: (jobId) => `/jobs/${jobId}/webhook/redeliver`,
    text: webhookText,
  });
  addWrite({
    command: admin.command('cancel <jobId>').description('cancel a job of any organization'),
    path: (jobId) => `/jobs/${jobId}/cancel`,
    text: (job) => list(cellsOf(job, { job: 'jobId', status: 'status' })),
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
    as: 'operator',
    command: admin.command('providers').description('list providers with their calls and pauses'),
    path: () => '/providers',
    columns: {
      ...columns,
      'calls, 15 min': 'recent.calls',
      failed: 'recent.failed',
      'median s': 'recent.medianSeconds',
      '95% s': 'recent.slowSeconds',
    },
  });
  for (const [verb, description] of [
    ['pause', 'send no new call to a provider; accepted calls are still delivered'],
    ['resume', 'send calls to a provider again'],
  ] as const) {
    addWrite({
      command: admin.command(`${verb} <provider>`).description(description),
      path: (provider) => `/providers/${provider}/${verb}`,
      text: (provider) => list(cellsOf(provider, columns)),
    });
  }
}
