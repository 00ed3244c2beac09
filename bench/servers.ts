/** The servers that everything measured shares: Postgres, Temporal, the provider sandbox. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { migrate } from '../platform/migrations.ts';
import { ensureDemoOrganization } from '../stack/demo.ts';
import { freePort } from '../stack/free-port.ts';
import { nodeService } from '../stack/node-service.ts';
import { startPostgres } from '../stack/postgres.ts';
import type { Running } from '../stack/running.ts';
import { findTemporalCli } from '../stack/temporal-cli.ts';
import { startTemporal } from '../stack/temporal.ts';

/** Running servers. */
export interface Servers {
  databaseUrl: string;
  temporalAddress: string;
  sandboxUrl: string;
  falKey: string;
  keyPepper: string;
  /** A key of an organization that does not run out of credits. */
  apiKey: string;
  pids: { postgres: number; temporal: number; sandbox: number };
  /** Where everything is kept; whoever made it removes it. */
  directory: string;
  stop: () => Promise<void>;
}

/** The provider's own time for an image, milliseconds. */
export const providerLatencyMs = 50;
const demoCredits = 1_000_000_000;

/** Where everything is kept, and whether Temporal keeps its part in memory only. */
interface ServersOptions {
  directory: string;
  temporalInMemory: boolean;
}

/** Starts the servers with the durability of `npm start`: fsync on, Temporal's data in a file. */
export async function startServers(options: ServersOptions): Promise<Servers> {
  const { directory } = options;
  const started: Running[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(started.map((server) => server.stop()));
  };
  const keep = <Server extends Running>(server: Server): Server => {
    started.push(server);
    return server;
  };
  try {
    const postgres = keep(
      await startPostgres({ dataDir: join(directory, 'postgres'), port: await freePort() }),
    );
    const temporal = keep(
      await startTemporal({
        dataDir: options.temporalInMemory ? null : join(directory, 'temporal'),
        logPath: join(directory, 'logs', 'temporal.log'),
        port: await freePort(),
        uiPort: null,
        executable: await findTemporalCli(),
      }),
    );
    const falKey = randomSecret();
    const sandboxPort = await freePort();
    const sandbox = keep(await startSandbox({ directory, port: sandboxPort, falKey }));
    await migrate(postgres.url);
    const keyPepper = randomSecret();
    const demo = { databaseUrl: postgres.url, keyPepper, demoCredits };
    const { apiKey } = await ensureDemoOrganization(demo);
    return {
      databaseUrl: postgres.url,
      temporalAddress: temporal.address,
      sandboxUrl: `http://127.0.0.1:${sandboxPort}`,
      falKey,
      keyPepper,
      apiKey,
      pids: { postgres: postgres.pid, temporal: temporal.pid, sandbox: sandbox.pid },
      directory,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function startSandbox(sandbox: {
  directory: string;
  port: number;
  falKey: string;
}): Promise<Running> {
  return nodeService({
    name: 'sandbox',
    script: 'sandbox/main.ts',
    logPath: join(sandbox.directory, 'logs', 'sandbox.log'),
    env: {
      ...process.env,
      SANDBOX_PORT: String(sandbox.port),
      SANDBOX_DATA_DIR: join(sandbox.directory, 'sandbox'),
      SANDBOX_FAL_KEY: sandbox.falKey,
      SANDBOX_LATENCY_MS: String(providerLatencyMs),
      // The provider is not what is measured: it must cost as little as it can.
      SANDBOX_TINY_MEDIA: '1',
      SANDBOX_FSYNC: '0',
    },
  }).start();
}

/** A secret for one run. */
export function randomSecret(): string {
  return randomBytes(32).toString('base64url');
}
