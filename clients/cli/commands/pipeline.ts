/** Commands `studio pipeline` and `studio resume`: run and resume pipelines. */
import { readFile } from 'node:fs/promises';
import { Command } from 'commander';
import { CliError } from '../api-client.ts';
import { showEstimate } from '../estimates.ts';
import { collectPair, omitUndefined, parseNumber } from '../fields.ts';
import { submitJob } from '../jobs.ts';
import { openSession } from '../session.ts';

interface PipelineOptions {
  out?: string;
  async?: boolean;
  estimate?: boolean;
  maxCredits?: number;
  metadata?: Record<string, string>;
  from?: string;
  bodies?: string;
}

/** Reads a file, or standard input for `-`, that contains a JSON object. @throws CliError */
async function readObject(file: string): Promise<object> {
  try {
    const value: unknown = JSON.parse(await readFile(file === '-' ? '/dev/stdin' : file, 'utf8'));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch (error) {
    throw new CliError(`${file} cannot be read as JSON: ${String(error)}`);
  }
  throw new CliError(`${file} must contain a JSON object`);
}

const addJobOptions = (command: Command): Command =>
  command
    .option('-o, --out <directory>', 'save the media to this directory')
    .option('--max-credits <n>', 'reject the request if it costs more', parseNumber)
    .option('--metadata <name=value>', 'a pair, for example team=ads (repeatable)', collectPair)
    .option('--async', 'print the job id without waiting for the job');

/** Creates the commands `studio pipeline` and `studio resume`. */
export function createPipelineCommands(): Command[] {
  const pipeline = new Command('pipeline')
    .description('run the steps of a pipeline')
    .argument('<file>', 'a JSON file with `steps`, or - for standard input')
    .option('--estimate', 'show the price without starting a job');
  const resume = new Command('resume')
    .description('resume a pipeline: run the steps that did not succeed')
    .argument('<job>', 'the id of the pipeline')
    .option('--from <step>', 'run this step and those that depend on it again')
    .option('--bodies <file>', 'a JSON file with new bodies by step id');
  return [
    addJobOptions(pipeline).action(
      async (file: string, options: PipelineOptions, self: Command) => {
        const session = openSession(self);
        const { maxCredits, metadata } = options;
        const body = { ...(await readObject(file)), ...omitUndefined({ maxCredits, metadata }) };
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
