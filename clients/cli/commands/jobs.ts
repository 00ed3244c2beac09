/** `studio jobs list|get|watch|cancel|timeline|share|shares|unshare|deliveries|redeliver`. */
import { Command } from 'commander';
import { addAction } from '../actions.ts';
import {
  createNumberColumn,
  toCells,
  readList,
  toCell,
  formatTable,
  formatList,
  type Columns,
  type Fields,
} from '../output.ts';
import { collectPair, parseDurationMs } from '../fields.ts';
import { addListing } from '../listings.ts';
import { jobPath, jobResponse, showJob, watchJob } from '../jobs.ts';
import { openSession } from '../session.ts';

function calculateSeconds(from: unknown, to: unknown): number | null {
  if (typeof from !== 'string' || typeof to !== 'string') return null;
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

/** Table columns for the steps of a job. */
export const stepColumns: Columns = {
  // The steps of a pipeline have ids, such as `film: submit`.
  step: (row) => [toCell(row, 'step'), toCell(row, 'name')].filter(Boolean).join(': '),
  call: createNumberColumn('call'),
  state: 'state',
  attempts: 'attempts',
  started: 'startedAt',
  ended: 'endedAt',
  'duration (s)': (step) => calculateSeconds(step['startedAt'], step['endedAt']),
  provider: 'provider',
  request: 'providerRequestId',
};

interface OutputOption {
  out?: string;
}

/** Creates the command `studio jobs`. */
export function createJobsCommand(): Command {
  const jobs = new Command('jobs').description(
    'list, watch and cancel Studio jobs of the organization',
  );
  addJobList(jobs);
  jobs
    .command('get')
    .argument('<jobId>')
    .description('show a job')
    .option(
      '-o, --out <path>',
      'save the media to this file or directory; - is the standard output',
    )
    .action(async (jobId: string, { out }: OutputOption, command: Command) => {
      const session = openSession(command);
      const { body, raw } = await session.client('caller').send(jobPath(jobId), jobResponse);
      await showJob(session.output, { job: body.data, raw }, out);
    });
  jobs
    .command('watch')
    .argument('<jobId>')
    .description('wait until a job ends')
    .option(
      '-o, --out <path>',
      'save the media to this file or directory; - is the standard output',
    )
    .action(async (jobId: string, { out }: OutputOption, command: Command) => {
      const session = openSession(command);
      const ended = await watchJob(session.client('caller'), jobId, session.output);
      if (!(await showJob(session.output, ended, out))) process.exitCode = 1;
    });
  jobs
    .command('cancel')
    .argument('<jobId>')
    .description('cancel a job')
    .action(async (jobId: string, _options: object, command: Command) => {
      const session = openSession(command);
      const { body, raw } = await session
        .client('caller')
        .send(`${jobPath(jobId)}/cancel`, jobResponse, { method: 'POST' });
      await showJob(session.output, { job: body.data, raw });
    });
  addAction({
    command: jobs
      .command('timeline <jobId>')
      .description('show the steps of a job with their times'),
    path: (jobId) => `/studio/jobs/${jobId}/timeline`,
    text: (job) => formatTable(readList(job, 'steps').map((step) => toCells(step, stepColumns))),
  });
  addShareCommands(jobs);
  addWebhookCommands(jobs);
  return jobs;
}

function addShareCommands(jobs: Command): void {
  addAction<{ expiresIn?: number }>({
    command: jobs
      .command('share <jobId>')
      .description('create a link that shows the result of a job to people without a key')
      .option(
        '--expires-in <duration>',
        'time until the link ends, for example 30d or 12h (default: 7d)',
        parseDurationMs,
      ),
    path: (jobId) => `/studio/jobs/${jobId}/share`,
    body: ({ expiresIn }) =>
      expiresIn === undefined ? {} : { expiresInSeconds: Math.round(expiresIn / 1000) },
    canRetry: true,
    text: (link) => `${toCell(link, 'url')}\n`,
  });
  addListing({
    as: 'caller',
    command: jobs.command('shares').description('list share links, newest first'),
    path: () => '/studio/shares',
    columns: {
      share: 'shareId',
      job: 'jobId',
      opened: 'openings',
      created: 'createdAt',
      expires: 'expiresAt',
      revoked: 'revokedAt',
    },
  });
  addAction({
    command: jobs.command('unshare <shareId>').description('revoke a share link'),
    method: 'DELETE',
    path: (shareId) => `/studio/shares/${shareId}`,
    text: (link) => `revoked ${toCell(link, 'shareId')}\n`,
  });
}

function addJobList(jobs: Command): void {
  addListing({
    as: 'caller',
    command: jobs
      .command('list')
      .description('list jobs, newest first')
      .option('--status <status>', 'queued, in_progress, completed, failed or canceled')
      .option('--phase <phase>', 'awaiting_approval: only jobs that wait for a decision')
      .option('--type <type>', 'only jobs of this type, for example imageGenerate')
      .option(
        '--search <text>',
        'search by job id, request id, provider request id, Idempotency-Key or prompt',
      )
      .option('--model <id>', 'only jobs that use this model')
      .option('--key <keyId>', 'only jobs created with this key')
      .option(
        '--metadata <name=value>',
        'only jobs with this metadata pair (repeatable)',
        collectPair,
      )
      .option('--after <time>', 'only jobs created after this ISO 8601 time')
      .option('--before <time>', 'only jobs created before this ISO 8601 time'),
    path: () => '/studio/jobs',
    columns: {
      job: 'jobId',
      type: 'type',
      model: 'model',
      status: 'status',
      credits: (job) =>
        toCell(
          job,
          `billing.${toCell(job, 'billing.state') === 'reserved' ? 'reserved' : 'charged'}`,
        ),
      billing: 'billing.state',
      created: 'createdAt',
      error: 'error.code',
    },
  });
}

/** Maximum number of characters to print of a webhook response, so that it fits on one line. */
const responseCharactersMax = 60;

const webhookColumns = {
  job: 'jobId',
  url: 'url',
  state: 'state',
  attempts: 'attempts',
  next: 'nextAttemptAt',
};
const deliveryColumns: Columns = {
  '#': 'number',
  at: 'startedAt',
  outcome: 'outcome',
  status: 'status',
  ms: 'durationMs',
  response: (delivery) =>
    toCell(delivery, 'error') ??
    String(toCell(delivery, 'response') ?? '').slice(0, responseCharactersMax),
};

/** Formats a webhook and its delivery attempts. */
export function formatWebhook(data: Fields): string {
  const webhook = formatList(toCells(data, webhookColumns));
  const rows = readList(data, 'deliveries').map((row) => toCells(row, deliveryColumns));
  return rows.length === 0 ? webhook : `${webhook}\n${formatTable(rows)}`;
}

/** Adds the webhook commands to `studio jobs`. */
function addWebhookCommands(jobs: Command): void {
  addAction({
    command: jobs
      .command('deliveries <jobId> [step]')
      .description('show the webhook of a job, or of a step, and every delivery attempt'),
    path: (jobId, step) => `/studio/jobs/${jobId}/webhook${step ? `?step=${step}` : ''}`,
    text: formatWebhook,
  });
  addAction({
    command: jobs
      .command('redeliver <jobId> [step]')
      .description('redeliver the webhook of a job, or of a step, now'),
    method: 'POST',
    path: (jobId, step) => `/studio/jobs/${jobId}/webhook/redeliver${step ? `?step=${step}` : ''}`,
    text: formatWebhook,
  });
}
