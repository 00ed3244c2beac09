/** Starts and stops a gateway process, the API or a worker. */
import {
  configExitStatus,
  loadConfigOrExit,
  type Config,
  type KnownProviders,
} from '../platform/config.ts';
import { ConfigError } from '../platform/variable-types.ts';
import { createLogger, type Logger } from '../platform/logger.ts';
import { assertSchemaCurrent } from '../platform/migrations.ts';
import type { ProcessKind } from '../platform/telemetry.ts';
import { chatProviders } from '../chat/chat-providers.ts';
import { providerDefinitions } from '../providers/provider-registry.ts';

/**
 * Providers whose variables `loadConfig` reads: the variables of the Studio providers and the names
 * of the chat providers.
 */
export const knownProviders: KnownProviders = {
  variables: Object.assign(
    {},
    ...[...providerDefinitions.values()].map(({ variables }) => variables),
  ),
  chat: chatProviders.map(({ name }) => name),
};

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

/** Notifies the parent process, if there is one, that this process is ready. */
export function announceReady(details: Record<string, unknown> = {}): void {
  process.send?.({ type: 'ready', ...details });
}

/**
 * Runs `drain` after SIGTERM, SIGINT or the end of the parent process, and then exits. Further
 * signals are ignored. If `drain` takes longer than `timeoutMs` milliseconds, the process exits
 * with status 1.
 */
export function drainOnExit(drain: () => Promise<void>, timeoutMs: number): void {
  let isDraining = false;
  const onSignal = (): void => {
    if (isDraining) return;
    isDraining = true;
    const exitTimer = setTimeout(() => process.exit(1), timeoutMs);
    exitTimer.unref();
    drain().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  if (process.send) process.on('disconnect', onSignal);
}

/**
 * Starts the process. If that fails, logs the error with its stack, prints one line, and exits: with
 * status 78 if a setting is wrong, such as a path, otherwise with 1.
 */
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
    return process.exit(error instanceof ConfigError ? configExitStatus : 1);
  }
}

/** Starts the process, and drains it on SIGTERM or SIGINT. */
export async function runProcess(
  kind: ProcessKind,
  start: (parts: ProcessParts) => Promise<ServingProcess>,
): Promise<void> {
  const config = loadConfigOrExit(knownProviders);
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
