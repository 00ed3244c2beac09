/**
 * Bulk benchmark: bulk jobs and pipelines next to the same work as single jobs, and requests of
 * another organization while a bulk job is accepted or runs, next to the same requests alone.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { Agent, request } from 'undici';
import { z } from 'zod';
import { findGateway, startGateway, type Gateway } from './gateway.ts';
import type { Benchmark, LoadResult, OpenVariant } from './measurement.ts';
import { startServers, type Servers } from './servers.ts';
import type { Stops } from './stops.ts';

/** Loads of the benchmark. */
export const bulkLoads = ['acceptance', 'neighbor', 'pipelines', 'items', 'chats'];

/** Options of `bench bulk`. */
export interface BulkOptions {
  loads: string[];
  /** Number of pictures that run, of short chats that run, of items that are only accepted, and that wait beside the jobs of a neighbor. */
  items: number;
  chats: number;
  accepted: number;
  waiting: number;
  /** Number of pipelines, and of a neighbor's jobs. */
  pipelines: number;
  jobs: number;
  concurrency: number;
  env: Record<string, string>;
}

interface BulkLoad {
  name: string;
  count: number;
}

/** Starts the shared servers, and returns the benchmark. */
export async function planBulk(
  options: BulkOptions,
  place: { directory: string; started: Stops },
): Promise<Benchmark<BulkLoad>> {
  const servers = await startServers(place.directory, place.started, 2);
  const gateway = await findGateway('gateway', servers);
  const counts: Record<string, number> = {
    acceptance: options.accepted,
    neighbor: options.jobs,
    pipelines: options.pipelines,
    items: options.items,
    chats: options.chats,
  };
  return {
    variants: ['bulk', 'single'].map((name) => ({
      name,
      open: () => openVariant({ servers, gateway, options, isBulk: name === 'bulk' }),
    })),
    loads: options.loads.map((name) => ({ name, count: counts[name] ?? 0 })),
    warmUp: { name: 'items', count: Math.min(100, options.items) },
    baseline: 'single',
  };
}

/** Organization that sends requests, and the connections of the load generator. */
interface Caller {
  url: string;
  key: string;
  agent: Agent;
}

interface Bench {
  /** Organization of the measured work, and another. */
  owner: Caller;
  neighbor: Caller;
  /** Waits for the end of a job without requests to the API. */
  untilEnded: (jobId: string) => Promise<void>;
  /** Returns the durations of the jobs of a bulk job, in milliseconds. */
  readItemTimes: (bulkId: string) => Promise<number[]>;
  options: BulkOptions;
}

async function openVariant({
  servers,
  gateway,
  options,
  isBulk,
}: {
  servers: Servers;
  gateway: Gateway;
  options: BulkOptions;
  isBulk: boolean;
}): Promise<OpenVariant<BulkLoad>> {
  const { url, pids, stop } = await startGateway(servers, gateway, {
    env: options.env,
    hasWorker: true,
  });
  const agent = new Agent({ connections: 64, headersTimeout: 600_000 });
  const [owner, neighbor] = servers.apiKeys.map((key) => ({ url, key, agent }));
  if (!owner || !neighbor) throw new Error('the benchmark has two organizations');
  const ends = await watchDatabase(gateway.databaseUrl);
  const bench: Bench = { owner, neighbor, ...ends, options };
  const runs = isBulk ? bulkRuns : singleRuns;
  return {
    pids: { temporal: servers.pids.temporal, ...pids, postgres: servers.pids.postgres },
    run: ({ name, count }) => runs[name]?.(bench, count) ?? Promise.reject(new Error(name)),
    async stop() {
      await Promise.all([agent.close(), ends.stopListening()]);
      await stop();
    },
  };
}

const notification = z.object({ event: z.string(), id: z.string() });

/** Watches settled jobs by the notifications and rows of the database. */
async function watchDatabase(databaseUrl: string) {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const waiting = new Map<string, () => void>();
  const ended = new Set<string>();
  client.on('notification', ({ payload = '' }) => {
    const { event, id } = notification.parse(JSON.parse(payload));
    if (event !== 'done') return;
    ended.add(id);
    waiting.get(id)?.();
  });
  await client.query('LISTEN studio_job');
  return {
    untilEnded: (jobId: string): Promise<void> =>
      ended.has(jobId)
        ? Promise.resolve()
        : new Promise((resolve) => {
            waiting.set(jobId, resolve);
          }),
    async readItemTimes(bulkId: string): Promise<number[]> {
      const { rows } = await client.query<{ ms: number }>(
        `SELECT 1000 * extract(epoch FROM ended_at - claimed_at)::float8 AS ms
          FROM bulk_item WHERE bulk_id = $1 AND state = 'completed'`,
        [bulkId],
      );
      return rows.map(({ ms }) => ms);
    },
    stopListening: () => client.end(),
  };
}

