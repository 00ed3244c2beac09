/** Chat benchmark: chats straight to the upstream, and through our API, a pass-through and Portkey's gateway. */
import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Pool, type Dispatcher } from 'undici';
import { freePort } from '../stack/free-port.ts';
import { nodeService } from '../stack/node-service.ts';
import { launch, untilReady, type Running } from '../stack/running.ts';
import { installNpm } from '../stack/tools.ts';
import { findGateway, startGateway, type Gateway } from './gateway.ts';
import { readClock, runClosedLoop, runOpenLoop, spaceRandomly, type LoopResult } from './load.ts';
import type { Benchmark, OpenVariant } from './measurement.ts';
import { buildLogPath, startServers, type Servers } from './servers.ts';
import type { Stops } from './stops.ts';

/** Names of the variants to compare; `gateway@FOLDER` is the gateway of another checkout. */
export const chatVariants = ['direct', 'pass-through', 'gateway', 'portkey'];

/** Options of `bench chat`. */
export interface ChatOptions {
  loads: string[];
  seconds: number;
  variants: string[];
  /** Whether to run each gateway on the first core, and everything else on the other cores. */
  pin: boolean;
  env: Record<string, string>;
}

interface Chats {
  isStream: boolean;
  /** Response time of the upstream in milliseconds. */
  upstreamMs: number;
  /** Number of organizations that the callers belong to. */
  organizations: number;
}

interface ChatLoad extends Chats {
  name: string;
  /** Sends the chats of the load. `send` returns the measured time in milliseconds. */
  run: (send: () => Promise<number>) => Promise<LoopResult<number>>;
}

/** Callers that each send their next chat after the response; or arrivals per second, at random times. */
type Senders = { callers: number } | { arrivals: number };

const oneCaller = { callers: 1, isStream: false, upstreamMs: 0, organizations: 1 };
const manyCallers = { ...oneCaller, callers: 32, upstreamMs: 50 };
const arrivals = { arrivals: 100, isStream: false, upstreamMs: 50, organizations: 1 };
const loadTable = {
  caller: oneCaller,
  stream: { ...oneCaller, isStream: true },
  callers: manyCallers,
  streams: { ...manyCallers, isStream: true },
  arrivals,
  'stream-arrivals': { ...arrivals, isStream: true },
  organizations: { ...manyCallers, organizations: 100 },
  saturated: { ...oneCaller, callers: 64 },
  'saturated-streams': { ...oneCaller, callers: 64, isStream: true },
  'slow-streams': { ...oneCaller, callers: 200, isStream: true, upstreamMs: 4000 },
} satisfies Record<string, Chats & Senders>;
/** Names of the loads. */
export const chatLoads = Object.keys(loadTable);
/** Minimum duration of a load, as a multiple of the upstream's response time. */
const minResponseTimes = 4;

/** URL of a server, and request headers for each organization. */
interface Target {
  url: string;
  path: string;
  headers: Record<string, string>[];
}

/** Running chat server. Its `pids` include Postgres if it is our gateway. */
interface ChatServer {
  target: Target;
  process: Running | null;
  pids: Record<string, number>;
  stop: () => Promise<void>;
}

/** Model whose provider is replaced by the mock upstream. */
const model = 'gpt-5-nano';
const upstreamKey = 'bench-upstream-key';
const upstreamPath = '/v1/chat/completions';

