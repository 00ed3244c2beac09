/** Studio benchmark: asynchronous jobs at a fixed rate, through the gateway and as a bare Temporal workflow. */
import { Client } from 'pg';
import { Agent, request } from 'undici';
import { z } from 'zod';
import { freePort } from '../stack/free-port.ts';
import { nodeService } from '../stack/node-service.ts';
import { findGateway, startGateway, type Gateway } from './gateway.ts';
import { runOpenLoop, spaceEvenly, untilEnded, type OpenLoad } from './load.ts';
import type { Benchmark, LoadResult, OpenVariant, Variant } from './measurement.ts';
import { buildLogPath, startServers, type Servers } from './servers.ts';
import type { Stops } from './stops.ts';

/** Names of the variants to compare; `gateway@FOLDER` is the gateway of another checkout. */
export const studioVariants = ['gateway', 'bare'];

/** Options of `bench studio`. */
export interface StudioOptions {
  providerSeconds: number;
  /** Jobs per second. */
  rate: number[];
  /** Duration of each load, in seconds. */
  seconds: number;
  variants: string[];
  /** Number of jobs that await an approval meanwhile; they are started in the warm-up. */
  waiting: number;
  env: Record<string, string>;
}

interface StudioLoad extends OpenLoad {
  name: string;
}

const warmUpSecondsMax = 10;
/** Provider time in seconds from which a job makes a video instead of an image. */
const minVideoSeconds = 60;

/** Starts the shared servers, and returns the benchmark. */
export async function planStudio(
  options: StudioOptions,
  place: { directory: string; started: Stops },
): Promise<Benchmark<StudioLoad>> {
  const servers = await startServers(place.directory, place.started);
  const { providerSeconds, seconds, rate: rates } = options;
  const variants: Variant<StudioLoad>[] = [];
  for (const name of options.variants) {
    if (name === 'bare') variants.push({ name, open: () => openBare(servers) });
    else {
      const gateway = await findGateway(name, servers);
      variants.push({ name, open: () => openGateway(servers, gateway, options) });
    }
  }
  return {
    variants,
    loads: rates.map((rate) => ({ name: `${rate}/s`, rate, seconds, providerSeconds })),
    warmUp: {
      name: 'warm-up',
      rate: rates[0] ?? 1,
      seconds: Math.min(seconds / 2, warmUpSecondsMax),
      providerSeconds: Math.min(providerSeconds, 1),
    },
    baseline: 'bare',
  };
}

/** When a successful job began and ended, in milliseconds since 1970. */
interface JobTimes {
  /** Time of the first step; in the gateway, the reservation. */
  createdAtMs: number;
  /** Time of the last step; in the gateway, the charge. */
  endedAtMs: number;
}

/** Interface to the variant that runs the jobs. */
interface Engine {
  /** Starts a job, and returns its id once it is accepted. */
  startJob: (load: OpenLoad) => Promise<string>;
  /** Returns the jobs that have ended, by id: their times if they succeeded, otherwise an error message. */
  findEnded: (ids: string[]) => Promise<Map<string, JobTimes | string>>;
}

/** Runs a load. The API is not polled, as if the caller used a webhook. */
async function runLoad({ startJob, findEnded }: Engine, load: OpenLoad): Promise<LoadResult> {
  const { results, failures, firstFailure } = await runOpenLoop(
    spaceEvenly(load),
    async (_, dueAtMs) => [await startJob(load), dueAtMs] as const,
  );
  const accepted = new Map(results);
  const ids = [...accepted.keys()];
  let ended = new Map<string, JobTimes | string>();
  await untilEnded(load, async () => {
    ended = await findEnded(ids);
    return accepted.size - ended.size;
  });
  const jobs = [...accepted].flatMap(([id, dueAtMs]) => {
    const times = ended.get(id);
    return typeof times === 'object' ? [{ dueAtMs, ...times }] : [];
  });
  const lost = accepted.size - jobs.length;
  const message =
    [...ended.values()].find((outcome) => typeof outcome === 'string') ?? 'the job did not end';
  return {
    timesMs: {
      'to creation': jobs.map((job) => job.createdAtMs - job.dueAtMs),
      'beyond the provider': jobs.map(
        (job) => job.endedAtMs - job.createdAtMs - load.providerSeconds * 1000,
      ),
    },
    failures: failures + lost,
    firstFailure: firstFailure ?? (lost > 0 ? message : null),
  };
}

