/** The servers that everything measured shares: Postgres, Temporal, the provider sandbox. */
import { join } from 'node:path';
import { migrate } from '../../platform/migrations.ts';
import { ensureDemoOrganization } from '../stack/demo.ts';
import { nodeService } from '../stack/node-service.ts';
import { startPostgres } from '../stack/postgres.ts';
import type { Running } from '../stack/running.ts';
import { loadSecrets, type Secrets } from '../stack/secrets.ts';
import { claimPorts, readSettings } from '../stack/settings.ts';
import { planStack, type StackPlan } from '../stack/stack-plan.ts';
import { findTemporalCli } from '../stack/temporal-cli.ts';
import { startTemporal } from '../stack/temporal.ts';

/** Running servers. */
export interface Servers {
  /** What `npm start` would run, and how. */
  plan: StackPlan;
  secrets: Secrets;
  /** A key of an organization that does not run out of credits. */
  apiKey: string;
  pids: { postgres: number; temporal: number; sandbox: number };
  /** Where everything is kept; whoever made it removes it. */
  directory: string;
  stop: () => Promise<void>;
}

/** How to start the servers. */
interface ServersOptions {
  directory: string;
  /** The provider's own time for an image of a prompt that says nothing else, milliseconds. */
  latencyMs: number;
  /** Whether Temporal keeps its data in memory only. */
  temporalInMemory: boolean;
}

/** So many that no benchmark runs out of them. */
export const demoCredits = 1_000_000_000;

/** Starts the servers as `npm start` does, as durable: fsync on, Temporal's data in a file. */
export async function startServers(options: ServersOptions): Promise<Servers> {
  const { directory, latencyMs } = options;
  const { plan, secrets } = await planServers(directory);
  const started: Running[] = [];
  const stop = async (): Promise<void> => {
    for (const server of started.toReversed()) {
      // In turn, the last first.
      await server.stop();
    }
  };
  try {
    const postgres = await startPostgres(plan.postgres);
    started.push(postgres);
    const temporal = await startTemporal({
      ...plan.temporal,
      dataDir: options.temporalInMemory ? null : plan.temporal.dataDir,
      uiPort: null,
      executable: await findTemporalCli(),
    });
    started.push(temporal);
    const sandbox = await startSandbox(plan, latencyMs);
    started.push(sandbox);
    await migrate(plan.databaseUrl);
    const { databaseUrl } = plan;
    const { keyPepper } = secrets;
    const { apiKey } = await ensureDemoOrganization({ databaseUrl, keyPepper, demoCredits });
    const pids = { postgres: postgres.pid, temporal: temporal.pid, sandbox: sandbox.pid };
    return { plan, secrets, apiKey, pids, directory, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

type LocalPlan = StackPlan & { temporal: NonNullable<StackPlan['temporal']> };

/** The plan of `npm start` for a directory of our own, on free ports, deaf to the user's environment. */
async function planServers(directory: string): Promise<{ plan: LocalPlan; secrets: Secrets }> {
  const anyPort = { API_PORT: '0', POSTGRES_PORT: '0', TEMPORAL_PORT: '0', SANDBOX_PORT: '0' };
  const settings = readSettings({ ...anyPort, TEMPORAL_UI_PORT: '0', DATA_DIR: directory });
  const secrets = loadSecrets(directory);
  const plan = planStack({
    settings,
    secrets,
    ports: await claimPorts(settings),
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'] },
    programs: {
      sandbox: 'dev/sandbox/main.ts',
      migrate: 'platform/migrate.ts',
      api: 'api/main.ts',
      worker: 'worker/main.ts',
    },
  });
  const { temporal } = plan;
  if (!temporal) throw new Error('the plan has no Temporal server');
  return { plan: { ...plan, temporal }, secrets };
}

function startSandbox(plan: StackPlan, latencyMs: number): Promise<Running> {
  const env = {
    ...plan.sandbox.env,
    SANDBOX_LATENCY_MS: String(latencyMs),
    // The provider is not what is measured: it must cost as little as it can.
    SANDBOX_TINY_MEDIA: '1',
    SANDBOX_FSYNC: '0',
  };
  return nodeService({ ...plan.sandbox, env }).start();
}

/** Where the output of a process goes. */
export function logPathOf(servers: Servers, name: string): string {
  return join(servers.directory, 'logs', `${name}.log`);
}