/** Sends a request and returns the `data` of its response. @throws Error unless its status is 2xx */
async function send<Data>(
  { url, key, agent }: Caller,
  [path, body]: [path: string, body?: object | string],
  schema: z.ZodType<Data>,
): Promise<Data> {
  const isText = typeof body === 'string';
  const response = await request(`${url}/api/v1${path}`, {
    dispatcher: agent,
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': isText ? 'application/x-ndjson' : 'application/json',
    },
    ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
  });
  const text = await response.body.text();
  if (response.statusCode >= 300) {
    throw new Error(`${path}: ${response.statusCode} ${text.slice(0, 200)}`);
  }
  const { data } = z.object({ data: z.unknown().optional() }).parse(JSON.parse(text));
  return schema.parse(data);
}

const jobAccepted = z.object({ jobId: z.string() });
const pictures = z.object({ images: z.tuple([z.object({ url: z.string() })]) });
const edited = z.object({ url: z.string() });
const jobState = z.object({ done: z.boolean(), status: z.string(), result: z.unknown() });
const bulkState = z.object({
  bulkId: z.string(),
  done: z.boolean(),
  counts: z.object({ running: z.number(), completed: z.number(), failed: z.number() }),
});

const millisecondsSince = (startedAt: number): number => performance.now() - startedAt;

type Item = (index: number) => { use: string; body: object };
const picture: Item = (index) => ({
  use: 'image/generate',
  body: { prompt: `a lighthouse, number ${index}` },
});
const shortChat = { model: 'gpt-5-nano', messages: [{ role: 'user', content: 'ping' }] };
const chat: Item = () => ({ use: 'chat', body: { ...shortChat, max_tokens: 100 } });

/** Starts a bulk job. Returns its id and the time until it was accepted. */
async function startBulk({ owner, options }: Bench, count: number, item = picture) {
  const { concurrency } = options;
  const lines = Array.from({ length: count }, (_, index) => JSON.stringify(item(index)));
  const body = [JSON.stringify({ options: { concurrency } }), ...lines].join('\n');
  const startedAt = performance.now();
  const { bulkId } = await send(owner, ['/studio/bulk', body], bulkState);
  return { bulkId, acceptanceMs: millisecondsSince(startedAt) };
}

async function untilBulkEnded({ owner }: Bench, bulkId: string) {
  for (;;) {
    const bulk = await send(owner, [`/studio/bulk/${bulkId}?wait=60`], bulkState);
    if (bulk.done) return bulk;
  }
}

async function cancelBulk(bench: Bench, bulkId: string): Promise<void> {
  await send(bench.owner, [`/studio/bulk/${bulkId}/cancel`, {}], bulkState);
  await untilBulkEnded(bench, bulkId);
}

/** Runs jobs in a closed loop until `count` have begun, and returns the duration of each. */
async function runJobs(
  job: (turn: number) => Promise<void>,
  { count, callers }: { count: number; callers: number },
): Promise<LoadResult> {
  let turn = 0;
  const result: LoadResult = { timesMs: { total: [] }, failures: 0, firstFailure: null };
  const runNext = async (): Promise<void> => {
    while (turn < count) {
      turn += 1;
      const startedAt = performance.now();
      try {
        await job(turn);
        result.timesMs['total']?.push(millisecondsSince(startedAt));
      } catch (error) {
        result.failures += 1;
        result.firstFailure ??= String(error);
      }
    }
  };
  await Promise.all(Array.from({ length: callers }, runNext));
  return result;
}

/** Runs chats of the neighbor, one after the other, until `isOver` returns true. */
async function runChats({ neighbor }: Bench, isOver: () => boolean): Promise<LoadResult> {
  const timesMs: number[] = [];
  while (!isOver()) {
    const startedAt = performance.now();
    await send(neighbor, ['/chat', shortChat], z.unknown());
    timesMs.push(millisecondsSince(startedAt));
  }
  return { timesMs: { total: timesMs }, failures: 0, firstFailure: null };
}

const pollIntervalMs = 1000;