/** Starts the shared servers and the mock upstream, and returns the benchmark. */
export async function planChat(
  options: ChatOptions,
  { directory, started }: { directory: string; started: Stops },
): Promise<Benchmark<ChatLoad>> {
  const { seconds, env } = options;
  const loads = Object.entries(loadTable)
    .filter(([name]) => options.loads.includes(name))
    .map(([name, load]) => buildLoad(name, load, seconds));
  const isPinned = options.pin && process.platform === 'linux' && availableParallelism() > 1;
  // Child processes inherit the setting.
  if (isPinned) pin(process.pid, `1-${availableParallelism() - 1}`);
  const organizations = Math.max(1, ...loads.map((load) => load.organizations));
  const servers = await startServers(directory, started, organizations);
  const upstream = await startRelay(servers, 'upstream', {});
  started.push(upstream.stop);
  const { url: upstreamUrl } = upstream;
  const gateways = new Map<string, Gateway>();
  for (const name of options.variants) {
    if (name.startsWith('gateway')) gateways.set(name, await findGateway(name, servers));
  }
  const start = async (name: string): Promise<ChatServer> => {
    const gateway = gateways.get(name);
    if (gateway) return startOurApi(servers, gateway, { upstreamUrl, env });
    if (name === 'portkey') return startPortkey(servers, upstreamUrl);
    if (name === 'pass-through') return startPassThrough(servers, upstreamUrl);
    const target = upstreamTarget(upstreamUrl);
    return { target, process: null, pids: {}, stop: () => Promise.resolve() };
  };
  const open = async (name: string): Promise<OpenVariant<ChatLoad>> => {
    const server = await start(name);
    if (isPinned && server.process) pin(server.process.pid, '0');
    return openLoadGenerator(server);
  };
  return {
    variants: options.variants.map((name) => ({ name, open: () => open(name) })),
    loads,
    warmUp: buildLoad('warm-up', { ...oneCaller, callers: 8 }, seconds),
    baseline: 'direct',
  };
}

/**
 * Builds a load. The starts of callers are spread over the response time of the upstream. Random arrivals are the same for
 * all variants.
 */
function buildLoad(name: string, load: Chats & Senders, secondsMin: number): ChatLoad {
  const spreadSeconds = load.upstreamMs / 1000;
  const seconds = Math.max(secondsMin, minResponseTimes * spreadSeconds);
  if ('callers' in load) {
    const closed = { callers: load.callers, seconds, spreadSeconds };
    return { ...load, name, run: (send) => runClosedLoop(send, closed) };
  }
  const dueMs = spaceRandomly({ rate: load.arrivals, seconds });
  return {
    ...load,
    name,
    run: (send) => runOpenLoop(dueMs, (_, dueAtMs) => timeSince(dueAtMs, send)),
  };
}

/** Adds to the measured time of a chat how late it was sent. */
async function timeSince(dueAtMs: number, send: () => Promise<number>): Promise<number> {
  const lateMs = readClock() - dueAtMs;
  return lateMs + (await send());
}

/** Restricts all threads of a process to the cores. */
function pin(pid: number, cores: string): void {
  execFileSync('taskset', ['-a', '-c', '-p', cores, String(pid)], { stdio: 'ignore' });
}

function upstreamTarget(url: string, headers: Record<string, string> = {}): Target {
  const authorization = `Bearer ${upstreamKey}`;
  return { url, path: upstreamPath, headers: [{ authorization, ...headers }] };
}

/** Starts upstream.ts or pass-through.ts. */
async function startRelay(
  servers: Servers,
  name: 'upstream' | 'pass-through',
  env: Record<string, string>,
): Promise<Running & { url: string }> {
  const port = await freePort();
  const running = await nodeService({
    name,
    script: `dev/bench/${name}.ts`,
    logPath: buildLogPath(servers, name),
    env: { ...process.env, ...env, PORT: String(port) },
  }).start();
  return { ...running, url: `http://127.0.0.1:${port}` };
}

async function startPassThrough(servers: Servers, upstreamUrl: string): Promise<ChatServer> {
  const relay = await startRelay(servers, 'pass-through', { UPSTREAM_URL: upstreamUrl });
  const { pid, stop } = relay;
  return { target: upstreamTarget(relay.url), process: relay, pids: { relay: pid }, stop };
}

async function startOurApi(
  servers: Servers,
  gateway: Gateway,
  settings: { upstreamUrl: string; env: Record<string, string> },
): Promise<ChatServer> {
  const { url, api, pids, stop } = await startGateway(servers, gateway, {
    hasWorker: false,
    env: {
      OPENAI_API_KEY: upstreamKey,
      OPENAI_BASE_URL: `${settings.upstreamUrl}/v1`,
      ...settings.env,
    },
  });
  const headers = servers.apiKeys.map((key) => ({ authorization: `Bearer ${key}` }));
  return {
    target: { url, path: '/api/v1/chat/completions', headers },
    process: api,
    pids: { ...pids, postgres: servers.pids.postgres },
    stop,
  };
}

