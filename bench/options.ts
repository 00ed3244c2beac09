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
}

/** Reads the command line; prints what is wrong, or the help, and exits. */
export function readOptions(argv: readonly string[]): BenchOptions {
  const flags = new Command('bench')
    .description('Measures Studio jobs beside bare Temporal workflows; ratios hold inside one run.')
    .option('--concurrency <list>', 'callers at once', numbers, [1, 8, 32, 100])
    .option('--seconds <n>', 'per scenario and concurrency, shared by the rounds', number, 10)
    .option('--rounds <n>', 'interleaved rounds', number, 3)
    .option('--only <list>', `of ${scenarioKinds.join(', ')}`, kinds, [...scenarioKinds])
    .option('--dispatch <list>', 'variants: auto or queued[@other-checkout][+NAME=value]', words, [
      'auto',
    ])
    .option('--apis <n>', 'API processes per variant', number, 1)
    .option('--workers <n>', 'worker processes per variant beside the APIs’ own', number, 1)
    .option('--env <NAME=value>', 'more environment for API and worker, repeatable', assignment, {})
    .option('--latency <ms>', 'what the provider takes for an image', number, 50)
    .option('--json <file>', 'also write the figures as JSON')
    .option('--temporal-in-memory', 'Temporal without its file: what durability costs it', false)
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
  };
}

/** `auto@../before+SUBMIT_LINGER_MS=0`: automatic dispatch, another checkout's code, one more setting. */
function toVariant(label: string, shared: Flags & { index: number }): Variant {
  const [run = '', ...settings] = label.split('+');
  const [dispatch = '', checkout] = run.split('@');
  const { apis, workers, index } = shared;
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

function number(text: string): number {
  const value = Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError('must be a number.');
}

function words(text: string): string[] {
  return text.split(',').filter(Boolean);
}

function numbers(text: string): number[] {
  return words(text).map(number);
}

function kinds(text: string): ScenarioKind[] {
  return words(text).map((word) => {
    const known = scenarioKinds.find((kind) => kind === word);
    if (known) return known;
    throw new InvalidArgumentError(`${word} is none of ${scenarioKinds.join(', ')}.`);
  });
}

function assignment(text: string, before: Record<string, string>): Record<string, string> {
  const [, name, value] = /^([A-Z_]+)=(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new InvalidArgumentError('must be NAME=value.');
  }
  return { ...before, [name]: value };
}