/** Starts a job, and polls it each second until it has ended. Returns its result. */
async function runPolled(caller: Caller, path: string, body: object): Promise<unknown> {
  const { jobId } = await send(caller, [path, { ...body, async: true }], jobAccepted);
  for (;;) {
    await sleep(pollIntervalMs);
    const { done, status, result } = await send(caller, [`/studio/jobs/${jobId}`], jobState);
    if (done && status !== 'completed') throw new Error(`${path}: ${jobId} is ${status}`);
    if (done) return result;
  }
}

const prompt = (turn: number): string => `a lighthouse at dawn, number ${turn}`;
const pipelineSteps = (turn: number): object[] => [
  { id: 'art', use: 'image/generate', body: { prompt: prompt(turn) } },
  { id: 'large', use: 'image/upscale', body: { imageUrl: { $from: 'art' } }, maxCredits: 100 },
  { id: 'cut', use: 'image/remove-background', body: { imageUrl: { $from: 'large' } } },
];
/** Number of clients that run pipelines, or the same jobs one after the other. */
const pipelineCallers = 4;

type Run = (bench: Bench, count: number) => Promise<LoadResult>;

/** Sends synchronous jobs of the neighbor, one after the other. */
const runNeighborJobs: Run = ({ neighbor }, count) =>
  runJobs(
    async (turn) => {
      await send(neighbor, ['/studio/image/generate', { prompt: prompt(turn) }], z.unknown());
    },
    { count, callers: 1 },
  );

const bulkRuns: Record<string, Run> = {
  async acceptance(bench, count) {
    let isAccepted = false;
    const accepting = startBulk(bench, count).finally(() => {
      isAccepted = true;
    });
    const chats = await runChats(bench, () => isAccepted);
    const { bulkId, acceptanceMs } = await accepting;
    await cancelBulk(bench, bulkId);
    return { ...chats, timesMs: { ...chats.timesMs, acceptance: [acceptanceMs] } };
  },
  async neighbor(bench, count) {
    const { bulkId, acceptanceMs } = await startBulk(bench, bench.options.waiting);
    // The first items have begun.
    await sleep(2000);
    const result = await runNeighborJobs(bench, count);
    await cancelBulk(bench, bulkId);
    return { ...result, timesMs: { ...result.timesMs, acceptance: [acceptanceMs] } };
  },
  pipelines: ({ owner }, count) =>
    runJobs(
      async (turn) => {
        await runPolled(owner, '/studio/pipelines', { steps: pipelineSteps(turn) });
      },
      { count, callers: pipelineCallers },
    ),
  items: (bench, count) => runItems(bench, count, picture),
  chats: (bench, count) => runItems(bench, count, chat),
};

/** Runs a bulk job to its end. */
async function runItems(bench: Bench, count: number, item: Item): Promise<LoadResult> {
  const { bulkId, acceptanceMs } = await startBulk(bench, count, item);
  const { counts } = await untilBulkEnded(bench, bulkId);
  return {
    timesMs: { total: await bench.readItemTimes(bulkId), acceptance: [acceptanceMs] },
    failures: count - counts.completed,
    firstFailure: counts.completed < count ? `${counts.failed} items failed` : null,
  };
}

/** Duration of the chats without a bulk job, in milliseconds. */
const chatsMs = 5000;

const singleRuns: Record<string, Run> = {
  acceptance(bench) {
    const endsAt = performance.now() + chatsMs;
    return runChats(bench, () => performance.now() > endsAt);
  },
  neighbor: runNeighborJobs,
  pipelines: ({ owner }, count) =>
    runJobs(
      async (turn) => {
        const art = await runPolled(owner, '/studio/image/generate', { prompt: prompt(turn) });
        const [{ url }] = pictures.parse(art).images;
        const large = edited.parse(
          await runPolled(owner, '/studio/image/upscale', { imageUrl: url }),
        );
        await runPolled(owner, '/studio/image/remove-background', { imageUrl: large.url });
      },
      { count, callers: pipelineCallers },
    ),
  items: ({ owner, untilEnded, options }, count) =>
    runJobs(
      async (turn) => {
        const body = { prompt: prompt(turn), async: true };
        const { jobId } = await send(owner, ['/studio/image/generate', body], jobAccepted);
        await untilEnded(jobId);
      },
      { count, callers: options.concurrency },
    ),
  chats: ({ owner, options }, count) =>
    runJobs(
      async () => {
        await send(owner, ['/chat', { ...shortChat, max_tokens: 100 }], z.unknown());
      },
      { count, callers: options.concurrency },
    ),
};
