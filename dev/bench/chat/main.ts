/**
 * `npm run bench:chat`: measures chat through our API beside the upstream alone, a bare pass-through
 * and Portkey's gateway, on servers of its own (docs/performance.md). Nothing it started outlives it.
 */
import { writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { availableParallelism, cpus } from 'node:os';
import { resolve } from 'node:path';
import { Command } from 'commander';
import { makeTemporaryDirectory } from '../../stack/temporary-directory.ts';
import { measure, compareChats, renderChats, type Scenario } from './measurement.ts';
import { startServers } from '../servers.ts';
import { runAndStop, type Stops } from '../stops.ts';
import {
  pin,
  startChatGateway,
  startUpstream,
  chatGatewayKinds,
  type ChatGatewayKind,
} from './gateways.ts';
import { openChatLoad } from './load.ts';
import { assignment, chosenFrom, number, numbers } from '../options.ts';

/** What to run. */
interface ChatBenchOptions {
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
type ChatMode = (typeof chatModes)[number];

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
function readChatOptions(argv: readonly string[]): ChatBenchOptions {
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

const report = (line: string): void => console.error(line);

/** Where several cores are, gateways have the first for themselves, all else the others. */
function coresOf(options: ChatBenchOptions): { gateway: string; rest: string } | null {
  const count = cpus().length;
  if (!options.pinned || process.platform !== 'linux' || count < 2) return null;
  return { gateway: '0', rest: `1-${count - 1}` };
}

interface Way {
  name: string;
  kind: ChatGatewayKind;
  checkout: string | null;
  env: Record<string, string>;
}

/** Another checkout's API is measured beside ours, in the same rounds. */
function waysOf({ kinds, checkout, env }: ChatBenchOptions): Way[] {
  const own = kinds.map((kind) => ({ name: kind, kind, checkout: null, env }));
  return checkout === null
    ? own
    : [...own, { name: 'gateway@checkout', kind: 'gateway', checkout, env: {} }];
}

async function openScenarios(options: ChatBenchOptions, started: Stops): Promise<Scenario[]> {
  const cores = coresOf(options);
  // What is started from here on begins on the same cores.
  pin(process.pid, cores?.rest ?? null);
  const directory = makeTemporaryDirectory('bench-chat');
  started.push(() => rm(directory, { recursive: true, force: true }));
  report('starting Postgres, Temporal and the upstream');
  const servers = await startServers({ latencyMs: 0, temporalInMemory: true, directory });
  started.push(servers.stop);
  const upstream = await startUpstream(servers, options.providerSeconds);
  started.push(() => upstream.stop());
  const scenarios: Scenario[] = [];
  for (const { name, kind, checkout, env } of waysOf(options)) {
    report(`starting ${name}`);
    // Processes that start side by side slow each other.
    const gateway = await startChatGateway(kind, {
      servers,
      upstreamUrl: upstream.url,
      gatewayCpus: cores?.gateway ?? null,
      checkout,
      env,
    });
    started.push(gateway.stop);
    const load = openChatLoad(gateway.target);
    started.push(load.stop);
    for (const mode of options.modes) {
      scenarios.push({
        kind: mode,
        name,
        run: (wanted) => load.run(wanted, mode === 'stream'),
        pids: gateway.pids,
      });
    }
  }
  return scenarios;
}

async function run(options: ChatBenchOptions, started: Stops): Promise<void> {
  const scenarios = await openScenarios(options, started);
  // Who waits for a slow provider asks at any time.
  const plan = { ...options, spreadSeconds: options.providerSeconds, report };
  const cells = compareChats(await measure(scenarios, plan));
  console.log(renderChats(cells));
  const machine = { cores: availableParallelism(), cpu: cpus()[0]?.model ?? 'unknown' };
  if (options.jsonPath !== null) {
    const { concurrencies, seconds, rounds, providerSeconds, pinned, env } = options;
    const settings = { concurrencies, seconds, rounds, providerSeconds, pinned, env };
    const content = { date: new Date().toISOString(), machine, settings, cells };
    writeFileSync(options.jsonPath, `${JSON.stringify(content, null, 2)}\n`);
  }
  for (const { scenario, concurrency, failures, firstFailure } of cells) {
    if (failures === 0) continue;
    report(`${scenario} at ${concurrency}: ${failures} failed: ${firstFailure}`);
    process.exitCode = 1;
  }
}

const options = readChatOptions(process.argv.slice(2));
await runAndStop((started) => run(options, started));
