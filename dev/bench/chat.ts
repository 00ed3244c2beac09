/** Chat through our API, a bare pass-through and Portkey's gateway, beside the upstream alone, in a closed loop. */
import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Pool, type Dispatcher } from 'undici';
import { freePort } from '../stack/free-port.ts';
import { nodeService } from '../stack/node-service.ts';
import { launch, untilReady, type Running } from '../stack/running.ts';
import { installNpm } from '../stack/tools.ts';
import { findGateway, startGateway, type Gateway } from './gateway.ts';
import { runClosedLoop, type ClosedLoad } from './load.ts';
import type { Benchmark, OpenWay } from './measurement.ts';
import { logPathOf, startServers, type Servers } from './servers.ts';
import type { Stops } from './stops.ts';

/** Names of the servers that are compared; `gateway@FOLDER` is the gateway of another checkout. */
export const chatWays = ['direct', 'pass-through', 'gateway', 'portkey'];

/** Options of the command. */
export interface ChatOptions {
  loads: string[];
  seconds: number;
  ways: string[];
  /** Whether gateways have the first core for themselves, and all else the others. */
  pin: boolean;
  env: Record<string, string>;
}

interface ChatLoad extends ClosedLoad {
  name: string;
  isStream: boolean;
  /** Time until the upstream responds, in milliseconds. */
  upstreamMs: number;
  /** Organizations that the callers belong to. */
  organizations: number;
}

const once = { callers: 1, isStream: false, upstreamMs: 0, organizations: 1 };
const crowd = { ...once, callers: 32, upstreamMs: 50 };
const loadTable = {
  caller: once,
  stream: { ...once, isStream: true },
  callers: crowd,
  streams: { ...crowd, isStream: true },
  organizations: { ...crowd, organizations: 100 },
  saturated: { ...once, callers: 64 },
  'slow-streams': { ...once, callers: 200, isStream: true, upstreamMs: 4000 },
} satisfies Record<string, Pick<ChatLoad, keyof typeof once>>;
/** Names of the loads. */
export const chatLoads = Object.keys(loadTable);
/** Shortest measurement, in durations of the upstream. */
const upstreamTimes = 4;

/** URL and headers of a server; one header for each organization. */
interface Target {
  url: string;
  path: string;
  headers: Record<string, string>[];
}

/** A server of chat; ours has Postgres beside it. */
interface ChatServer {
  target: Target;
  process: Running | null;
  pids: Record<string, number>;
  stop: () => Promise<void>;
}

/** Model whose upstream the benchmark sets. */
const model = 'gpt-5-nano';
const upstreamKey = 'bench-upstream-key';
const upstreamPath = '/v1/chat/completions';

/** Starts the servers and the upstream, and returns the benchmark. */
export async function planChat(
  options: ChatOptions,
  { directory, started }: { directory: string; started: Stops },
): Promise<Benchmark<ChatLoad>> {
  const { seconds, env } = options;
  const loads = Object.entries(loadTable)
    .filter(([name]) => options.loads.includes(name))
    .map(([name, load]) => loadOf(name, load, seconds));
  const isPinned = options.pin && process.platform === 'linux' && availableParallelism() > 1;
  // Child processes inherit the cores.
  if (isPinned) pin(process.pid, `1-${availableParallelism() - 1}`);
  const organizations = Math.max(1, ...loads.map((load) => load.organizations));
  const servers = await startServers(directory, started, organizations);
  const upstream = await startRelay(servers, 'upstream', {});
  started.push(upstream.stop);
  const { url: upstreamUrl } = upstream;
  const gateways = new Map<string, Gateway>();
  for (const name of options.ways) {
    if (name.startsWith('gateway')) gateways.set(name, await findGateway(name, servers));
  }
  const start = async (name: string): Promise<ChatServer> => {
    const gateway = gateways.get(name);
    if (gateway) return startOurs(servers, gateway, { upstreamUrl, env });
    if (name === 'portkey') return startPortkey(servers, upstreamUrl);
    if (name === 'pass-through') return startPassThrough(servers, upstreamUrl);
    const target = targetOf(upstreamUrl);
    return { target, process: null, pids: {}, stop: () => Promise.resolve() };
  };
  const open = async (name: string): Promise<OpenWay<ChatLoad>> => {
    const server = await start(name);
    if (isPinned && server.process) pin(server.process.pid, '0');
    return openChat(server);
  };
  return {
    ways: options.ways.map((name) => ({ name, open: () => open(name) })),
    loads,
    warmUp: loadOf('warm-up', { ...once, callers: 8 }, seconds),
    baseline: 'direct',
  };
}

