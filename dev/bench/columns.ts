/** What is measured beside each other, each in processes that live only while it is its turn. */
import { join, resolve } from 'node:path';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { startGateway, type Medium, type Gateway } from './gateway.ts';
import {
  runOpenLoop,
  untilEnded,
  type LoadResult,
  type OpenLoad,
  type JobTimes,
} from './open-loop.ts';
import { installPeer } from './peers/install.ts';
import type { Servers } from './servers.ts';

/** The kinds of columns; another checkout's gateway is `gateway@its-folder`. */
export const columnKinds = ['gateway', 'bare', 'floor', 'floor4', 'dbos'] as const;

/** One thing to measure. */
export interface Column {
  name: string;
  /** Starts its processes. */
  open: () => Promise<OpenColumn>;
}

/** A column at work. */
export interface OpenColumn {
  /** The processes that work for it, without provider and load generator. */
  pids: Record<string, number>;
  /** Runs a load, and returns when its jobs have ended. */
  run: (load: OpenLoad) => Promise<LoadResult>;
  stop: () => Promise<void>;
}

interface Wanted {
  columns: readonly string[];
  medium: Medium;
  /** Of the gateway: its processes and more environment. */
  apis: number;
  workers: number;
  env: Record<string, string>;
  report: (line: string) => void;
}

/** The wanted columns; DBOS is left out where npm cannot install it. */
export function chooseColumns(servers: Servers, wanted: Wanted): Column[] {
  return wanted.columns.flatMap((name, index): Column[] => {
    const [kind, checkout] = name.split('@');
    if (kind === 'gateway') {
      const variant = {
        name: `gateway-${index}`,
        checkout: checkout === undefined ? null : resolve(checkout),
        apis: wanted.apis,
        workers: wanted.workers,
        env: wanted.env,
      };
      return [{ name, open: () => openGateway(servers, { ...variant, medium: wanted.medium }) }];
    }
    if (kind === 'dbos') return dbosColumn(servers, wanted.report);
    return [{ name, open: () => openBare(servers, name) }];
  });
}

async function openGateway(
  servers: Servers,
  { medium, ...variant }: Parameters<typeof startGateway>[1] & { medium: Medium },
): Promise<OpenColumn> {
  const gateway = await startGateway(servers, variant);
  const { postgres, temporal } = servers.pids;
  const { databaseUrl } = servers.plan;
  return {
    pids: { temporal, ...gateway.pids, postgres },
    run: (load) => runGatewayLoad(gateway, { ...load, medium, databaseUrl }),
    stop: gateway.stop,
  };
}

async function openBare(servers: Servers, way: string): Promise<OpenColumn> {
  const bare = await startDriven(servers, { name: 'bare', script: 'bare/main.ts' });
  return {
    pids: { temporal: servers.pids.temporal, worker: bare.pid },
    run: (load) => bare.run(way, load),
    stop: bare.stop,
  };
}

function dbosColumn(servers: Servers, report: (line: string) => void): Column[] {
  let manifest: string;
  try {
    manifest = join(installPeer('dbos'), 'package.json');
  } catch (error) {
    report(`dbos is left out, npm could not install it: ${String(error)}`);
    return [];
  }
  const program = { name: 'dbos', script: 'dbos/main.ts', env: { DBOS_MANIFEST: manifest } };
  const open = async (): Promise<OpenColumn> => {
    const dbos = await startDriven(servers, program);
    return {
      pids: { worker: dbos.pid, postgres: servers.pids.postgres },
      run: (load) => dbos.run('dbos', load),
      stop: dbos.stop,
    };
  };
  return [{ name: 'dbos', open }];
}

/** The running process. */
interface DrivenProcess {
  pid: number;
  /** Runs a load of jobs, written in a way that the process knows by name. */
  run: (way: string, load: OpenLoad) => Promise<LoadResult>;
  stop: () => Promise<void>;
}

interface Program {
  name: string;
  /** Below this folder. */
  script: string;
  /** What it needs beside the servers' addresses. */
  env?: Record<string, string>;
}

/** Starts the process; its worker works when this returns. */
async function startDriven(servers: Servers, program: Program): Promise<DrivenProcess> {
  const { name, script, env = {} } = program;
  const child = fork(fileURLToPath(new URL(script, import.meta.url)), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: servers.plan.databaseUrl,
      TEMPORAL_ADDRESS: servers.plan.temporalAddress,
      ...env,
    },
  });
  const exited = once(child, 'exit').then(([code]) => {
    throw new Error(`the ${name} process exited with code ${code}`);
  });
  exited.catch(() => {});
  await Promise.race([once(child, 'message'), exited]);
  return {
    pid: child.pid ?? 0,
    async run(way, load) {
      child.send({ way, ...load });
      const [result]: LoadResult[] = await Promise.race([once(child, 'message'), exited]);
      if (!result) throw new Error(`the ${name} process answered nothing`);
      return result;
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGTERM');
      await gone;
    },
  };
}

interface JobRow {
  id: string;
  status: string;
  billing: string;
  created_at: Date;
  completed_at: Date | null;
}

/** A job that is answered and then forgotten, as a caller with a webhook does: nobody polls. */
async function runGatewayLoad(
  gateway: Gateway,
  load: OpenLoad & { medium: Medium; databaseUrl: string },
): Promise<LoadResult> {
  const { accepted, ...asked } = await runOpenLoop(load, () =>
    gateway.begin(load.medium, load.providerSeconds),
  );
  const database = new Client({ connectionString: load.databaseUrl });
  await database.connect();
  try {
    const ids = [...accepted.keys()];
    await untilEnded(load, async () => {
      const { rows } = await database.query<{ open: number }>(
        `SELECT count(*)::int AS open FROM job WHERE status = 'queued' AND id = ANY($1)`,
        [ids],
      );
      return rows[0]?.open ?? 0;
    });
    const { rows } = await database.query<JobRow>(
      `SELECT j.id, j.status, r.state AS billing, j.created_at, j.completed_at
        FROM job j JOIN reservation r ON r.id = j.id WHERE j.id = ANY($1)`,
      [ids],
    );
    const jobs = rows.flatMap((row) => timesOf(row, accepted));
    const odd = rows.find(({ status, billing }) => status !== 'completed' || billing !== 'charged');
    const failure = odd ? `job ${odd.id} is ${odd.status} and ${odd.billing}` : null;
    const lost = accepted.size - jobs.length;
    return { ...asked, jobs, lost, firstFailure: asked.firstFailure ?? failure };
  } finally {
    await database.end();
  }
}

function timesOf(row: JobRow, accepted: ReadonlyMap<string, number>): JobTimes[] {
  const askedAtMs = accepted.get(row.id);
  if (row.status !== 'completed' || row.billing !== 'charged') return [];
  if (askedAtMs === undefined || row.completed_at === null) return [];
  const [createdAtMs, endedAtMs] = [row.created_at.getTime(), row.completed_at.getTime()];
  return [{ askedAtMs, createdAtMs, endedAtMs }];
}
