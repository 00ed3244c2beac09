/** `studio jobs deliveries|redeliver`: the webhook of a job, and each attempt to deliver it. */
import type { Command } from 'commander';
import { cellOf, cellsOf, listIn, oneAnswer, type Columns, type Fields } from '../columns.ts';
import { list, table } from '../output.ts';
import { sessionOf } from '../session.ts';

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

const pathOf = (jobId: string): string =>
  `/api/v1/studio/jobs/${encodeURIComponent(jobId)}/webhook`;

/** Adds the commands to `studio jobs`. */
export function addWebhookCommands(jobs: Command): void {
  jobs
    .command('deliveries')
    .argument('<jobId>')
    .description('show the webhook of a job and each attempt to deliver it')
    .action(async (jobId: string, _options: object, command: Command) => {
      const session = sessionOf(command);
      const { body, raw } = await session.api().send(pathOf(jobId), oneAnswer);
      session.output.show(raw, () => webhookText(body.data));
    });
  jobs
    .command('redeliver')
    .argument('<jobId>')
    .description('deliver the webhook of a job again, now')
    .action(async (jobId: string, _options: object, command: Command) => {
      const session = sessionOf(command);
      const path = `${pathOf(jobId)}/redeliver`;
      const { body, raw } = await session.api().send(path, oneAnswer, { method: 'POST' });
      session.output.show(raw, () => webhookText(body.data));
    });
}
