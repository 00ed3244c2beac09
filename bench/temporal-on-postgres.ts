/** A Temporal server, built from its source, on a Postgres of its own: as clusters run it (docs/scaling.md). */
import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { Client } from 'pg';
import { freePort, isPortFree } from '../stack/free-port.ts';
import { startPostgres, type RunningPostgres } from '../stack/postgres.ts';
import { launch, logTail, type Running } from '../stack/running.ts';
import { dynamicConfig } from '../stack/temporal.ts';

interface Options {
  /** Where `temporal-server` and `temporal-sql-tool` are. */
  programs: string;
  directory: string;
  /** Where the frontend is to listen. */
  port: number;
  namespace: string;
}

interface TemporalOnPostgres {
  temporal: Running;
  postgres: RunningPostgres;
}

/** As `temporal server start-dev` keeps them. */
const retentionMs = 24 * 3_600_000;
/** Postgres's plugin; and how many shards: fixed for the life of a cluster, four are plenty for two cores. */
const pluginName = 'postgres12';
const numHistoryShards = 4;
const readyTimeoutMs = 60_000;

/**
 * Starts both and makes the namespace.
 * @throws Error with the end of the server's log when it does not come up
 */
export async function startTemporalOnPostgres(options: Options): Promise<TemporalOnPostgres> {
  const { programs, directory, port, namespace } = options;
  mkdirSync(directory, { recursive: true });
  const postgres = await startPostgres({
    dataDir: join(directory, 'postgres'),
    port: await freePort(),
    password: 'temporal-on-postgres',
    database: 'temporal',
  });
  try {
    await makeSchemas(programs, postgres.url);
    const configPath = join(directory, 'server.yaml');
    const dynamicPath = join(directory, 'dynamic.yaml');
    // JSON is YAML.
    writeFileSync(dynamicPath, JSON.stringify(dynamicSettings()));
    writeFileSync(configPath, JSON.stringify(await serverConfig(postgres.url, port, dynamicPath)));
    const logPath = join(directory, 'temporal.log');
    const temporal = await launch({
      command: join(programs, 'temporal-server'),
      args: ['--config-file', configPath, '--allow-no-auth', 'start'],
      logPath,
    });
    await makeNamespace(`127.0.0.1:${port}`, namespace).catch(async (error: unknown) => {
      await temporal.stop();
      throw new Error(`Temporal did not start: ${String(error)}\n${logTail(logPath)}`, {
        cause: error,
      });
    });
    return { temporal, postgres };
  } catch (error) {
    await postgres.stop();
    throw error;
  }
}

async function makeSchemas(programs: string, url: string): Promise<void> {
  const { hostname, port, username, password } = new URL(url);
  const admin = new Client({ connectionString: url });
  await admin.connect();
  await admin.query('CREATE DATABASE temporal_visibility');
  await admin.end();
  const tool = async (...args: string[]): Promise<void> => {
    const at = ['--endpoint', hostname, '--port', port, '--user', username];
    const how = ['--password', password, '--plugin', pluginName];
    await promisify(execFile)(join(programs, 'temporal-sql-tool'), [...at, ...how, ...args]);
  };
  for (const [database, schema] of [
    ['temporal', 'temporal'],
    ['temporal_visibility', 'visibility'],
  ] as const) {
    await tool('--database', database, 'setup-schema', '--version', '0.0');
    const name = `postgresql/v12/${schema}`;
    await tool('--database', database, 'update-schema', '--schema-name', name);
  }
}

/** `a.b=1` → `a.b: [{value: 1}]`, as the server's file wants it. */
function dynamicSettings(): Record<string, { value: unknown }[]> {
  return Object.fromEntries(
    dynamicConfig.map((setting) => {
      const [name = '', value = ''] = setting.split('=');
      return [name, [{ value: JSON.parse(value) as unknown }]];
    }),
  );
}

/** A free port that the server's membership table can hold: its column is a signed 16-bit integer. */
async function lowPort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_768);
    if (await isPortFree(port)) return port;
  }
}

async function listener(grpcPort?: number): Promise<object> {
  return {
    rpc: {
      grpcPort: grpcPort ?? (await freePort()),
      membershipPort: await lowPort(),
      bindOnLocalHost: true,
    },
  };
}

async function serverConfig(url: string, port: number, dynamicPath: string): Promise<object> {
  const { host, username, password } = new URL(url);
  const store = (databaseName: string, maxConns: number): object => ({
    sql: {
      pluginName,
      databaseName,
      connectAddr: host,
      connectProtocol: 'tcp',
      user: username,
      password,
      maxConns,
      maxIdleConns: maxConns,
      maxConnLifetime: '1h',
    },
  });
  return {
    log: { stdout: true, level: 'warn' },
    persistence: {
      defaultStore: 'default',
      visibilityStore: 'visibility',
      numHistoryShards,
      datastores: {
        default: store('temporal', 20),
        visibility: store('temporal_visibility', 5),
      },
    },
    global: { membership: { maxJoinDuration: '30s', broadcastAddress: '127.0.0.1' } },
    services: {
      frontend: await listener(port),
      matching: await listener(),
      history: await listener(),
      worker: await listener(),
    },
    clusterMetadata: {
      failoverVersionIncrement: 10,
      masterClusterName: 'active',
      currentClusterName: 'active',
      clusterInformation: {
        active: {
          enabled: true,
          initialFailoverVersion: 1,
          rpcName: 'frontend',
          rpcAddress: `127.0.0.1:${port}`,
        },
      },
    },
    dynamicConfigClient: { filepath: dynamicPath, pollInterval: '10s' },
  };
}

/** Makes the namespace as soon as the server answers, and waits until every part of it knows it. */
async function makeNamespace(address: string, namespace: string): Promise<void> {
  const deadlineMs = Date.now() + readyTimeoutMs;
  for (;;) {
    try {
      await attemptNamespace(address, namespace);
      return;
    } catch (error) {
      if (Date.now() > deadlineMs) throw error;
      await sleep(250);
    }
  }
}

async function attemptNamespace(address: string, namespace: string): Promise<void> {
  const connection = await Connection.connect({ address, connectTimeout: 2000 });
  try {
    const { workflowService } = connection;
    await workflowService.describeNamespace({ namespace }).catch(() =>
      workflowService.registerNamespace({
        namespace,
        workflowExecutionRetentionPeriod: msToTs(retentionMs),
      }),
    );
    await workflowService.listWorkflowExecutions({ namespace, pageSize: 1 });
  } finally {
    await connection.close();
  }
}
