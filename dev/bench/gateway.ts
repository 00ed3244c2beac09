/** The gateway under measurement: real API and worker processes, and jobs over HTTP. */
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { z } from 'zod';
import { freePort } from '../stack/free-port.ts';
import { nodeService } from '../stack/node-service.ts';
import type { Running } from '../stack/running.ts';
import { logPathOf, type Servers } from './servers.ts';

/** One way to run the gateway. */
export interface Variant {
  /** Part of its task queues' names: lower-case letters, digits, dashes. */
  name: string;
  /** The checkout whose code runs; null is this one. */
  checkout: string | null;
  apis: number;
  workers: number;
  env: Record<string, string>;
}

/** A running gateway. */
export interface Gateway {
  /** `api`, `worker` (`api2` … when there are more) → process id. */
  pids: Record<string, number>;
  /** One synchronous image. @throws Error unless it completed */
  sync: () => Promise<void>;
  /**
   * Begins an asynchronous job whose provider takes so many seconds, and returns its id.
   * @throws Error unless it was accepted
   */
  begin: (medium: Medium, providerSeconds: number) => Promise<string>;
  stop: () => Promise<void>;
}

/** What a job makes. */
export type Medium = 'image' | 'video';

const studioAnswer = z.object({ data: z.object({ jobId: z.string().optional() }) });

/** Starts the processes of a variant. */
export async function startGateway(servers: Servers, variant: Variant): Promise<Gateway> {
  const started: Running[] = [];
  const pids: Record<string, number> = {};
  const urls: string[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(started.map((process) => process.stop()));
  };
  const start = async (kind: 'api' | 'worker', name: string): Promise<void> => {
    const port = kind === 'api' ? await freePort() : 0;
    if (kind === 'api') urls.push(`http://127.0.0.1:${port}`);
    const { script, env } = servers.plan[kind];
    const running = await nodeService({
      name,
      script: variant.checkout === null ? script : join(variant.checkout, kind, 'main.ts'),
      logPath: logPathOf(servers, `${variant.name}-${name}`),
      env: {
        ...env,
        API_PORT: String(port),
        // A worker's webhooks go to the first API.
        PUBLIC_BASE_URL: kind === 'api' ? urls.at(-1) : urls[0],
        // Variants share the servers; their queues must not meet.
        TASK_QUEUE_PREFIX: `${variant.name}-`,
        RATE_LIMIT_PER_MINUTE: '100000000',
        POLL_RATE_LIMIT_PER_MINUTE: '100000000',
        ...variant.env,
      },
    }).start();
    started.push(running);
    pids[name] = running.pid;
  };
  try {
    // One after the other: processes that start side by side slow each other.
    for (const name of numbered('api', variant.apis)) await start('api', name);
    for (const name of numbered('worker', variant.workers)) await start('worker', name);
  } catch (error) {
    await stop();
    throw error;
  }
  const agent = new Agent({ connections: 512, keepAliveTimeout: 30_000 });
  return {
    pids,
    ...jobsOver({ urls, agent, apiKey: servers.apiKey }),
    async stop() {
      await agent.close();
      await stop();
    },
  };
}

function numbered(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => (index === 0 ? name : `${name}${index + 1}`));
}

function jobsOver(access: {
  urls: string[];
  agent: Agent;
  apiKey: string;
}): Pick<Gateway, 'sync' | 'begin'> {
  const { urls, agent, apiKey } = access;
  let turn = 0;

  /** APIs take turns. @returns the id of a job that has not ended yet */
  async function ask(medium: Medium, slow: string, more: object): Promise<string | undefined> {
    turn += 1;
    const url = `${urls[turn % urls.length]}/api/v1/studio/${medium}/generate`;
    const answer = await request(url, {
      dispatcher: agent,
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: `a lighthouse at dawn, number ${turn}${slow}`, ...more }),
    });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`${answer.statusCode} ${text.slice(0, 200)}`);
    return studioAnswer.parse(JSON.parse(text)).data.jobId;
  }
  return {
    async sync() {
      // A job that took longer than the wait is answered as a 202 would be.
      const jobId = await ask('image', '', {});
      if (jobId !== undefined) throw new Error('a synchronous job was answered with 202');
    },
    async begin(medium, providerSeconds) {
      const jobId = await ask(medium, ` [[slow:${providerSeconds}s]]`, { async: true });
      if (jobId === undefined) throw new Error('an asynchronous job was not answered with its id');
      return jobId;
    },
  };
}
