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
  /** As it was asked for. */
  label: string;
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
  /** One job, answered with its result. @throws Error unless it completed */
  sync: () => Promise<void>;
  /** One job, answered with 202 and waited for by long-poll. @throws Error unless it completed */
  async: () => Promise<void>;
  /** Runs one job and returns its id. */
  sampleJob: () => Promise<string>;
  stop: () => Promise<void>;
}

const studioAnswer = z.object({ data: z.object({ jobId: z.string().optional() }) });
const jobAnswer = z.object({ data: z.object({ done: z.boolean(), status: z.string() }) });

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
    ...jobsOver({ urls, agent, apiKeys: servers.apiKeys }),
    async stop() {
      await agent.close();
      await stop();
    },
  };
}

interface Asked {
  url: string;
  apiKey: string;
  /** Of a POST; without one it is a GET. */
  body?: object;
}

function numbered(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => (index === 0 ? name : `${name}${index + 1}`));
}

function jobsOver(access: { urls: string[]; agent: Agent; apiKeys: string[] }) {
  const { urls, agent, apiKeys } = access;
  let turn = 0;

  async function ask(asked: Asked): Promise<unknown> {
    const { url, apiKey, body } = asked;
    const answer = await request(url, {
      dispatcher: agent,
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: body ? JSON.stringify(body) : null,
    });
    const text = await answer.body.text();
    if (answer.statusCode >= 300 || (answer.statusCode === 202 && !body)) {
      throw new Error(`${answer.statusCode} ${text.slice(0, 200)}`);
    }
    return JSON.parse(text);
  }
  /** APIs and organizations take turns. */
  function next(): { base: string; apiKey: string; body: Record<string, unknown> } {
    turn += 1;
    const base = `${urls[turn % urls.length]}/api/v1/studio`;
    const apiKey = apiKeys[Math.floor(turn / urls.length) % apiKeys.length] ?? '';
    return { base, apiKey, body: { prompt: `a lighthouse at dawn, number ${turn}` } };
  }
  async function startAsync(): Promise<{ look: Asked; jobId: string }> {
    const { base, apiKey, body } = next();
    const { data } = studioAnswer.parse(
      await ask({ url: `${base}/image/generate`, apiKey, body: { ...body, async: true } }),
    );
    if (data.jobId === undefined)
      throw new Error('an asynchronous job was not answered with its id');
    return { look: { url: `${base}/jobs/${data.jobId}?wait=20`, apiKey }, jobId: data.jobId };
  }
  async function untilDone(look: Asked): Promise<void> {
    for (;;) {
      const { data } = jobAnswer.parse(await ask(look));
      if (data.done && data.status !== 'completed') throw new Error(`the job ended ${data.status}`);
      if (data.done) return;
    }
  }
  return {
    async sync() {
      const { base, apiKey, body } = next();
      const { data } = studioAnswer.parse(
        await ask({ url: `${base}/image/generate`, apiKey, body }),
      );
      // A job that took longer than the wait is answered as a 202 would be.
      if (data.jobId !== undefined) throw new Error('a synchronous job was answered with 202');
    },
    async async() {
      await untilDone((await startAsync()).look);
    },
    async sampleJob() {
      const { look, jobId } = await startAsync();
      await untilDone(look);
      return jobId;
    },
  };
}
