/** Runtime of the Temporal SDK and the connection of workers. */
import { createServer } from 'node:net';
import { DefaultLogger, NativeConnection, Runtime } from '@temporalio/worker';
import { assert } from '../domain/errors.ts';
import type { Config, TemporalConfig } from '../platform/config.ts';
import type { Logger } from '../platform/logger.ts';
import { connectionOptions } from '../platform/temporal.ts';

/**
 * Installs the SDK's runtime once per process, with the process's logger and without signal
 * handlers. With `metricsAddress` (host:port) the SDK serves its metrics there.
 */
export function installRuntime(logger: Logger, metricsAddress?: string): void {
  Runtime.install({
    // The process itself decides when to drain (platform/process-life.ts).
    shutdownSignals: [],
    logger: new DefaultLogger('TRACE', ({ level, message, meta }) =>
      logger[pinoLevel[level]](meta ?? {}, message),
    ),
    telemetryOptions: {
      logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} },
      ...(metricsAddress !== undefined && {
        metrics: {
          prometheus: {
            bindAddress: metricsAddress,
            countersTotalSuffix: true,
            unitSuffix: true,
            useSecondsForDurations: true,
          },
        },
      }),
    },
  });
}

const pinoLevel = {
  TRACE: 'trace',
  DEBUG: 'debug',
  INFO: 'debug',
  WARN: 'warn',
  ERROR: 'error',
} as const;

/**
 * Installs the runtime. With METRICS_PORT the SDK serves its metrics on a free port of the loopback
 * interface, and the operations server adds them to its page.
 * @returns the URL of the SDK's metrics, or null without METRICS_PORT
 */
export async function installMeasuredRuntime(
  logger: Logger,
  config: Config,
): Promise<string | null> {
  if (config.METRICS_PORT === undefined) {
    installRuntime(logger);
    return null;
  }
  const address = `127.0.0.1:${await freeLoopbackPort()}`;
  installRuntime(logger, address);
  return `http://${address}/metrics`;
}

/** Finds a free port, because the SDK does not report the port that it chooses for port 0. */
async function freeLoopbackPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  await new Promise((resolve) => {
    server.close(resolve);
  });
  assert(typeof address === 'object' && address, 'a listening server has a port');
  return address.port;
}

/** Connects workers. The process has connected its client before, so the server can be reached. */
export async function connectWorkers(config: TemporalConfig): Promise<NativeConnection> {
  return NativeConnection.connect(await connectionOptions(config));
}
