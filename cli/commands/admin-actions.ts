/** `studio admin reverify|resettle|cancel|pause|…`: actions on jobs and providers. */
import type { Command } from 'commander';
import {
  toCell,
  toCells,
  list,
  readList,
  numberColumn,
  table,
  type Cell,
  type Fields,
} from '../output.ts';
import { providerColumns } from './admin-lists.ts';
import { addWrite } from './admin-writes.ts';
import { webhookText } from './jobs.ts';

/** Adds the commands to `studio admin`. */
export function addActionCommands(admin: Command): void {
  addJobCommands(admin);
  addProviderCommands(admin);
}

const jobColumns = { job: 'jobId', status: 'status', billing: 'billing', error: 'errorCode' };
const findingColumns = {
  call: numberColumn('callIndex'),
  provider: 'provider',
  verdict: 'verdict',
  evidence: 'message',
};

function settledText(job: Fields, extra: Record<string, Cell>): string {
  const state = list({ ...toCells(job, jobColumns), ...extra });
  const findings = readList(job, 'findings').map((finding) => toCells(finding, findingColumns));
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
    text: (job) => settledText(job, { decision: toCell(job, 'decision') }),
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
    text: (job) => list(toCells(job, { job: 'jobId', status: 'status' })),
  });
}

function addProviderCommands(admin: Command): void {
  for (const [verb, description] of [
    ['pause', 'send no new call to a provider; accepted calls are still delivered'],
    ['resume', 'send calls to a provider again'],
  ] as const) {
    addWrite({
      command: admin.command(`${verb} <provider>`).description(description),
      path: (provider) => `/providers/${provider}/${verb}`,
      text: (provider) => list(toCells(provider, providerColumns)),
    });
  }
}
