/** The command line of the chat benchmark. */
import { resolve } from 'node:path';
import { Command } from 'commander';
import { assignment, chosenFrom, number, numbers } from '../options.ts';
import { chatGatewayKinds, type ChatGatewayKind } from './gateways.ts';

/** What to run. */
export interface ChatBenchOptions {
  concurrencies: number[];
  seconds: number;
  rounds: number;
  providerSeconds: number;
  kinds: ChatGatewayKind[];
  modes: ChatMode[];
  jsonPath: string | null;
  pinned: boolean;
  checkout: string | null;
  env: Record<string, string>;
}

/** Whole answers, or streams. */
const chatModes = ['whole', 'stream'] as const;
/** See `chatModes`. */
export type ChatMode = (typeof chatModes)[number];

interface Flags {
  concurrency: number[];
  seconds: number;
  rounds: number;
  providerSeconds: number;
  only: ChatGatewayKind[];
  mode: ChatMode[];
  json?: string;
  pin: boolean;
  checkout?: string;
  env: Record<string, string>;
}

/** Reads the command line; prints what is wrong, or the help, and exits. */
export function readChatOptions(argv: readonly string[]): ChatBenchOptions {
  const flags = new Command('bench:chat')
    .description('Measures chat through the gateway beside other ways; ratios hold inside one run.')
    .option('--concurrency <list>', 'callers at once', numbers, [1, 32, 100])
    .option('--seconds <n>', 'per way, mode and concurrency, shared by the rounds', number, 9)
    .option('--rounds <n>', 'interleaved rounds', number, 3)
    .option('--provider-seconds <n>', 'what the upstream takes to begin', number, 0)
    .option('--only <list>', `of ${chatGatewayKinds.join(', ')}`, chosenFrom(chatGatewayKinds), [
      ...chatGatewayKinds,
    ])
    .option('--mode <list>', `of ${chatModes.join(', ')}`, chosenFrom(chatModes), [...chatModes])
    .option('--json <file>', 'also write the figures as JSON')
    .option(
      '--checkout <folder>',
      'measure the API of another checkout too, on a database of its own, without --env',
    )
    .option('--env <NAME=value>', 'more environment for our API, repeatable', assignment, {})
    .option('--no-pin', 'do not give the gateways a core of their own')
    .parse([...argv], { from: 'user' })
    .opts<Flags>();
  return {
    concurrencies: flags.concurrency,
    seconds: flags.seconds,
    rounds: flags.rounds,
    providerSeconds: flags.providerSeconds,
    kinds: flags.only,
    modes: flags.mode,
    jsonPath: flags.json ?? null,
    pinned: flags.pin,
    checkout: flags.checkout === undefined ? null : resolve(flags.checkout),
    env: flags.env,
  };
}
