/** Servers that all variants share: Postgres, Temporal and the provider sandbox. */
import { join } from 'node:path';
import { migrate } from '../../platform/migrations.ts';
import { ensureDemoOrganization } from '../stack/demo.ts';
import { nodeService } from '../stack/node-service.ts';
import { startPostgres } from '../stack/postgres.ts';
import { loadSecrets, type Secrets } from '../stack/secrets.ts';
import { claimPorts, readSettings } from '../stack/settings.ts';
import { planStack, type StackPlan } from '../stack/stack-plan.ts';
import { findTemporalCli } from '../stack/temporal-cli.ts';
import { startTemporal } from '../stack/temporal.ts';
import type { Stops } from './stops.ts';

/** Running servers. */
export interface Servers {
  /** Addresses and environment of the servers, in the form that `npm start` uses. */
  plan: StackPlan;
  secrets: Secrets;
  /** One API key per organization. */
  apiKeys: string[];
  pids: { postgres: number; temporal: number };
  /** Directory of all data and logs; the caller of `startServers` deletes it. */
  directory: string;
}

/** Credits of each organization, more than a benchmark can spend. */
export const demoCredits = 1_000_000_000;

/** Starts the servers as `npm start` does: fsync is on, and Temporal stores its data in a file. */
export async function startServers(
  directory: string,
  started: Stops,
  organizations = 1,
): Promise<Servers> {
  const { plan, secrets } = await planPrivately(directory);
  if (!plan.temporal) throw new Error('the plan has no Temporal server');
  const postgres = await startPostgres(plan.postgres);
  started.push(postgres.stop);
  const executable = await findTemporalCli();
  const temporal = await startTemporal({ ...plan.temporal, uiPort: null, executable });
  started.push(temporal.stop);
  // The sandbox is not measured, so it should use little CPU and disk.
  const cheap = { SANDBOX_TINY_MEDIA: '1', SANDBOX_FSYNC: '0' };
  const env = { ...plan.sandbox.env, ...cheap };
  const sandbox = await nodeService({ ...plan.sandbox, env }).start();
  started.push(sandbox.stop);
  await migrate(plan.databaseUrl);
  const { databaseUrl } = plan;
  const { keyPepper } = secrets;
  const apiKeys: string[] = [];
  while (apiKeys.length < organizations) {
    const { apiKey } = await ensureDemoOrganization({ databaseUrl, keyPepper, demoCredits });
    apiKeys.push(apiKey);
  }
  const pids = { postgres: postgres.pid, temporal: temporal.pid };
  return { plan, secrets, apiKeys, pids, directory };
}

/** Plans a local stack in a separate directory, on free ports; ignores the user's environment variables. */
export async function planPrivately(
  directory: string,
  overrides: NodeJS.ProcessEnv = {},
): Promise<{ plan: StackPlan; secrets: Secrets }> {
  const anyPort = { API_PORT: '0', POSTGRES_PORT: '0', TEMPORAL_PORT: '0', SANDBOX_PORT: '0' };
  const defaults = { ...anyPort, TEMPORAL_UI_PORT: '0', DATA_DIR: directory };
  const settings = readSettings({ ...defaults, ...overrides });
  const secrets = loadSecrets(directory);
  const ports = await claimPorts(settings);
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'] };
  return { plan: planStack({ settings, secrets, ports, env }), secrets };
}

/** Returns the path of a process's log file. */
export function buildLogPath({ directory }: Pick<Servers, 'directory'>, name: string): string {
  return join(directory, 'logs', `${name}.log`);
}
