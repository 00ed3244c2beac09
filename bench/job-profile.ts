/** What one job is made of: its workflow's history, and the commits it costs Postgres. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { Client as PostgresClient } from 'pg';
import { runClosedLoop } from './closed-loop.ts';
import type { Gateway } from './gateway.ts';
import type { Servers } from './servers.ts';

/** Counts of one job. */
export interface JobProfile {
  variant: string;
  workflowTasks: number;
  activities: number;
  historyEvents: number;
  historyBytes: number;
  /** Event types in order, without `EVENT_TYPE_`. */
  events: string[];
  /** Transactions of the gateway's database per job, at a concurrency where group commit has little to join. */
  commitsPerJob: number;
}

/** Postgres publishes the statistics of an idle connection at the latest after this (PGSTAT_IDLE_INTERVAL). */
const statisticsDelayMs = 11_000;
const profileLoad = { concurrency: 2, seconds: 4 };

/** Profiles the jobs of each gateway; nothing else may run meanwhile. */
export async function profileJobs(
  servers: Servers,
  gateways: ReadonlyMap<string, Gateway>,
): Promise<JobProfile[]> {
  const profiles: JobProfile[] = [];
  let before = await commits(servers);
  for (const [variant, gateway] of gateways) {
    // One after the other: they share the counters.
    const { latenciesMs } = await runClosedLoop(gateway.sync, profileLoad);
    const after = await commits(servers);
    const commitsPerJob = (after - before) / Math.max(1, latenciesMs.length);
    profiles.push({ variant, ...(await profileHistory(servers, gateway)), commitsPerJob });
    before = after;
  }
  return profiles;
}

async function profileHistory(servers: Servers, gateway: Gateway) {
  const jobId = await gateway.sampleJob();
  const connection = await Connection.connect({ address: servers.plan.temporalAddress });
  try {
    const handle = new Client({ connection }).workflow.getHandle(jobId);
    await handle.result();
    const { events } = await handle.fetchHistory();
    const { historySize } = await handle.describe();
    const names = (events ?? []).map((event) => attributesNameOf(event));
    return {
      workflowTasks: names.filter((name) => name === 'workflowTaskCompleted').length,
      activities: names.filter((name) => name === 'activityTaskScheduled').length,
      historyEvents: names.length,
      historyBytes: historySize ?? 0,
      events: names,
    };
  } finally {
    await connection.close();
  }
}

/** An event is the one `…EventAttributes` that it carries. */
function attributesNameOf(event: object): string {
  const carried = Object.entries(event).find(
    ([name, value]) => name.endsWith('EventAttributes') && value !== null && value !== undefined,
  );
  return carried?.[0].replace('EventAttributes', '') ?? 'unknown';
}

async function commits(servers: Servers): Promise<number> {
  await sleep(statisticsDelayMs);
  const client = new PostgresClient({ connectionString: servers.plan.databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ commits: string }>(
      'SELECT xact_commit AS commits FROM pg_stat_database WHERE datname = current_database()',
    );
    return Number(rows[0]?.commits ?? 0);
  } finally {
    await client.end();
  }
}
