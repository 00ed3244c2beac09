/** What a chat is sent through: our API, a bare pass-through, Portkey's gateway, or nothing at all. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { Agent, request } from 'undici';
import type * as Migrations from '../../../platform/migrations.ts';
import type * as Demo from '../../stack/demo.ts';
import { freePort } from '../../stack/free-port.ts';
import { nodeService } from '../../stack/node-service.ts';
import { launch, type Running } from '../../stack/running.ts';
import { demoCredits, logPathOf, type Servers } from '../servers.ts';
import type { ChatTarget } from './load.ts';
import { installPeer } from '../peers/install.ts';

/** The ways to measure. */
export const chatGatewayKinds = ['direct', 'pass-through', 'gateway', 'portkey'] as const;
/** See `chatGatewayKinds`. */
export type ChatGatewayKind = (typeof chatGatewayKinds)[number];

/** Something that serves chat. */
export interface ChatGateway {
  target: ChatTarget;
  pids: Record<string, number>;
  stop: () => Promise<void>;
}

/** What gateways are started with. */
export interface ChatBench {
  servers: Servers;
  upstreamUrl: string;
  /** `taskset` lists; null where nothing is pinned. */
  gatewayCpus: string | null;
  /** A checkout whose API runs instead of this one's. */
  checkout: string | null;
  /** More environment for our API. */
  env: Record<string, string>;
}

/** A model whose upstream the benchmark sets. */
const model = 'gpt-5-nano';
const apiKey = 'bench-upstream-key';

/** Pins a process, all its threads included. */
export function pin(pid: number, cpus: string | null): void {
  if (cpus === null) return;
  execFileSync('taskset', ['-a', '-c', '-p', cpus, String(pid)], { stdio: 'ignore' });
}

/** Starts the mock provider, which takes so long to begin. */
export async function startUpstream(
  servers: Servers,
  providerSeconds: number,
): Promise<Running & { url: string }> {
  const port = await freePort();
  const running = await nodeService({
    name: 'upstream',
    script: 'dev/bench/chat/upstream.ts',
    logPath: logPathOf(servers, 'upstream'),
    env: { ...process.env, PORT: String(port), PROVIDER_SECONDS: String(providerSeconds) },
  }).start();
  return { ...running, url: `http://127.0.0.1:${port}` };
}

/** Starts one of the ways. */
export async function startChatGateway(
  kind: ChatGatewayKind,
  bench: ChatBench,
): Promise<ChatGateway> {
  const start = {
    direct: startDirect,
    'pass-through': startPassThrough,
    gateway: startOurs,
    portkey: startPortkey,
  }[kind];
  return start(bench);
}

function startDirect({ upstreamUrl }: ChatBench): Promise<ChatGateway> {
  const target = targetOf(upstreamUrl, { authorization: `Bearer ${apiKey}` });
  return Promise.resolve({ target, pids: {}, stop: () => Promise.resolve() });
}

function targetOf(
  origin: string,
  headers: Record<string, string>,
  path = '/v1/chat/completions',
): ChatTarget {
  return { origin, path, headers, model };
}

async function startPassThrough({
  servers,
  upstreamUrl,
  gatewayCpus,
}: ChatBench): Promise<ChatGateway> {
  const port = await freePort();
  const running = await nodeService({
    name: 'pass-through',
    script: 'dev/bench/chat/pass-through.ts',
    logPath: logPathOf(servers, 'pass-through'),
    env: { ...process.env, PORT: String(port), UPSTREAM_URL: upstreamUrl },
  }).start();
  pin(running.pid, gatewayCpus);
  return {
    target: targetOf(`http://127.0.0.1:${port}`, {}),
    pids: { relay: running.pid },
    stop: () => running.stop(),
  };
}

async function startOurs(bench: ChatBench): Promise<ChatGateway> {
  const { servers, upstreamUrl, checkout } = bench;
  const port = await freePort();
  const { script, env } = servers.plan.api;
  const running = await nodeService({
    name: 'gateway',
    script: checkout === null ? script : join(checkout, 'api/main.ts'),
    logPath: logPathOf(servers, checkout === null ? 'gateway' : 'gateway-checkout'),
    env: {
      ...env,
      ...(checkout !== null && { DATABASE_URL: await databaseOf(checkout, servers) }),
      API_PORT: String(port),
      PUBLIC_BASE_URL: `http://127.0.0.1:${port}`,
      API_WORKER: 'false',
      RATE_LIMIT_PER_MINUTE: '100000000',
      OPENAI_API_KEY: apiKey,
      OPENAI_BASE_URL: `${upstreamUrl}/v1`,
      ...bench.env,
    },
  }).start();
  pin(running.pid, bench.gatewayCpus);
  const headers = { authorization: `Bearer ${servers.apiKey}` };
  return {
    target: targetOf(`http://127.0.0.1:${port}`, headers, '/api/v1/chat/completions'),
    pids: { gateway: running.pid, postgres: servers.pids.postgres },
    stop: () => running.stop(),
  };
}

/** Another checkout may have other tables: its API gets a database of its own, made by its own code. */
async function databaseOf(checkout: string, servers: Servers): Promise<string> {
  const { databaseUrl: ownUrl } = servers.plan;
  const client = new Client({ connectionString: ownUrl });
  await client.connect();
  await client.query('CREATE DATABASE checkout');
  await client.end();
  const url = new URL(ownUrl);
  url.pathname = '/checkout';
  const databaseUrl = url.href;
  const { migrate }: typeof Migrations = await import(join(checkout, 'platform/migrations.ts'));
  await migrate(databaseUrl);
  const { ensureDemoOrganization }: typeof Demo = await import(join(checkout, 'dev/stack/demo.ts'));
  const { keyPepper } = servers.secrets;
  await ensureDemoOrganization({ databaseUrl, keyPepper, demoCredits, apiKey: servers.apiKey });
  return databaseUrl;
}

async function startPortkey(bench: ChatBench): Promise<ChatGateway> {
  const port = await freePort();
  const script = join(
    installPeer('portkey'),
    'node_modules/@portkey-ai/gateway/build/start-server.js',
  );
  const running = await launch({
    command: process.execPath,
    args: [script, `--port=${port}`, '--headless'],
    env: { ...process.env, NODE_ENV: 'production' },
    logPath: logPathOf(bench.servers, 'portkey'),
    cwd: bench.servers.directory,
  });
  const origin = `http://127.0.0.1:${port}`;
  await untilAnswering(origin);
  pin(running.pid, bench.gatewayCpus);
  const headers = {
    authorization: `Bearer ${apiKey}`,
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `${bench.upstreamUrl}/v1`,
  };
  return {
    target: targetOf(origin, headers),
    pids: { portkey: running.pid },
    stop: () => running.stop(),
  };
}

const startTimeoutMs = 60_000;

async function untilAnswering(origin: string): Promise<void> {
  const agent = new Agent();
  const deadline = performance.now() + startTimeoutMs;
  for (;;) {
    try {
      const answer = await request(origin, { dispatcher: agent });
      await answer.body.dump();
      return await agent.close();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(100);
    }
  }
}
