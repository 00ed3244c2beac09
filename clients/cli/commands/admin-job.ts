/**
 * `studio admin job <jobId>` shows everything recorded about a job of any organization. `studio
 * admin why <jobId>` explains the job's state in one sentence.
 */
import type { Command } from 'commander';
import { addAction } from '../actions.ts';
import {
  toCell,
  toCells,
  fields,
  readList,
  createNumberColumn,
  type Cell,
  type Columns,
  type Fields,
  formatList,
  formatTable,
} from '../output.ts';
import { stepColumns, formatWebhook } from './jobs.ts';

/** Adds the commands `job` and `why` to `studio admin`. */
export function addJobExplanation(admin: Command): void {
  for (const [name, description, text] of [
    [
      'job',
      'show everything recorded about a job of any organization, and what to do next',
      formatExplanation,
    ],
    [
      'why',
      'explain the state of a job or of a bulk job',
      (job: Fields) => `${toCell(job, 'why')}\n`,
    ],
  ] as const) {
    addAction({
      command: admin.command(`${name} <jobId>`).description(description),
      as: 'operator',
      path: (id) => `/${id.startsWith('bulk_') ? 'bulks' : 'jobs'}/${id}`,
      text,
    });
  }
}

const jobColumns: Columns = {
  job: 'jobId',
  organization: (job) =>
    `${toCell(job, 'organization.name')} (${toCell(job, 'organizationId')}, ${toCell(job, 'organization.status')})`,
  key: (job) =>
    `${toCell(job, 'key.name')} (${toCell(job, 'keyId')}) of ${toCell(job, 'key.userName')}`,
  type: (job) => `${toCell(job, 'type')}, ${toCell(job, 'model') ?? 'no model'}`,
  request: 'requestId',
  'request body': (job) => JSON.stringify(job['request']),
  accepted: 'createdAt',
  deadline: 'deadlineAt',
  ended: 'completedAt',
  status: 'status',
  phase: 'phase',
  credits: (job) =>
    `${toCell(job, 'billing.reserved')} reserved, ${toCell(job, 'billing.charged')} charged, ${toCell(job, 'billing.refunded')} refunded: ${toCell(job, 'billing.state')}`,
  workflow: (job) => {
    const state = toCell(job, 'workflow.status') ?? toCell(job, 'workflow.state');
    return `${state} ${toCell(job, 'workflow.url') ?? toCell(job, 'workflow.workflowId')}`;
  },
};

/** Returns a column with the number of a call and, in a pipeline, the id of its step: `2 (film)`. */
function createCallColumn(path: string): (row: Fields) => Cell {
  const number = createNumberColumn(path);
  return (row) => {
    const step = toCell(row, 'step');
    return step === null ? number(row) : `${number(row)} (${step})`;
  };
}

const sections: { name: string; title: string; columns: Columns }[] = [
  {
    name: 'steps',
    title: 'Steps',
    columns: stepColumns,
  },
  {
    name: 'calls',
    title: 'Provider calls',
    columns: {
      call: createCallColumn('index'),
      provider: 'provider',
      endpoint: 'providerEndpoint',
      request: 'providerRequestId',
      state: 'state',
      'provider error': 'providerErrorType',
      attempts: 'attempts',
      started: 'begunAt',
    },
  },
  {
    name: 'unacceptedSubmits',
    title: 'Submits that a provider did not accept',
    columns: {
      call: createCallColumn('callIndex'),
      provider: 'provider',
      request: 'providerRequestId',
      at: 'failedAt',
      reason: 'message',
      'provider error': 'providerErrorType',
    },
  },
  {
    name: 'ledger',
    title: 'Ledger',
    columns: {
      '#': 'sequence',
      at: 'createdAt',
      kind: 'kind',
      posted: 'postedChange',
      reserved: 'reservedChange',
    },
  },
  {
    name: 'notifications',
    title: 'Provider notifications',
    columns: {
      call: createNumberColumn('callIndex'),
      provider: 'provider',
      state: 'state',
      received: 'receivedAt',
    },
  },
  {
    name: 'actions',
    title: 'Operator actions',
    columns: { at: 'createdAt', action: 'action', actor: 'actor', reason: 'reason' },
  },
];

function formatExplanation(job: Fields): string {
  const tables = sections.flatMap(({ name, title, columns }) => {
    const rows = readList(job, name).map((row) => toCells(row, columns));
    return rows.length === 0 ? [] : [`${title}\n${formatTable(rows)}`];
  });
  const webhook = fields.safeParse(job['webhook']).data;
  const nextSteps = readList(job, 'next').map((step) => {
    const command = toCell(step, 'command');
    return `- ${toCell(step, 'message')}${command === null ? '' : ` \`${command}\``}\n`;
  });
  return [
    `${toCell(job, 'why')}\n`,
    formatList(toCells(job, jobColumns)),
    ...tables,
    ...(webhook ? [`Webhook\n${formatWebhook(webhook)}`] : []),
    `Next\n${nextSteps.join('')}`,
  ].join('\n');
}
