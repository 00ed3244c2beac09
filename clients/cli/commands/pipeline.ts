/** Commands `studio pipeline`, `resume`, `approve` and `reject`: run, resume and decide about pipelines. */
import { Command } from 'commander';
import { z } from 'zod';
import { CliError, type ApiClient } from '../api-client.ts';
import { showEstimate } from '../estimates.ts';
import { collectPair, omitUndefined, parseNumber, readObject } from '../fields.ts';
import { jobPath, jobResponse, showJob, submitJob } from '../jobs.ts';
import { fields, formatTable, toCell, toCells, type Columns } from '../output.ts';
import { openSession, type Session } from '../session.ts';

interface PipelineOptions {
  out?: string;
  async?: boolean;
  estimate?: boolean;
  maxCredits?: number;
  metadata?: Record<string, string>;
  from?: string;
  bodies?: string;
  recipe?: string;
}

const addJobOptions = (command: Command): Command =>
  command
    .option('-o, --out <directory>', 'save the media to this directory')
    .option('--max-credits <n>', 'reject the request if it costs more', parseNumber)
    .option('--metadata <name=value>', 'a pair, for example team=ads (repeatable)', collectPair)
    .option('--async', 'print the job id without waiting for the job');

interface DecisionOptions {
  items?: string;
  output?: Record<string, string>;
  body?: string;
  reason?: string;
}

/** Creates a command that decides about a step, by default about the one that waits. */
const createDecisionCommand = (decision: 'approve' | 'reject'): Command =>
  new Command(decision)
    .argument('<job>', 'the id of the pipeline, or of a bulk job with --items')
    .argument('[step]', 'the id of the step; may be omitted if one step waits')
    .option('--items <ids>', 'items of a bulk job: all, or their ids, separated by commas')
    .action(
      async (
        ...[job, step, options, self]: [string, string | undefined, DecisionOptions, Command]
      ) => {
        const session = openSession(self);
        const api = session.client('caller');
        const outputs = Object.entries(options.output ?? {}).map(
          ([from, index]) => [from, parseNumber(index)] as const,
        );
        const body = omitUndefined({
          decision,
          outputs: outputs.length > 0 ? Object.fromEntries(outputs) : undefined,
          body: options.body === undefined ? undefined : await readObject(options.body),
          reason: options.reason,
        });
        if (options.items !== undefined) {
          const items = options.items === 'all' ? options.items : options.items.split(',');
          await decideItems(session, job, omitUndefined({ ...body, items, step }));
          return;
        }
        const name = encodeURIComponent(step ?? (await findWaitingStep(api, job)));
        const path = `${jobPath(job)}/steps/${name}/decision`;
        const answer = await api.send(path, jobResponse, { method: 'POST', body });
        await showJob(session.output, { job: answer.body.data, raw: answer.raw });
      },
    );

const decidedItems = z.looseObject({
  data: z.looseObject({ decided: z.number(), remaining: z.number(), items: z.array(fields) }),
});
const itemColumns: Columns = {
  item: (item) => toCell(item, 'id') ?? toCell(item, 'index'),
  job: 'jobId',
  decision: (item) =>
    toCell(item, 'error.message') ?? (item['replayed'] === true ? 'made before' : 'counts'),
};

/**
 * Decides about items of a bulk job, with as many requests as that needs, until one decides nothing.
 * The exit status is 1 if a decision does not count or items remain.
 */
async function decideItems(session: Session, bulkId: string, body: object): Promise<void> {
  const path = `/api/v1/studio/bulk/${encodeURIComponent(bulkId)}/decisions`;
  for (;;) {
    const api = session.client('caller');
    const answer = await api.send(path, decidedItems, { method: 'POST', body });
    const { items, decided, remaining } = answer.body.data;
    session.output.show(answer.raw, () =>
      formatTable(items.map((item) => toCells(item, itemColumns))),
    );
    const isStuck = remaining > 0 && decided === 0;
    if (isStuck || items.some(({ error }) => error)) process.exitCode = 1;
    if (isStuck || remaining === 0) return;
  }
}

const waitingJob = z.looseObject({
  data: z.looseObject({ awaiting: z.array(z.looseObject({ step: z.string() })) }),
});

/** Returns the id of the step of a job that waits. @throws CliError unless exactly one does */
async function findWaitingStep(api: ApiClient, job: string): Promise<string> {
  const { body } = await api.send(jobPath(job), waitingJob);
  const [waiting, ...others] = body.data.awaiting.map(({ step }) => step);
  if (waiting !== undefined && others.length === 0) return waiting;
  throw new CliError(
    waiting === undefined
      ? 'no step of the job waits for a decision'
      : `name the step: ${[waiting, ...others].join(', ')} wait for a decision`,
  );
}

/** Creates the commands for pipelines. */
export function createPipelineCommands(): Command[] {
  const pipeline = new Command('pipeline')
    .description('run the steps of a pipeline')
    .argument('[file]', 'a JSON file with `steps`, or - for standard input')
    .option('--recipe <name>', 'saved recipe, whose fields those of the file replace')
    .option('--estimate', 'show the price without starting a job');
  const resume = new Command('resume')
    .description('resume a pipeline: run the steps that did not succeed')
    .argument('<job>', 'the id of the pipeline')
    .option('--from <step>', 'run this step and those that depend on it again')
    .option('--bodies <file>', 'a JSON file with new bodies by step id');
  return [
    createDecisionCommand('approve')
      .description('approve a step that waits: spends the credits that are reserved for it')
      .option('--output <step=n>', 'choose an output of an earlier step (repeatable)', collectPair)
      .option('--body <file>', 'a JSON file with fields that replace those of the step'),
    createDecisionCommand('reject')
      .description('reject a step that waits: it and all that follow it are skipped')
      .option('--reason <text>', 'the reason, which the job shows'),
    addJobOptions(pipeline).action(
      async (file: string | undefined, options: PipelineOptions, self: Command) => {
        const session = openSession(self);
        const { maxCredits, metadata, recipe } = options;
        if (file === undefined && recipe === undefined)
          throw new CliError('name a file or --recipe');
        const fileBody = file === undefined ? {} : await readObject(file);
        const body = { ...fileBody, ...omitUndefined({ maxCredits, metadata, recipe }) };
        if (options.estimate) {
          await showEstimate(session, '/studio/pipelines', { body });
          return;
        }
        await submit(self, '/pipelines', { body, options });
      },
    ),
    addJobOptions(resume).action(async (job: string, options: PipelineOptions, self: Command) => {
      const { from, maxCredits, metadata } = options;
      const bodies = options.bodies === undefined ? undefined : await readObject(options.bodies);
      const body = omitUndefined({ from, bodies, maxCredits, metadata });
      await submit(self, `/jobs/${encodeURIComponent(job)}/resume`, { body, options });
    }),
  ];
}

async function submit(
  command: Command,
  path: string,
  { body, options }: { body: object; options: PipelineOptions },
): Promise<void> {
  const { out } = options;
  const succeeded = await submitJob(openSession(command), {
    path,
    body,
    wait: !options.async,
    out,
  });
  if (!succeeded) process.exitCode = 1;
}
