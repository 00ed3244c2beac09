/** The command line of the benchmark. */
import { Command, InvalidArgumentError } from 'commander';
import { columnKinds } from './columns.ts';
import type { Medium } from './gateway.ts';

/** What to run. */
export interface BenchOptions {
  providerSeconds: number;
  /** Jobs per second. */
  rates: number[];
  /** Of each load. */
  seconds: number;
  rounds: number;
  /** Kinds of columns, of `gateway` with its checkout. */
  columns: string[];
  medium: Medium;
  /** Look for the highest rate instead. */
  saturate: boolean;
  apis: number;
  workers: number;
  env: Record<string, string>;
  jsonPath: string | null;
}

interface Flags {
  providerSeconds: number;
  rate: number[];
  seconds: number;
  rounds: number;
  columns: string[];
  medium?: Medium;
  saturate: boolean;
  inFlight?: number;
  apis: number;
  workers: number;
  env: Record<string, string>;
  json?: string;
}

/** Providers that take so long make films. */
const filmSeconds = 60;

/** Reads the command line; prints what is wrong, or the help, and exits. */
export function readOptions(argv: readonly string[]): BenchOptions {
  const flags = new Command('bench')
    .description('Measures asynchronous Studio jobs beside other ways, in an open loop.')
    .option('--provider-seconds <n>', 'what the provider takes for a job', number, 4)
    .option('--rate <list>', 'jobs per second', numbers, [8])
    .option('--seconds <n>', 'of each load', number, 60)
    .option('--rounds <n>', 'alternating rounds of the columns', number, 3)
    .option(
      '--columns <list>',
      `of ${columnKinds.join(', ')}; gateway@FOLDER is another checkout's`,
      columns,
      ['gateway', 'bare', 'floor', 'dbos'],
    )
    .option(
      '--medium <image|video>',
      `what the gateway makes (default: video where the provider takes ${filmSeconds} s)`,
      medium,
    )
    .option('--saturate', 'find the highest rate held for --seconds, from --rate on', false)
    .option('--in-flight <n>', 'provider and load last until so many jobs of --rate wait', number)
    .option('--apis <n>', 'API processes of the gateway', number, 1)
    .option('--workers <n>', 'worker processes beside the APIs’ own', number, 1)
    .option('--env <NAME=value>', 'more environment for the gateway, repeatable', assignment, {})
    .option('--json <file>', 'also write the figures as JSON')
    .parse([...argv], { from: 'user' })
    .opts<Flags>();
  const { rate: rates, inFlight, json, ...same } = flags;
  const fillSeconds = inFlight === undefined ? null : inFlight / Math.max(...rates);
  const providerSeconds = fillSeconds ?? flags.providerSeconds;
  return {
    ...same,
    rates,
    providerSeconds,
    seconds: fillSeconds ?? flags.seconds,
    medium: flags.medium ?? (providerSeconds < filmSeconds ? 'image' : 'video'),
    jsonPath: json ?? null,
  };
}

function medium(text: string): Medium {
  if (text === 'image' || text === 'video') return text;
  throw new InvalidArgumentError('must be image or video.');
}

/** `gateway@../before` is the gateway of another checkout. */
function columns(text: string): string[] {
  for (const word of words(text)) {
    const [kind = '', checkout] = word.split('@');
    chosenFrom(columnKinds)(kind);
    if (checkout !== undefined && kind !== 'gateway') {
      throw new InvalidArgumentError('only a gateway has another checkout.');
    }
  }
  return words(text);
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
