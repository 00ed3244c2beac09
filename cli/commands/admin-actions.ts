/** `studio admin reverify|resettle|cancel|pause|…`: operators' actions on jobs and providers. */
import type { Command } from 'commander';
import {
  toCell,
  toCells,
  list,
  readList,
  createNumberColumn,
  table,
  type Cell,
  type Fields,
} from '../output.ts';
import { providerColumns } from './admin-lists.ts';
import { addWrite } from './admin-writes.ts';
import { formatWebhook } from './jobs.ts';

/** Adds the commands to `studio admin`. */
export function addActionCommands(admin: Command): void {
  addJobCommands(admin);
  addProviderCommands(admin);
}

const jobColumns = { job: 'jobId', status: 'status', billing: 'billing', error: 'errorCode' };
const findingColumns = {
  call: createNumberColumn('callIndex'),
  provider: 'provider',
  verdict: 'verdict',
  evidence: 'message',
};

function formatJob(job: Fields, extra: Record<string, Cell>): string {
  const state = list({ ...toCells(job, jobColumns), ...extra });
  const findings = readList(job, 'findings').map((finding) => toCells(finding, findingColumns));
  return findings.length === 0 ? state : `${state}\n${table(findings)}`;
}

function addJobCommands(admin: Command): void {
  addWrite({
    command: admin
      .command('reverify <jobId>')
      .description(
        'check a job’s provider calls now; a running workflow also checks them immediately',
      ),
    path: (jobId) => `/jobs/${jobId}/reverify`,
    text: (job) =>
      formatJob(job, { workflow: job['workflowSignaled'] ? 'signaled' : 'not running' }),
  });
  addWrite<{ release?: boolean }>({
    command: admin
      .command('resettle <jobId>')
      .description('settle a job whose workflow is gone, based on what the provider reports')
      .option(
        '--release',
        'release the job if it cannot be continued, even if the provider may still deliver',
      ),
    path: (jobId) => `/jobs/${jobId}/resettle`,
    body: ({ release = false }) => ({ release }),
    text: (job) => formatJob(job, { decision: toCell(job, 'decision') }),
  });
  addWrite({
    command: admin
      .command('redeliver-webhook <jobId>')
      .description('redeliver the webhook of a job now'),
    path: (jobId) => `/jobs/${jobId}/webhook/redeliver`,
    text: formatWebhook,
  });
  addWrite({
    command: admin.command('cancel <jobId>').description('cancel a job of any organization'),
    path: (jobId) => `/jobs/${jobId}/cancel`,
    text: (job) => list(toCells(job, { job: 'jobId', status: 'status' })),
  });
}

function addProviderCommands(admin: Command): void {
  for (const [verb, description] of [
    ['pause', 'stop sending new calls to a provider; accepted calls are still delivered'],
    ['resume', 'resume sending calls to a provider'],
  ] as const) {
    addWrite({
      command: admin.command(`${verb} <provider>`).description(description),
      path: (provider) => `/providers/${provider}/${verb}`,
      text: (provider) => list(toCells(provider, providerColumns)),
    });
  }
}
