/** `studio jobs deliveries|redeliver`: the webhook of a job, and each attempt to deliver it. */
import type { Command } from 'commander';
import { addAction } from '../actions.ts';
import { cellOf, cellsOf, listIn, type Columns, type Fields } from '../columns.ts';
import { list, table } from '../output.ts';

/** More of an answer does not fit a line. */
const responseShownMax = 60;

const webhook = {
  job: 'jobId',
  url: 'url',
  state: 'state',
  attempts: 'attempts',
  next: 'nextAttemptAt',
};
const delivery: Columns = {
  '#': 'number',
  at: 'startedAt',
  outcome: 'outcome',
  status: 'status',
  ms: 'durationMs',
  answer: (each) =>
    cellOf(each, 'error') ?? String(cellOf(each, 'response') ?? '').slice(0, responseShownMax),
};

/** What is shown of a webhook. */
export function webhookText(data: Fields): string {
  const head = list(cellsOf(data, webhook));
  const rows = listIn(data, 'deliveries').map((each) => cellsOf(each, delivery));
  return rows.length === 0 ? head : `${head}\n${table(rows)}`;
}

/** Adds the commands to `studio jobs`. */
export function addWebhookCommands(jobs: Command): void {
  addAction({
    command: jobs
      .command('deliveries <jobId>')
      .description('show the webhook of a job and each attempt to deliver it'),
    path: (jobId) => `/api/v1/studio/jobs/${jobId}/webhook`,
    text: webhookText,
  });
  addAction({
    command: jobs
      .command('redeliver <jobId>')
      .description('deliver the webhook of a job again, now'),
    method: 'POST',
    path: (jobId) => `/api/v1/studio/jobs/${jobId}/webhook/redeliver`,
    text: webhookText,
  });
}
