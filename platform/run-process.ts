/** A process of the gateway from its start to its end, the same for API and worker. */
import { loadConfigOrExit, type Config, type KnownProviders } from './config.ts';
import type { DatabasePool } from './database.ts';
import { createLogger, type Logger } from './logger.ts';
import { assertSchemaCurrent } from './migrations.ts';
import { announceReady, drainOnExit } from './process-life.ts';
import { registerProcess, type GatewayProcess } from './process-register.ts';

/** What a process is started with. */
interface ProcessParts {
  config: Config;
  logger: Logger;
}

/** A process that serves. */
interface ServingProcess {
  services: { pool: DatabasePool };
  /** Its ports are told to the parent. */
  port?: number;
  metricsPort: number | null;
  /** Rejects when the process can no longer serve: the supervisor starts a new one. */
  failed?: Promise<void>;
  close: () => Promise<void>;
}

const drainTimeoutMs = 45_000;

/** What keeps a process from starting is told in one line; the log has where it happened. */
async function startOrExit(
  kind: GatewayProcess['kind'],
  logger: Logger,
  start: () => Promise<ServingProcess>,
): Promise<ServingProcess> {
  try {
    return await start();
  } catch (error) {
    logger.fatal({ error }, 'process.not_started');
    process.stderr.write(`${kind}: ${error instanceof Error ? error.message : String(error)}\n`);
    return process.exit(1);
  }
}

/** Starts the process, and ends it when it is asked to. */
export async function runProcess(
  kind: GatewayProcess['kind'],
  known: KnownProviders,
  start: (parts: ProcessParts) => Promise<ServingProcess>,
): Promise<void> {
  const config = loadConfigOrExit(known);
  const logger = createLogger(kind, config.LOG_LEVEL);
  const { services, failed, close, ...ports } = await startOrExit(kind, logger, async () => {
    await assertSchemaCurrent(config.DATABASE_URL);
    return start({ config, logger });
  });
  const drain = drainOnExit(async () => {
    await leave();
    await close();
  }, drainTimeoutMs);
  const leave = registerProcess({
    pool: services.pool,
    logger,
    kind,
    buildId: config.WORKER_BUILD_ID ?? null,
    onDrain: drain,
  });
  failed?.catch((error: unknown) => {
    logger.fatal({ error }, 'worker.failed');
    process.exit(1);
  });
  announceReady({ port: ports.port, metricsPort: ports.metricsPort });
}
