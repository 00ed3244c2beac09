/**
 * `npm run dev -- bench studio|bulk|chat|ledger|growth`: compares the gateway with other variants. Starts separate servers and stops them
 * at the end (docs/performance.md).
 */
import { writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { Command } from 'commander';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { bulkLoads, planBulk } from './bulk.ts';
import { chatLoads, chatVariants, planChat } from './chat.ts';
import { formatGrowth, measureGrowth, type GrowthOptions } from './growth.ts';
import { planLedger } from './ledger.ts';
import { measure, type Benchmark } from './measurement.ts';
import { assignment, number, numbers, parseNames } from './options.ts';
import { runAndStop, type Stops } from './stops.ts';
import { planStudio, studioVariants } from './studio.ts';
import { formatResults } from './table.ts';

interface CommonOptions {
  rounds: number;
  json?: string;
}

const report = (line: string): void => console.error(line);

interface Place {
  directory: string;
  started: Stops;
}

/** Runs a benchmark in a directory that is deleted at its end. */
const runInDirectory = (run: (place: Place) => Promise<void>): Promise<void> =>
  runAndStop(async (started) => {
    const directory = makeTemporaryDirectory('bench');
    started.push(() => rm(directory, { recursive: true, force: true }));
    report('starting the servers');
    await run({ directory, started });
  });

/** Writes the results of a benchmark, and describes the machine, in a JSON file. */
function writeJson(
  file: string | undefined,
  results: { loadBefore: number[]; [name: string]: unknown },
): void {
  if (file === undefined) return;
  const { loadBefore, ...others } = results;
  const cpu = cpus()[0]?.model ?? 'unknown';
  const machine = { loadBefore, cores: availableParallelism(), cpu };
  const content = { date: new Date().toISOString(), machine, ...others };
  writeFileSync(file, `${JSON.stringify(content, null, 2)}\n`);
}

/** Returns the action of a command, which runs a benchmark and prints its results. */
function createAction<Options, Load extends { name: string }>(
  plan: (options: Options, place: Place) => Promise<Benchmark<Load>>,
): (options: Options & CommonOptions) => Promise<void> {
  return (options) =>
    runInDirectory(async ({ directory, started }) => {
      const benchmark = await plan(options, { directory, started });
      const loadBefore = loadavg();
      const cells = await measure(benchmark, { rounds: options.rounds, started, report });
      console.log(formatResults(cells, benchmark.baseline));
      writeJson(options.json, { loadBefore, settings: options, cells });
      if (cells.some(({ failures }) => failures > 0)) process.exitCode = 1;
    });
}

const program = new Command('bench');

/** Adds a command with the options that all benchmarks of variants have. */
function addCounted(name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .option('--rounds <n>', 'how often to measure each variant', number, 3)
    .option('--json <file>', 'also write the results as JSON to this file');
}

/** Adds a command whose loads have a duration. */
const addCommand = (name: string, description: string, seconds: number): Command =>
  addCounted(name, description).option(
    '--seconds <n>',
    'duration of each load in each round',
    number,
    seconds,
  );

const describeVariants = (names: readonly string[]): string =>
  `comma-separated: ${names.join()}; gateway@FOLDER is the gateway of another checkout`;
addCommand('studio', 'Asynchronous Studio jobs at a fixed rate.', 60)
  .option(
    '--provider-seconds <n>',
    'time that the provider takes for a job; from 60 seconds, jobs make videos',
    number,
    4,
  )
  .option('--rate <list>', 'jobs per second; each rate is a load', numbers, [8])
  .option(
    '--variants <list>',
    describeVariants(studioVariants),
    parseNames(studioVariants),
    studioVariants,
  )
  .option('--waiting <n>', 'jobs that await an approval meanwhile', number, 0)
  .option('--env <NAME=value>', 'environment variable of the gateway; repeatable', assignment, {})
  .action(createAction(planStudio));
addCounted(
  'bulk',
  'Bulk jobs and pipelines next to single jobs, and requests of another organization beside them.',
)
  .option(
    '--loads <list>',
    `comma-separated: ${bulkLoads.join()}`,
    parseNames(bulkLoads),
    bulkLoads,
  )
  .option('--items <n>', 'number of pictures that run', number, 1000)
  .option('--chats <n>', 'number of short chats that run', number, 1000)
  .option('--accepted <n>', 'number of items of the bulk job that is only accepted', number, 10_000)
  .option('--waiting <n>', "number of items beside the other organization's jobs", number, 2000)
  .option('--jobs <n>', 'number of jobs of the other organization', number, 30)
  .option('--pipelines <n>', 'number of pipelines of three steps', number, 60)
  .option('--concurrency <n>', 'number of jobs that run at the same time', number, 16)
  .option('--env <NAME=value>', 'environment variable of the gateway; repeatable', assignment, {})
  .action(createAction(planBulk));
addCommand('chat', 'Chats of callers with one request at a time, and of random arrivals.', 3)
  .option(
    '--loads <list>',
    `comma-separated: ${chatLoads.join()}`,
    parseNames(chatLoads),
    chatLoads,
  )
  .option(
    '--variants <list>',
    describeVariants(chatVariants),
    parseNames(chatVariants),
    chatVariants,
  )
  .option('--env <NAME=value>', 'environment variable of our API; repeatable', assignment, {})
  .option('--no-pin', 'do not reserve a core for each gateway')
  .action(createAction(planChat));
addCommand('ledger', 'Ledger transactions, two for each job, with and without shared commits.', 3)
  .option('--callers <list>', 'concurrent callers; each number is a load', numbers, [64, 512])
  .action(createAction(planLedger));
program
  .command('growth')
  .description(
    'Requests, sums, searches and audits with empty tables, and after many jobs and chats.',
  )
  .option('--jobs <n>', 'number of jobs that have ended', number, 400_000)
  .option('--chats <n>', 'number of chats that have ended', number, 600_000)
  .option('--days <n>', 'number of days on which they began', number, 365)
  .option('--requests <n>', 'requests of each measurement', number, 20)
  .option('--idle-seconds <n>', 'duration of the measurement without requests', number, 30)
  .option('--json <file>', 'also write the results as JSON to this file')
  .action((options: GrowthOptions & { json?: string }) =>
    runInDirectory(async (place) => {
      const loadBefore = loadavg();
      const rows = await measureGrowth(options, { ...place, report });
      console.log(formatGrowth(rows));
      writeJson(options.json, { loadBefore, loadAfter: loadavg(), settings: options, rows });
    }),
  );
await program.parseAsync();