/** Makes a load; callers who wait for a slow upstream start one after the other. */
function loadOf(name: string, load: typeof once, seconds: number): ChatLoad {
  const spreadSeconds = load.upstreamMs / 1000;
  return {
    ...load,
    name,
    seconds: Math.max(seconds, upstreamTimes * spreadSeconds),
    spreadSeconds,
  };
}

/** Pins a process, all its threads included. */
function pin(pid: number, cores: string): void {
  execFileSync('taskset', ['-a', '-c', '-p', cores, String(pid)], { stdio: 'ignore' });
}

function targetOf(url: string, headers: Record<string, string> = {}): Target {
  const authorization = `Bearer ${upstreamKey}`;
  return { url, path: upstreamPath, headers: [{ authorization, ...headers }] };
}

/** Starts one of the small servers beside this file. */
async function startRelay(
  servers: Servers,
  name: 'upstream' | 'pass-through',
  env: Record<string, string>,
): Promise<Running & { url: string }> {
  const port = await freePort();
  const running = await nodeService({
    name,
    script: `dev/bench/${name}.ts`,
    logPath: logPathOf(servers, name),
    env: { ...process.env, ...env, PORT: String(port) },
  }).start();
  return { ...running, url: `http://127.0.0.1:${port}` };
}

async function startPassThrough(servers: Servers, upstreamUrl: string): Promise<ChatServer> {
  const relay = await startRelay(servers, 'pass-through', { UPSTREAM_URL: upstreamUrl });
  const { pid, stop } = relay;
  return { target: targetOf(relay.url), process: relay, pids: { relay: pid }, stop };
}

async function startOurs(
  servers: Servers,
  gateway: Gateway,
  given: { upstreamUrl: string; env: Record<string, string> },
): Promise<ChatServer> {
  const { url, api, pids, stop } = await startGateway(servers, gateway, {
    hasWorker: false,
    env: {
      OPENAI_API_KEY: upstreamKey,
      OPENAI_BASE_URL: `${given.upstreamUrl}/v1`,
      ...given.env,
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
  const logPath = logPathOf(servers, 'portkey');
  const running = await launch({
    command: process.execPath,
    args: [script, `--port=${port}`, '--headless'],
    env: { ...process.env, NODE_ENV: 'production' },
    logPath,
    cwd: servers.directory,
  });
  await untilReady(running, () => fetch(url), { name: 'Portkey', logPath });
  const to = { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `${upstreamUrl}/v1` };
  const { pid, stop } = running;
  return { target: targetOf(url, to), process: running, pids: { portkey: pid }, stop };
}

/** Text of the first token in a stream. */
const token = '"content":"word0';
const ends = { whole: '"finish_reason":"stop"', stream: 'data: [DONE]' };

/** Opens the load generator of a server. */
function openChat({ target, pids, stop }: ChatServer): OpenWay<ChatLoad> {
  const timeoutMs = 60_000;
  const timeouts = { headersTimeout: timeoutMs, bodyTimeout: timeoutMs };
  const pool = new Pool(target.url, { connections: 512, keepAliveTimeout: 60_000, ...timeouts });
  const requestOf = (load: ChatLoad, turn: number): Dispatcher.DispatchOptions => ({
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
      const send = (): Promise<number> => exchange(pool, requestOf(load, (turn += 1)), load);
      const { latenciesMs, ...failed } = await runClosedLoop(send, load);
      return { timesMs: { 'answer or first token': latenciesMs }, ...failed };
    },
    async stop() {
      await pool.destroy();
      await stop();
    },
  };
}

/**
 * Sends a request. Resolves to the time until the answer, or the first token of a stream, in milliseconds; rejects unless the
 * response is whole.
 */
function exchange(
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
      // Without this method, undici uses its former handler interface.
      onRequestStart() {},
      onResponseStart(_controller, statusCode) {
        status = statusCode;
      },
      onResponseData(_controller, bytes) {
        text += bytes.toString('latin1');
        if (firstMs === null && text.includes(token)) firstMs = performance.now() - startedAt;
      },
      onResponseEnd() {
        const isWhole = text.includes(isStream ? ends.stream : ends.whole);
        if (status !== 200 || firstMs === null || !isWhole) {
          reject(new Error(`${status} ${text.slice(0, 200)}`));
        } else resolve(isStream ? firstMs : performance.now() - startedAt);
      },
      onResponseError(_controller, error) {
        reject(error);
      },
    });
  });
}
