/**
 * `npm run dev -- bench studio|chat|ledger`: compares the gateway with other ways, on servers of its own, which it stops
 * at the end (docs/performance.md).
 */
import { writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { Command } from 'commander';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { chatWays, planChat } from './chat.ts';
import { planLedger } from './ledger.ts';
import { measure, type Benchmark } from './measurement.ts';
import { assignment, number, numbers, waysOf } from './options.ts';
import { runAndStop, type Stops } from './stops.ts';
import { planStudio, studioWays } from './studio.ts';
import { renderCells } from './table.ts';

interface Shared {
  rounds: number;
  json?: string;
}

const report = (line: string): void => console.error(line);

/** Makes what runs a benchmark with the options of its command. */
function runner<Options, Load extends { name: string }>(
  plan: (
    options: Options,
    place: { directory: string; started: Stops },
  ) => Promise<Benchmark<Load>>,
): (options: Options & Shared) => Promise<void> {
  return (options) =>
    runAndStop(async (started) => {
      const directory = makeTemporaryDirectory('bench');
      started.push(() => rm(directory, { recursive: true, force: true }));
      report('starting the servers');
      const benchmark = await plan(options, { directory, started });
      const loadBefore = loadavg();
      const cells = await measure(benchmark, { rounds: options.rounds, started, report });
      console.log(renderCells(cells, benchmark.baseline));
      if (options.json !== undefined) {
        const cpu = cpus()[0]?.model ?? 'unknown';
        const machine = { loadBefore, cores: availableParallelism(), cpu };
        const content = { date: new Date().toISOString(), machine, settings: options, cells };
        writeFileSync(options.json, `${JSON.stringify(content, null, 2)}\n`);
      }
      if (cells.some(({ failures }) => failures > 0)) process.exitCode = 1;
    });
}

const program = new Command('bench');

/** A benchmark's command with the options that all have. */
function command(name: string, what: string, seconds: number): Command {
  return program
    .command(name)
    .description(what)
    .option('--seconds <n>', 'of each load in each round', number, seconds)
    .option('--rounds <n>', 'alternating rounds of the ways', number, 3)
    .option('--json <file>', 'also write the figures as JSON');
}

const others = 'gateway@FOLDER is another checkout’s, on a database of its own';
command('studio', 'Asynchronous Studio jobs at a fixed rate.', 60)
  .option(
    '--provider-seconds <n>',
    'what the provider takes for a job; from 60 on films',
    number,
    4,
  )
  .option('--rate <list>', 'jobs per second, one load after the other', numbers, [8])
  .option('--ways <list>', `of ${studioWays.join()}; ${others}`, waysOf(studioWays), studioWays)
  .option('--env <NAME=value>', 'more environment for the gateway, repeatable', assignment, {})
  .action(runner(planStudio));
command('chat', 'Chats of callers who ask again once they were answered.', 3)
  .option('--concurrency <list>', 'callers at once', numbers, [1, 32, 100])
  .option('--provider-seconds <n>', 'what the upstream takes to begin', number, 0)
  .option('--ways <list>', `of ${chatWays.join()}; ${others}`, waysOf(chatWays), chatWays)
  .option('--mode <list>', 'of whole, stream', (text) => text.split(','), ['whole', 'stream'])
  .option('--env <NAME=value>', 'more environment for our API, repeatable', assignment, {})
  .option('--no-pin', 'do not give the gateways a core of their own')
  .action(runner(planChat));
command('ledger', 'Money moves, two of them a job, with and without shared commits.', 3)
  .option('--callers <list>', 'at once', numbers, [64, 512])
  .action(runner(planLedger));
await program.parseAsync();