const portkey = {
  dependencies: { '@portkey-ai/gateway': '1.15.2' },
  overrides: { '@hono/node-server': '1.13.8' },
};

async function startPortkey(servers: Servers, upstreamUrl: string): Promise<ChatServer> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const modules = await installNpm('portkey', portkey);
  const script = join(modules, '@portkey-ai/gateway/build/start-server.js');
  const logPath = buildLogPath(servers, 'portkey');
  const running = await launch({
    command: process.execPath,
    args: [script, `--port=${port}`, '--headless'],
    env: { ...process.env, NODE_ENV: 'production' },
    logPath,
    cwd: servers.directory,
  });
  await untilReady(running, () => fetch(url), { name: 'Portkey', logPath });
  const extraHeaders = {
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `${upstreamUrl}/v1`,
  };
  const { pid, stop } = running;
  return {
    target: upstreamTarget(url, extraHeaders),
    process: running,
    pids: { portkey: pid },
    stop,
  };
}

/** Text by which the first token of a response is recognized. */
const firstToken = '"content":"word0';
/** Text that only a complete response contains. */
const endMarkers = { whole: '"finish_reason":"stop"', stream: 'data: [DONE]' };

/** Opens connections to a server, and returns a function that runs a load on it. */
function openLoadGenerator({ target, pids, stop }: ChatServer): OpenVariant<ChatLoad> {
  const timeoutMs = 60_000;
  const timeouts = { headersTimeout: timeoutMs, bodyTimeout: timeoutMs };
  const pool = new Pool(target.url, { connections: 512, keepAliveTimeout: 60_000, ...timeouts });
  const buildRequest = (load: ChatLoad, turn: number): Dispatcher.DispatchOptions => ({
    method: 'POST',
    path: target.path,
    headers: {
      ...target.headers[turn % Math.min(load.organizations, target.headers.length)],
      'content-type': 'application/json',
    },
    body: JSON.stringify({
      model,
      messages: [
        { role: 'system', content: 'You are brief.' },
        {
          role: 'user',
          content: `Tell me about lighthouses, after ${load.upstreamMs} ms, and where they stand.`,
        },
      ],
      max_tokens: 100,
      ...(load.isStream && { stream: true }),
    }),
  });
  let turn = 0;
  return {
    pids,
    async run(load) {
      const send = (): Promise<number> => sendAndTime(pool, buildRequest(load, (turn += 1)), load);
      const { results, ...failed } = await load.run(send);
      return { timesMs: { 'response or first token': results }, ...failed };
    },
    async stop() {
      await pool.destroy();
      await stop();
    },
  };
}

/**
 * Sends a request. Returns the milliseconds until the complete response, or until the first token of a stream.
 * @throws Error if the status is not 200 or the response is incomplete
 */
function sendAndTime(
  pool: Pool,
  options: Dispatcher.DispatchOptions,
  { isStream }: ChatLoad,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    let firstMs: number | null = null;
    let status = 0;
    let text = '';
    pool.dispatch(options, {
      // Without this method, undici assumes its old handler interface.
      onRequestStart() {},
      onResponseStart(_controller, statusCode) {
        status = statusCode;
      },
      onResponseData(_controller, bytes) {
        text += bytes.toString('latin1');
        if (firstMs === null && text.includes(firstToken)) firstMs = performance.now() - startedAt;
      },
      onResponseEnd() {
        const isComplete = text.includes(isStream ? endMarkers.stream : endMarkers.whole);
        if (status !== 200 || firstMs === null || !isComplete) {
          reject(new Error(`${status} ${text.slice(0, 200)}`));
        } else resolve(isStream ? firstMs : performance.now() - startedAt);
      },
      onResponseError(_controller, error) {
        reject(error);
      },
    });
  });
}
