/** The command line of the benchmark. */
import { resolve } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import type { Variant } from './gateway.ts';
import { scenarioKinds, type ScenarioKind } from './scenarios.ts';

/** What to run. */
export interface BenchOptions {
  concurrencies: number[];
  seconds: number;
  rounds: number;
  kinds: ScenarioKind[];
  variants: Variant[];
  jsonPath: string | null;
  profile: boolean;
  /** The provider's own time for an image, milliseconds. */
  latencyMs: number;
  temporalInMemory: boolean;
  /** Folder of a built Temporal server, to run it on Postgres instead; null is the CLI's on SQLite. */
  temporalOnPostgres: string | null;
  organizations: number;
}

interface Flags {
  concurrency: number[];
  seconds: number;
  rounds: number;
  only: ScenarioKind[];
  dispatch: string[];
  apis: number;
  workers: number;
  env: Record<string, string>;
  latency: number;
  json?: string;
  profile: boolean;
  temporalInMemory: boolean;
  temporalPostgres?: string;
  organizations: number;
}

/** Reads the command line; prints what is wrong, or the help, and exits. */
export function readOptions(argv: readonly string[]): BenchOptions {
  const flags = new Command('bench')
    .description('Measures Studio jobs beside bare Temporal workflows; ratios hold inside one run.')
    .option('--concurrency <list>', 'callers at once', numbers, [1, 8, 32, 100, 300])
    .option('--seconds <n>', 'per scenario and concurrency, shared by the rounds', number, 10)
    .option('--rounds <n>', 'interleaved rounds', number, 3)
    .option('--only <list>', `of ${scenarioKinds.join(', ')}`, chosenFrom(scenarioKinds), [
      ...scenarioKinds,
    ])
    .option(
      '--dispatch <list>',
      'variants: auto or queued[:APISxWORKERS][@other-checkout][+NAME=value]',
      words,
      ['auto'],
    )
    .option('--apis <n>', 'API processes per variant', number, 1)
    .option('--workers <n>', 'worker processes per variant beside the APIs’ own', number, 1)
    .option('--env <NAME=value>', 'more environment for API and worker, repeatable', assignment, {})
    .option('--latency <ms>', 'what the provider takes for an image', number, 50)
    .option('--json <file>', 'also write the figures as JSON')
    .option('--temporal-in-memory', 'Temporal without its file: what durability costs it', false)
    .option(
      '--temporal-postgres <folder>',
      'Temporal on Postgres: the folder of temporal-server and temporal-sql-tool',
    )
    .option('--organizations <n>', 'whose keys take turns', number, 1)
    .option('--no-profile', 'do not count workflow tasks, events and commits of a job')
    .parse([...argv], { from: 'user' })
    .opts<Flags>();
  return {
    concurrencies: flags.concurrency,
    seconds: flags.seconds,
    rounds: flags.rounds,
    kinds: flags.only,
    variants: flags.dispatch.map((label, index) => toVariant(label, { ...flags, index })),
    jsonPath: flags.json ?? null,
    profile: flags.profile,
    latencyMs: flags.latency,
    temporalInMemory: flags.temporalInMemory,
    temporalOnPostgres: flags.temporalPostgres ?? null,
    organizations: flags.organizations,
  };
}

/**
 * `auto:2x1@../before+SUBMIT_LINGER_MS=0`: automatic dispatch, two APIs and one worker, another
 * checkout's code, one more setting.
 */
function toVariant(label: string, shared: Flags & { index: number }): Variant {
  const [run = '', ...settings] = label.split('+');
  const [shape = '', checkout] = run.split('@');
  const [dispatch = '', counts] = shape.split(':');
  const { index } = shared;
  const [apis = 1, workers = 0] = counts?.split('x').map(number) ?? [shared.apis, shared.workers];
  const env = settings.reduce((all, setting) => assignment(setting, all), shared.env);
  return {
    name: `${dispatch}-${index}`,
    label,
    checkout: checkout === undefined ? null : resolve(checkout),
    apis,
    workers,
    env: { CALL_DISPATCH: dispatch, ...env },
  };
}

/** Reads a number from the command line. */
export function number(text: string): number {
  const value = Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError('must be a number.');
}

function words(text: string): string[] {
  return text.split(',').filter(Boolean);
}

/** Reads a list of numbers. */
export function numbers(text: string): number[] {
  return words(text).map(number);
}

/** Reads a list of known words. */
export function chosenFrom<Known extends string>(all: readonly Known[]): (text: string) => Known[] {
  return (text) =>
    words(text).map((word) => {
      const known = all.find((one) => one === word);
      if (known !== undefined) return known;
      throw new InvalidArgumentError(`${word} is none of ${all.join(', ')}.`);
    });
}

/** Reads `NAME=value` beside the ones before. */
export function assignment(text: string, before: Record<string, string>): Record<string, string> {
  const [, name, value] = /^([A-Z_]+)=(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new InvalidArgumentError('must be NAME=value.');
  }
  return { ...before, [name]: value };
}
