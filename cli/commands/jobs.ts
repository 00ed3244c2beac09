/** `studio jobs ls|get|watch|cancel|timeline|deliveries|redeliver`. */
import { Command } from 'commander';
import { z } from 'zod';
import { addAction } from '../actions.ts';
import {
  numberOf,
  cellsOf,
  listIn,
  cellOf,
  table,
  list,
  type Columns,
  type Fields,
} from '../output.ts';
import { numeric, shortTime, tagged, tagQuery } from '../fields.ts';
import { jobResource, showJob, watchJob } from '../jobs.ts';
import { sessionOf } from '../session.ts';

const jobList = z.looseObject({
  data: z.array(jobResource),
  hasMore: z.boolean(),
  nextCursor: z.string().nullable(),
});
const oneJob = z.looseObject({ data: jobResource });

const stepColumns = {
  step: 'name',
  call: numberOf('call'),
  state: 'state',
  attempts: 'attempts',
  started: 'startedAt',
  ended: 'endedAt',
  provider: 'provider',
  request: 'providerRequestId',
};

interface ListOptions {
  status?: string;
  type?: string;
  model?: string;
  key?: string;
  tag?: Record<string, string>;
  after?: string;
  before?: string;
  limit?: number;
  cursor?: string;
}

interface OutOption {
  out?: string;
}

const pathOf = (jobId: string): string => `/api/v1/studio/jobs/${encodeURIComponent(jobId)}`;

/** Makes the command `studio jobs`. */
export function jobsCommand(): Command {
  const jobs = new Command('jobs').description(
    'list, watch and cancel Studio jobs of the organization',
  );
  jobs
    .command('ls', { isDefault: true })
    .description('list jobs, newest first')
    .option('--status <status>', 'queued, in_progress, completed, failed or canceled')
    .option('--type <type>', 'for example imageGenerate')
    .option(
      '--search <text>',
      'an id of the job, its request or its provider, an Idempotency-Key, or text of the prompt',
    )
    .option('--model <id>', 'only jobs of this model')
    .option('--key <keyId>', 'only jobs of this key')
    .option('--tag <name=value>', 'only jobs with this metadata pair (repeatable)', tagged)
    .option('--after <time>', 'only jobs created after this ISO 8601 time')
    .option('--before <time>', 'only jobs created before this ISO 8601 time')
    .option('--limit <n>', 'maximum number of jobs', numeric)
    .option('--cursor <cursor>', 'cursor of the next page')
    .action(listJobs);
  jobs
    .command('get')
    .argument('<jobId>')
    .description('show a job')
    .option('-o, --out <path>', 'save the media: a file name, or a directory')
    .action(async (jobId: string, { out }: OutOption, command: Command) => {
      const session = sessionOf(command);
      const { body, raw } = await session.api().send(pathOf(jobId), oneJob);
      await showJob(session.output, { job: body.data, raw }, out);
    });
  jobs
    .command('watch')
    .argument('<jobId>')
    .description('wait until a job has ended')
    .option('-o, --out <path>', 'save the media: a file name, or a directory')
    .action(async (jobId: string, { out }: OutOption, command: Command) => {
      const session = sessionOf(command);
      const seen = await watchJob(session.api(), jobId, session.output);
      if (!(await showJob(session.output, seen, out))) process.exitCode = 1;
    });
  jobs
    .command('cancel')
    .argument('<jobId>')
    .description('cancel a job')
    .action(async (jobId: string, _options: object, command: Command) => {
      const session = sessionOf(command);
      const { body, raw } = await session
        .api()
        .send(`${pathOf(jobId)}/cancel`, oneJob, { method: 'POST' });
      await showJob(session.output, { job: body.data, raw });
    });
  addAction({
    command: jobs
      .command('timeline <jobId>')
      .description('show the steps of a job with their times'),
    path: (jobId) => `/api/v1/studio/jobs/${jobId}/timeline`,
    text: (job) => table(listIn(job, 'steps').map((each) => cellsOf(each, stepColumns))),
  });
  addWebhookCommands(jobs);
  return jobs;
}

async function listJobs(options: ListOptions, command: Command): Promise<void> {
  const session = sessionOf(command);
  const { key, tag, ...query } = options;
  const { body, raw } = await session.api().send('/api/v1/studio/jobs', jobList, {
    query: { ...query, keyId: key, ...tagQuery(tag) },
  });
  session.output.show(raw, () =>
    table(
      body.data.map((job) => ({
        job: job.jobId,
        type: job.type,
        model: job.model,
        status: job.status,
        credits: job.billing.state === 'reserved' ? job.billing.reserved : job.billing.charged,
        billing: job.billing.state,
        created: shortTime(job.createdAt),
        error: job.error?.code,
      })),
    ),
  );
  if (body.nextCursor) session.output.note(`more: --cursor ${body.nextCursor}`);
}

/** Maximum number of characters of a response that are shown, so that it fits into one line. */
const responseShownMax = 60;

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
  answer: (each) =>
    cellOf(each, 'error') ?? String(cellOf(each, 'response') ?? '').slice(0, responseShownMax),
};

/** Formats a webhook and its delivery attempts. */
export function webhookText(data: Fields): string {
  const head = list(cellsOf(data, webhookColumns));
  const rows = listIn(data, 'deliveries').map((each) => cellsOf(each, deliveryColumns));
  return rows.length === 0 ? head : `${head}\n${table(rows)}`;
}

/** Adds the commands to `studio jobs`. */
function addWebhookCommands(jobs: Command): void {
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
