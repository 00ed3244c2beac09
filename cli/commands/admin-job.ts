/**
 * `studio admin job|why <jobId>`: all records of a job of any organization, or its state in one
 * sentence.
 */
import type { Command } from 'commander';
import { addAction } from '../actions.ts';
import {
  cellOf,
  cellsOf,
  fields,
  listIn,
  numberOf,
  type Columns,
  type Fields,
  list,
  table,
} from '../output.ts';
import { webhookText } from './jobs.ts';

/** Adds the commands to `studio admin`. */
export function addJobStory(admin: Command): void {
  for (const [name, description, text] of [
    ['job', 'show all records of a job of any organization, and the next action', storyText],
    ['why', 'explain a job in one sentence', (job: Fields) => `${cellOf(job, 'why')}\n`],
  ] as const) {
    addAction({
      command: admin.command(`${name} <jobId>`).description(description),
      as: 'operator',
      path: (jobId) => `/jobs/${jobId}`,
      text,
    });
  }
}

const head: Columns = {
  job: 'jobId',
  organization: (job) =>
    `${cellOf(job, 'organization.name')} (${cellOf(job, 'organizationId')}, ${cellOf(job, 'organization.status')})`,
  key: (job) =>
    `${cellOf(job, 'key.name')} (${cellOf(job, 'keyId')}) of ${cellOf(job, 'key.userName')}`,
  type: (job) => `${cellOf(job, 'type')}, ${cellOf(job, 'model') ?? 'no model'}`,
  request: 'requestId',
  'request body': (job) => JSON.stringify(job['request']),
  accepted: 'createdAt',
  deadline: 'deadlineAt',
  ended: 'completedAt',
  status: 'status',
  phase: 'phase',
  credits: (job) =>
    `${cellOf(job, 'billing.reserved')} reserved, ${cellOf(job, 'billing.charged')} charged, ${cellOf(job, 'billing.refunded')} refunded: ${cellOf(job, 'billing.state')}`,
  workflow: (job) => {
    const state = cellOf(job, 'workflow.status') ?? cellOf(job, 'workflow.state');
    return `${state} ${cellOf(job, 'workflow.url') ?? cellOf(job, 'workflow.workflowId')}`;
  },
};

function secondsBetween(from: unknown, to: unknown): number | null {
  if (typeof from !== 'string' || typeof to !== 'string') return null;
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

const parts: { name: string; title: string; columns: Columns }[] = [
  {
    name: 'steps',
    title: 'Steps',
    columns: {
      step: 'name',
      call: numberOf('call'),
      state: 'state',
      attempts: 'attempts',
      started: 'startedAt',
      'took s': (step) => secondsBetween(step['startedAt'], step['endedAt']),
      provider: 'provider',
      request: 'providerRequestId',
    },
  },
  {
    name: 'calls',
    title: 'Calls to providers',
    columns: {
      call: numberOf('index'),
      provider: 'provider',
      endpoint: 'providerEndpoint',
      request: 'providerRequestId',
      state: 'state',
      sent: 'attempts',
      begun: 'begunAt',
    },
  },
  {
    name: 'refusals',
    title: 'Refused attempts',
    columns: {
      call: numberOf('callIndex'),
      provider: 'provider',
      request: 'providerRequestId',
      at: 'refusedAt',
      reason: 'message',
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
    title: 'Notifications of providers',
    columns: {
      call: numberOf('callIndex'),
      provider: 'provider',
      state: 'state',
      received: 'receivedAt',
    },
  },
  {
    name: 'actions',
    title: 'Operators’ actions',
    columns: { at: 'createdAt', action: 'action', actor: 'actor', reason: 'reason' },
  },
];

function storyText(job: Fields): string {
  const tables = parts.flatMap(({ name, title, columns }) => {
    const rows = listIn(job, name).map((row) => cellsOf(row, columns));
    return rows.length === 0 ? [] : [`${title}\n${table(rows)}`];
  });
  const webhook = fields.safeParse(job['webhook']).data;
  const next = listIn(job, 'next').map((step) => {
    const command = cellOf(step, 'command');
    return `- ${cellOf(step, 'message')}${command === null ? '' : ` \`${command}\``}\n`;
  });
  return [
    `${cellOf(job, 'why')}\n`,
    list(cellsOf(job, head)),
    ...tables,
    ...(webhook ? [`Webhook\n${webhookText(webhook)}`] : []),
    `Next\n${next.join('')}`,
  ].join('\n');
}