const acceptedJob = z.object({ data: z.object({ jobId: z.string() }) });

async function openGateway(
  servers: Servers,
  gateway: Gateway,
  { env, waiting }: StudioOptions,
): Promise<OpenVariant<StudioLoad>> {
  const { url, pids, stop } = await startGateway(servers, gateway, { env, hasWorker: true });
  const { postgres, temporal } = servers.pids;
  const agent = new Agent({ connections: 512, keepAliveTimeout: 30_000 });
  const headers = {
    authorization: `Bearer ${servers.apiKeys[0] ?? ''}`,
    'content-type': 'application/json',
  };
  const post = async (path: string, body: object): Promise<string> => {
    const answer = await request(`${url}/api/v1/studio/${path}`, {
      dispatcher: agent,
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`${answer.statusCode} ${text.slice(0, 200)}`);
    return acceptedJob.parse(JSON.parse(text)).data.jobId;
  };
  const step = {
    id: 'art',
    use: 'image/generate',
    approve: true,
    body: { prompt: 'a lighthouse' },
  };
  for (let count = 0; count < waiting; count += 1)
    await post('pipelines', { steps: [step], async: true });
  let turn = 0;
  const engine: Engine = {
    async startJob({ providerSeconds }) {
      turn += 1;
      const medium = providerSeconds < minVideoSeconds ? 'image' : 'video';
      const prompt = `a lighthouse at dawn, number ${turn} [[slow:${providerSeconds}s]]`;
      return post(`${medium}/generate`, { prompt, async: true });
    },
    findEnded: (ids) => readJobs(gateway.databaseUrl, ids),
  };
  return {
    pids: { temporal, ...pids, postgres },
    run: (load) => runLoad(engine, load),
    async stop() {
      await agent.close();
      await stop();
    },
  };
}

interface JobRow {
  id: string;
  status: string;
  billing: string;
  created_at: Date;
  completed_at: Date;
}

async function readJobs(url: string, ids: string[]): Promise<Map<string, JobTimes | string>> {
  const database = new Client({ connectionString: url });
  await database.connect();
  try {
    const { rows } = await database.query<JobRow>(
      `SELECT j.id, j.status, r.state AS billing, j.created_at, j.completed_at
        FROM job j JOIN reservation r ON r.id = j.id
        WHERE j.id = ANY($1) AND j.completed_at IS NOT NULL`,
      [ids],
    );
    return new Map(
      rows.map(({ id, status, billing, created_at: created, completed_at: ended }) => [
        id,
        status === 'completed' && billing === 'charged'
          ? { createdAtMs: created.getTime(), endedAtMs: ended.getTime() }
          : `job ${id} is ${status} and ${billing}`,
      ]),
    );
  } finally {
    await database.end();
  }
}

const bareTimes = z.record(
  z.string(),
  z.object({ createdAtMs: z.number(), endedAtMs: z.number() }),
);

async function openBare(servers: Servers): Promise<OpenVariant<StudioLoad>> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const worker = await nodeService({
    name: 'bare',
    script: 'dev/bench/bare.ts',
    logPath: buildLogPath(servers, 'bare'),
    env: { ...process.env, PORT: String(port), TEMPORAL_ADDRESS: servers.plan.temporalAddress },
  }).start();
  const engine: Engine = {
    async startJob({ providerSeconds }) {
      const query = `?providerMs=${providerSeconds * 1000}`;
      const answer = await fetch(url + query, { method: 'POST' });
      if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
      return answer.text();
    },
    async findEnded(ids) {
      const times = bareTimes.parse(await (await fetch(url)).json());
      return new Map(ids.flatMap((id) => (times[id] ? [[id, times[id]]] : [])));
    },
  };
  return {
    pids: { temporal: servers.pids.temporal, worker: worker.pid },
    run: (load) => runLoad(engine, load),
    stop: worker.stop,
  };
}
