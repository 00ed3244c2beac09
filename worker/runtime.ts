/** Installs the runtime of the Temporal SDK, and connects workers. */
import { createServer } from 'node:net';
import { DefaultLogger, NativeConnection, Runtime } from '@temporalio/worker';
import { assert } from '../domain/errors.ts';
import type { Config, TemporalConfig } from '../platform/config.ts';
import type { Logger } from '../platform/logger.ts';
import { connectionOptions } from '../platform/temporal-connection.ts';

/**
 * Installs the runtime of the Temporal SDK, once per process, with the process's logger and without
 * signal handlers. The SDK serves its metrics at `metricsAddress` (host:port), if it is given.
 */
export function installRuntime(logger: Logger, metricsAddress?: string): void {
  Runtime.install({
    // The process itself handles signals (process/run-process.ts).
    shutdownSignals: [],
    logger: new DefaultLogger('TRACE', ({ level, message, meta }) => {
      // Each provider's worker runs activities only, so this warning is no sign of a fault.
      const isExpected = message.startsWith('No workflows registered');
      logger[isExpected ? 'debug' : pinoLevel[level]](meta ?? {}, message);
    }),
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
 * Installs the runtime of the Temporal SDK. If METRICS_PORT is set, the SDK serves its metrics on a
 * free loopback port, and the metrics server of the process includes them. Returns the URL of the
 * SDK's metrics; null if METRICS_PORT is not set.
 */
export async function installMeasuredRuntime(
  logger: Logger,
  config: Config,
): Promise<string | null> {
  if (config.METRICS_PORT === undefined) {
    installRuntime(logger);
    return null;
  }
  const address = `127.0.0.1:${await findFreeLoopbackPort()}`;
  installRuntime(logger, address);
  return `http://${address}/metrics`;
}

/**
 * Finds a free loopback port. Port 0 cannot be passed to the SDK, because the SDK does not report
 * which port it uses.
 */
async function findFreeLoopbackPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  await new Promise((resolve) => {
    server.close(resolve);
  });
  assert(typeof address === 'object' && address, 'the server has no port');
  return address.port;
}

/**
 * Connects the workers to Temporal. Does not wait until the server is ready, because the client of
 * the process is already connected.
 */
export async function connectWorkers(config: TemporalConfig): Promise<NativeConnection> {
  return NativeConnection.connect(await connectionOptions(config));
}
