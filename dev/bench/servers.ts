/** The servers that everything measured shares: Postgres, Temporal, the provider sandbox. */
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
  /** What `npm start` would run, and how. */
  plan: StackPlan;
  secrets: Secrets;
  /** A key of an organization that does not run out of credits. */
  apiKey: string;
  pids: { postgres: number; temporal: number };
  /** Where everything is kept; whoever made it removes it. */
  directory: string;
}

/** So many that no benchmark runs out of them. */
export const demoCredits = 1_000_000_000;

/** Starts the servers as `npm start` does, as durable: fsync on, Temporal's data in a file. */
export async function startServers(directory: string, started: Stops): Promise<Servers> {
  const { plan, secrets } = await planPrivately(directory);
  if (!plan.temporal) throw new Error('the plan has no Temporal server');
  const postgres = await startPostgres(plan.postgres);
  started.push(postgres.stop);
  const executable = await findTemporalCli();
  const temporal = await startTemporal({ ...plan.temporal, uiPort: null, executable });
  started.push(temporal.stop);
  // The provider is not what is measured: it must cost as little as it can.
  const cheap = { SANDBOX_TINY_MEDIA: '1', SANDBOX_FSYNC: '0' };
  const env = { ...plan.sandbox.env, ...cheap };
  const sandbox = await nodeService({ ...plan.sandbox, env }).start();
  started.push(sandbox.stop);
  await migrate(plan.databaseUrl);
  const { databaseUrl } = plan;
  const { keyPepper } = secrets;
  const { apiKey } = await ensureDemoOrganization({ databaseUrl, keyPepper, demoCredits });
  const pids = { postgres: postgres.pid, temporal: temporal.pid };
  return { plan, secrets, apiKey, pids, directory };
}

/** The plan of `npm start` for a directory of our own, on free ports, without the user's environment. */
export async function planPrivately(
  directory: string,
  given: NodeJS.ProcessEnv = {},
): Promise<{ plan: StackPlan; secrets: Secrets }> {
  const anyPort = { API_PORT: '0', POSTGRES_PORT: '0', TEMPORAL_PORT: '0', SANDBOX_PORT: '0' };
  const any = { ...anyPort, TEMPORAL_UI_PORT: '0', DATA_DIR: directory };
  const settings = readSettings({ ...any, ...given });
  const secrets = loadSecrets(directory);
  const ports = await claimPorts(settings);
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'] };
  return { plan: planStack({ settings, secrets, ports, env }), secrets };
}

/** Where the output of a process goes. */
export function logPathOf({ directory }: Pick<Servers, 'directory'>, name: string): string {
  return join(directory, 'logs', `${name}.log`);
}
