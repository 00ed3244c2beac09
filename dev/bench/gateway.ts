/** Gateways under measurement: real processes, of this checkout or of another. */
import { join, resolve } from 'node:path';
import { Client } from 'pg';
import type * as Migrations from '../../platform/migrations.ts';
import type * as Demo from '../stack/demo.ts';
import { freePort } from '../stack/free-port.ts';
import { nodeService } from '../stack/node-service.ts';
import type { Running } from '../stack/running.ts';
import { demoCredits, logPathOf, type Servers } from './servers.ts';

/** The code of a gateway, and the database that it has. */
export interface Gateway {
  /** Part of its queue's names and its logs'. */
  name: string;
  /** Null is this one. */
  checkout: string | null;
  databaseUrl: string;
}

/** Processes of a gateway. */
export interface RunningGateway {
  url: string;
  api: Running;
  pids: Record<string, number>;
  stop: () => Promise<void>;
}

/** What `gateway` or `gateway@FOLDER` names. Another checkout may have other tables: it gets a database of its own. */
export async function findGateway(way: string, servers: Servers): Promise<Gateway> {
  const [, folder] = way.split('@');
  if (folder === undefined) {
    return { name: 'gateway', checkout: null, databaseUrl: servers.plan.databaseUrl };
  }
  const name = `other-${folder.replaceAll(/[^a-z0-9]+/gi, '-').toLowerCase()}`;
  const checkout = resolve(folder);
  return { name, checkout, databaseUrl: await makeDatabase(name, checkout, servers) };
}

async function makeDatabase(name: string, checkout: string, servers: Servers): Promise<string> {
  const { plan, secrets, apiKey } = servers;
  const client = new Client({ connectionString: plan.databaseUrl });
  await client.connect();
  await client.query(`CREATE DATABASE "${name}"`);
  await client.end();
  const databaseUrl = plan.databaseUrl.replace(/[^/]*$/, name);
  const { migrate }: typeof Migrations = await import(join(checkout, 'platform/migrations.ts'));
  await migrate(databaseUrl);
  const { ensureDemoOrganization }: typeof Demo = await import(join(checkout, 'dev/stack/demo.ts'));
  await ensureDemoOrganization({
    databaseUrl,
    keyPepper: secrets.keyPepper,
    demoCredits,
    apiKey,
  });
  return databaseUrl;
}

/** Starts an API, and a worker where there is to be one. */
export async function startGateway(
  servers: Servers,
  { name, checkout, databaseUrl }: Gateway,
  { env, hasWorker }: { env: Record<string, string>; hasWorker: boolean },
): Promise<RunningGateway> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const start = (kind: 'api' | 'worker'): Promise<Running> => {
    const program = servers.plan[kind];
    return nodeService({
      name: kind,
      script: checkout === null ? program.script : join(checkout, kind, 'main.ts'),
      logPath: logPathOf(servers, `${name}-${kind}`),
      env: {
        ...program.env,
        DATABASE_URL: databaseUrl,
        API_PORT: String(port),
        PUBLIC_BASE_URL: url,
        // Gateways share the servers; their queues must not meet.
        TASK_QUEUE_PREFIX: `${name}-`,
        RATE_LIMIT_PER_MINUTE: '100000000',
        POLL_RATE_LIMIT_PER_MINUTE: '100000000',
        ...env,
      },
    }).start();
  };
  // One after the other: processes that start side by side slow each other.
  const api = await start('api');
  if (!hasWorker) return { url, api, pids: { api: api.pid }, stop: api.stop };
  const worker = await start('worker').catch(async (error: unknown) => {
    await api.stop();
    throw error;
  });
  return {
    url,
    api,
    pids: { api: api.pid, worker: worker.pid },
    stop: async () => void (await Promise.all([api.stop(), worker.stop()])),
  };
}
