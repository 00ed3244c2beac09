/** Starts and stops a gateway process; shared by API and worker. */
import { loadConfigOrExit, type Config, type KnownProviders } from '../platform/config.ts';
import { createLogger, type Logger } from '../platform/logger.ts';
import { assertSchemaCurrent } from '../platform/migrations.ts';
import { announceReady, drainOnExit } from './process-life.ts';
import type { ProcessKind } from '../platform/telemetry.ts';

/** Parameters of a process's start function. */
interface ProcessParts {
  config: Config;
  logger: Logger;
}

/** Running process. */
interface ServingProcess {
  /** Ports of the process, which are reported to its parent process. */
  port?: number;
  metricsPort: number | null;
  /**
   * Promise that rejects when the process can no longer serve requests. The process then exits, so
   * that its supervisor starts a new one.
   */
  failed?: Promise<void>;
  close: () => Promise<void>;
}

const drainTimeoutMs = 45_000;

/** Starts the process. If that fails, logs the error with its stack, prints one line, and exits. */
async function startOrExit(
  kind: ProcessKind,
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

/** Starts the process, and drains it on SIGTERM or SIGINT. */
export async function runProcess(
  kind: ProcessKind,
  known: KnownProviders,
  start: (parts: ProcessParts) => Promise<ServingProcess>,
): Promise<void> {
  const config = loadConfigOrExit(known);
  const logger = createLogger(kind, config.LOG_LEVEL);
  const { failed, close, ...ports } = await startOrExit(kind, logger, async () => {
    await assertSchemaCurrent(config.DATABASE_URL);
    return start({ config, logger });
  });
  drainOnExit(close, drainTimeoutMs);
  failed?.catch((error: unknown) => {
    logger.fatal({ error }, 'worker.failed');
    process.exit(1);
  });
  announceReady({ port: ports.port, metricsPort: ports.metricsPort });
}
