/**
 * `npm run dev -- bench studio|chat|ledger`: compares the gateway with other ways, on servers of its own, which it stops
 * at the end (docs/performance.md).
 */
import { writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { Command } from 'commander';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { chatLoads, chatWays, planChat } from './chat.ts';
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

/** Makes the action of a command. */
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

/** Makes a command with the options that all benchmarks have. */
function command(name: string, description: string, seconds: number): Command {
  return program
    .command(name)
    .description(description)
    .option('--seconds <n>', 'duration of each load in each round', number, seconds)
    .option('--rounds <n>', 'alternating rounds of the ways', number, 3)
    .option('--json <file>', 'also write the figures as JSON');
}

const others = 'gateway@FOLDER is another checkout’s, on a database of its own';
command('studio', 'Asynchronous Studio jobs at a fixed rate.', 60)
  .option(
    '--provider-seconds <n>',
    'duration of a job at the provider; videos from 60 s',
    number,
    4,
  )
  .option('--rate <list>', 'jobs per second, one load after the other', numbers, [8])
  .option('--ways <list>', `of ${studioWays.join()}; ${others}`, waysOf(studioWays), studioWays)
  .option('--env <NAME=value>', 'more environment for the gateway, repeatable', assignment, {})
  .action(runner(planStudio));
command('chat', 'Chats in closed loops: each caller has one request at a time.', 3)
  .option('--loads <list>', `of ${chatLoads.join()}`, waysOf(chatLoads), chatLoads)
  .option('--ways <list>', `of ${chatWays.join()}; ${others}`, waysOf(chatWays), chatWays)
  .option('--env <NAME=value>', 'more environment for our API, repeatable', assignment, {})
  .option('--no-pin', 'do not give the gateways a core of their own')
  .action(runner(planChat));
command('ledger', 'Moves of the ledger, two for each job, with and without shared commits.', 3)
  .option('--callers <list>', 'at once', numbers, [64, 512])
  .action(runner(planLedger));
await program.parseAsync();
