/** Runs a Temporal server on Postgres, configured as in docker-compose.yml. Its programs are built with Go. */
import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { isPortFree } from '../stack/free-port.ts';
import { dieWithParent, launch, untilReady, type Running } from '../stack/running.ts';
import { findTemporalCli } from '../stack/temporal-cli.ts';
import { probeTemporal } from '../stack/temporal.ts';
import { findGoProgram } from '../stack/tools.ts';
import { readServiceEnvironment, project } from './compose.ts';

/** Version of Temporal in docker-compose.yml. */
const version = 'v1.32.0';
const setup = join(project, 'deploy', 'temporal');
const services = ['FRONTEND', 'MATCHING', 'HISTORY', 'WORKER'];
const readyTimeoutMs = 90_000;

/** Paths of the executables. */
export interface TemporalPrograms {
  server: string;
  sqlTool: string;
  cli: string;
}

/** Addresses and log file of a Temporal server. */
export interface TemporalLocation {
  postgresPort: number;
  password: string;
  /** Port of the frontend service. */
  port: number;
  logPath: string;
}

/** Finds a free port below 32,768, because Temporal stores its ports in Postgres as signed 16-bit integers. */
export async function freeLowPort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 32_000);
    if (await isPortFree(port)) return port;
  }
}

/**
 * Finds the programs; builds those that are missing, which takes minutes.
 * @throws Error with a short message if a build fails
 */
export async function findTemporalPrograms(
  report: (line: string) => void,
): Promise<TemporalPrograms> {
  const find = (path: string, program: string) =>
    findGoProgram({ path: `go.temporal.io/server/cmd/${path}`, version, program }, report);
  // Built one after the other, because they share most of the compiled code.
  const server = await find('server', 'temporal-server');
  const sqlTool = await find('tools/sql', 'temporal-sql-tool');
  return { server, sqlTool, cli: await findTemporalCli({ report }) };
}

/** Creates the databases with the script that docker-compose.yml uses. */
export async function setUpSchema(
  programs: TemporalPrograms,
  location: TemporalLocation,
): Promise<void> {
  await runScript('setup-schema.sh', programs, {
    POSTGRES_HOST: '127.0.0.1',
    POSTGRES_PORT: String(location.postgresPort),
    POSTGRES_USER: 'postgres',
    SQL_PASSWORD: location.password,
  });
}

/** Creates the namespace and its search attributes with the script that docker-compose.yml uses. */
export async function createNamespace(programs: TemporalPrograms, port: number): Promise<void> {
  const address = `127.0.0.1:${port}`;
  const env = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: 'default' };
  await runScript('create-namespace.sh', programs, env);
  await retryUntilReady(() => probeTemporal(address, 'default'));
}

/** Sets the build whose workers run new and running jobs (docs/deploys.md). */
export async function setCurrentVersion(
  { cli }: TemporalPrograms,
  target: { port: number; deployment: string; build: string },
): Promise<void> {
  const chosen = ['--deployment-name', target.deployment, '--build-id', target.build];
  const command = ['worker', 'deployment', 'set-current-version', ...chosen, '--yes'];
  await retryUntilReady(() =>
    promisify(execFile)(cli, [...command, '--address', `127.0.0.1:${target.port}`]),
  );
}

/** Returns a function that starts a server. Its ports are chosen once, so they stay the same across restarts. */
export async function prepareTemporal(
  programs: TemporalPrograms,
  location: TemporalLocation,
): Promise<() => Promise<Running>> {
  const ports: Record<string, string> = { FRONTEND_HTTP_PORT: String(await freeLowPort()) };
  for (const service of services) {
    // Chosen one after the other, so that no port is chosen twice.
    ports[`${service}_GRPC_PORT`] = String(await freeLowPort());
    ports[`${service}_MEMBERSHIP_PORT`] = String(await freeLowPort());
  }
  const env = {
    ...readServiceEnvironment('temporal'),
    PATH: process.env['PATH'],
    ...ports,
    FRONTEND_GRPC_PORT: String(location.port),
    BIND_ON_IP: '127.0.0.1',
    POSTGRES_SEEDS: '127.0.0.1',
    DB_PORT: String(location.postgresPort),
    POSTGRES_USER: 'postgres',
    POSTGRES_PWD: location.password,
    DYNAMIC_CONFIG_FILE_PATH: join(setup, 'dynamic-config.yaml'),
    PROMETHEUS_ENDPOINT: `127.0.0.1:${await freeLowPort()}`,
    LOG_LEVEL: 'warn',
  };
  const [command, ...args] = [...dieWithParent('SIGTERM'), programs.server, 'start'];
  return async () => {
    const server = await launch({ command, args, env, logPath: location.logPath });
    const name = { name: 'Temporal', logPath: location.logPath };
    await untilReady(server, () => connect(location.port), name);
    return server;
  };
}

async function connect(port: number): Promise<void> {
  const { Connection } = await import('@temporalio/client');
  const address = `127.0.0.1:${port}`;
  await (await Connection.connect({ address, connectTimeout: 2000 })).close();
}

async function runScript(
  script: string,
  { sqlTool, cli }: TemporalPrograms,
  env: Record<string, string>,
): Promise<void> {
  const path = [dirname(sqlTool), dirname(cli), process.env['PATH'] ?? ''].join(delimiter);
  await promisify(execFile)('sh', [join(setup, script)], {
    env: { ...env, PATH: path },
    timeout: readyTimeoutMs,
  });
}

/**
 * Repeats a call until it succeeds.
 * @throws the last error after `readyTimeoutMs`
 */
async function retryUntilReady(call: () => Promise<unknown>): Promise<void> {
  const deadline = Date.now() + readyTimeoutMs;
  for (;;) {
    try {
      await call();
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await sleep(250);
    }
  }
}
