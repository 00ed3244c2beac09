/** Measures what a job costs in a cluster: CPU time by process, and bytes that Postgres stores. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { readUsage } from '../bench/process-usage.ts';
import type { Cluster } from './cluster.ts';

/** Totals at a point in time. */
interface Totals {
  atMs: number;
  /** Totals by name. They only grow. */
  amounts: Record<string, number>;
  connections: number;
}

const databases = `
  SELECT d.datname AS name, pg_database_size(d.datname)::float AS bytes,
    (pg_current_wal_lsn() - '0/0'::pg_lsn)::float AS wal,
    (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections
  FROM pg_database d WHERE d.datname IN ('gateway', 'temporal', 'temporal_visibility')`;

/** Counts the writes to workflow executions in Temporal's database, each of which updates the workflow's row once. */
const shardWrites = `
  SELECT (n_tup_ins + n_tup_upd)::int AS writes FROM pg_stat_user_tables WHERE relname = 'executions'`;

async function query<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

async function readTotals({ pids, databaseUrl }: Cluster): Promise<Totals> {
  interface Row {
    name: string;
    bytes: number;
    wal: number;
    connections: number;
  }
  const rows = await query<Row>(databaseUrl, databases);
  const temporalUrl = databaseUrl.replace(/[^/]*$/, 'temporal');
  const [shards] = await query<{ writes: number }>(temporalUrl, shardWrites);
  const amounts: Record<string, number> = { 'shard writes': shards?.writes ?? 0 };
  for (const [name, { cpuMs }] of Object.entries(readUsage(pids()))) {
    if (name !== 'sandbox') amounts[`${name}, CPU ms`] = cpuMs;
  }
  for (const { name, bytes } of rows) amounts[`${name}, bytes`] = bytes;
  amounts['log of Postgres, bytes'] = rows[0]?.wal ?? 0;
  return { atMs: performance.now(), amounts, connections: rows[0]?.connections ?? 0 };
}

const idleMs = 30_000;

/** Meter that reports the costs of jobs, without the costs of an idle cluster. */
export interface CostMeter {
  /** Returns a line for each cost, per job and per second of an idle cluster. */
  read: (jobs: number) => Promise<string[]>;
}

/** Measures the idle cluster for half a minute, then starts to measure the jobs. */
export async function startMeter(cluster: Cluster): Promise<CostMeter> {
  const idle = await readTotals(cluster);
  await sleep(idleMs);
  const before = await readTotals(cluster);
  const perIdleMs = (name: string): number =>
    ((before.amounts[name] ?? 0) - (idle.amounts[name] ?? 0)) / (before.atMs - idle.atMs);
  return {
    async read(jobs) {
      const after = await readTotals(cluster);
      const lines = Object.entries(after.amounts).map(([name, amount]) => {
        const idleCost = perIdleMs(name) * (after.atMs - before.atMs);
        const perJob = (amount - (before.amounts[name] ?? 0) - idleCost) / jobs;
        return `${name}: ${perJob.toFixed(1)} a job, ${(perIdleMs(name) * 1000).toFixed(1)} an idle second`;
      });
      return [...lines, `connections to Postgres: ${after.connections}`];
    },
  };
}
