/** `studio admin reverify|resettle|cancel|pause|…`: operators' actions on jobs and providers. */
import type { Command } from 'commander';
import {
  toCell,
  toCells,
  formatList,
  readList,
  createNumberColumn,
  formatTable,
  type Cell,
  type Fields,
} from '../output.ts';
import { providerColumns } from './admin-lists.ts';
import { addOperatorAction } from './operator-action.ts';
import { formatWebhook } from './jobs.ts';

/** Adds the commands for jobs and providers to `studio admin`. */
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
  const summary = formatList({ ...toCells(job, jobColumns), ...extra });
  const findings = readList(job, 'findings').map((finding) => toCells(finding, findingColumns));
  return findings.length === 0 ? summary : `${summary}\n${formatTable(findings)}`;
}

function addJobCommands(admin: Command): void {
  addOperatorAction({
    command: admin
      .command('reverify <jobId>')
      .description(
        'ask the provider for the state of each call of a job; a running workflow does the same',
      ),
    path: (jobId) => `/jobs/${jobId}/reverify`,
    text: (job) =>
      formatJob(job, { workflow: job['workflowSignaled'] ? 'signaled' : 'not running' }),
  });
  addOperatorAction<{ release?: boolean }>({
    command: admin
      .command('resettle <jobId>')
      .description('settle a job whose workflow is gone, based on what the provider reports')
      .option(
        '--release',
        'release the credits if the job cannot continue, even if the provider may still deliver',
      ),
    path: (jobId) => `/jobs/${jobId}/resettle`,
    body: ({ release = false }) => ({ release }),
    text: (job) => formatJob(job, { decision: toCell(job, 'decision') }),
  });
  addOperatorAction({
    command: admin
      .command('redeliver-webhook <jobId>')
      .description('redeliver the webhook of a job now'),
    path: (jobId) => `/jobs/${jobId}/webhook/redeliver`,
    text: formatWebhook,
  });
  addOperatorAction({
    command: admin.command('cancel <jobId>').description('cancel a job of any organization'),
    path: (jobId) => `/jobs/${jobId}/cancel`,
    text: (job) => formatList(toCells(job, { job: 'jobId', status: 'status' })),
  });
}

function addProviderCommands(admin: Command): void {
  for (const [verb, description] of [
    ['pause', 'stop sending new calls to a provider; calls that it has accepted continue'],
    ['resume', 'resume sending calls to a provider'],
  ] as const) {
    addOperatorAction({
      command: admin.command(`${verb} <provider>`).description(description),
      path: (provider) => `/providers/${provider}/${verb}`,
      text: (provider) => formatList(toCells(provider, providerColumns)),
    });
  }
}
