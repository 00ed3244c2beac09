/** Starts the gateways to measure, from this checkout or from another. */
import { join, resolve } from 'node:path';
import { Client } from 'pg';
import type * as Migrations from '../../platform/migrations.ts';
import type * as Demo from '../stack/demo.ts';
import { freePort } from '../stack/free-port.ts';
import { nodeService } from '../stack/node-service.ts';
import type { Running } from '../stack/running.ts';
import { demoCredits, buildLogPath, type Servers } from './servers.ts';

/** Checkout and database of a gateway. */
export interface Gateway {
  /** Prefix of its task queues and log files. */
  name: string;
  /** Folder of the checkout; null for this one. */
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

/** Returns the gateway for `gateway` or `gateway@FOLDER`. The latter gets its own database, because its tables may differ. */
export async function findGateway(variant: string, servers: Servers): Promise<Gateway> {
  const [, folder] = variant.split('@');
  if (folder === undefined) {
    return { name: 'gateway', checkout: null, databaseUrl: servers.plan.databaseUrl };
  }
  const name = `other-${folder.replaceAll(/[^a-z0-9]+/gi, '-').toLowerCase()}`;
  const checkout = resolve(folder);
  return { name, checkout, databaseUrl: await makeDatabase(name, checkout, servers) };
}

async function makeDatabase(name: string, checkout: string, servers: Servers): Promise<string> {
  const { plan, secrets, apiKeys } = servers;
  const client = new Client({ connectionString: plan.databaseUrl });
  await client.connect();
  await client.query(`CREATE DATABASE "${name}"`);
  await client.end();
  const databaseUrl = plan.databaseUrl.replace(/[^/]*$/, name);
  const { migrate }: typeof Migrations = await import(join(checkout, 'platform/migrations.ts'));
  await migrate(databaseUrl);
  const { ensureDemoOrganization }: typeof Demo = await import(join(checkout, 'dev/stack/demo.ts'));
  const { keyPepper } = secrets;
  for (const apiKey of apiKeys) {
    await ensureDemoOrganization({ databaseUrl, keyPepper, demoCredits, apiKey });
  }
  return databaseUrl;
}

/** Starts an API, and a worker if `hasWorker`. */
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
      logPath: buildLogPath(servers, `${name}-${kind}`),
      env: {
        ...program.env,
        DATABASE_URL: databaseUrl,
        API_PORT: String(port),
        PUBLIC_BASE_URL: url,
        // Gateways share one Temporal server.
        TASK_QUEUE_PREFIX: `${name}-`,
        RATE_LIMIT_PER_MINUTE: '100000000',
        POLL_RATE_LIMIT_PER_MINUTE: '100000000',
        ...env,
      },
    }).start();
  };
  // Started one after the other, because parallel starts are slower.
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
