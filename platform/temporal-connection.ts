/**
 * Connects to the Temporal server. The files of its TLS settings are read again every few seconds: a
 * certificate that was renewed gets a new connection, without a restart of the process.
 */
import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  Connection,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
  type ConnectionLike,
  type ConnectionOptions,
} from '@temporalio/client';
import { repeat } from './background.ts';
import { findProxy } from './connector.ts';
import type { Config, TemporalConfig } from './config.ts';
import type { Logger } from './logger.ts';
import { pathError } from './variable-types.ts';

/**
 * Reads the file whose path is the value of a variable. Returns undefined if the variable is not
 * set.
 * @throws ConfigError if the file cannot be read
 */
async function readFileOfVariable(
  config: TemporalConfig,
  name: `TEMPORAL_TLS_${'CERT' | 'KEY' | 'CA'}_PATH`,
): Promise<Buffer | undefined> {
  const path = config[name];
  try {
    return path === undefined ? undefined : await readFile(path);
  } catch (error) {
    throw pathError(name, error);
  }
}

/**
 * Returns the address and credentials of the Temporal server, for clients and workers.
 * @throws ConfigError if a certificate or key file cannot be read
 */
export async function connectionOptions(config: TemporalConfig) {
  const certificate = await readFileOfVariable(config, 'TEMPORAL_TLS_CERT_PATH');
  const key = await readFileOfVariable(config, 'TEMPORAL_TLS_KEY_PATH');
  const ca = await readFileOfVariable(config, 'TEMPORAL_TLS_CA_PATH');
  const tls = config.TEMPORAL_TLS || [certificate, ca, config.TEMPORAL_API_KEY].some(Boolean);
  const proxy = findProxy(config.TEMPORAL_ADDRESS, config);
  return {
    address: config.TEMPORAL_ADDRESS,
    ...(tls && {
      tls: {
        ...(ca && { serverRootCACertificate: ca }),
        ...(certificate && key && { clientCertPair: { crt: certificate, key } }),
      },
    }),
    ...(config.TEMPORAL_API_KEY !== undefined && { apiKey: config.TEMPORAL_API_KEY }),
    ...(proxy && { proxy: { type: 'http-connect' as const, ...readProxy(proxy) } }),
  };
}

/** Returns address and credentials of a proxy, as workers take them. */
function readProxy({ hostname, port, username, password }: URL) {
  return {
    targetHost: `${hostname}:${port || '80'}`,
    ...(username && {
      basicAuth: {
        username: decodeURIComponent(username),
        password: decodeURIComponent(password),
      },
    }),
  };
}

type OwnOptions = Awaited<ReturnType<typeof connectionOptions>>;

/** gRPC options to reconnect within a second after an outage; the default is up to two minutes. */
const channelArgs = {
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1000,
};

/** Interceptor of the calls of a connection. */
type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number];
/** Interval at which a connection that closes looks for scheduled retries, in milliseconds. */
const stopPollMs = 10;

/** Connects a client, whose library takes the address of the server behind a proxy as an argument. */
async function connect({ proxy, ...options }: OwnOptions): Promise<Connection> {
  const retries = createRetries();
  const { username, password } = proxy?.basicAuth ?? {};
  const connection = await Connection.connect({
    ...options,
    ...(proxy && { address: proxy.targetHost }),
    interceptors: [retries.interceptor],
    channelArgs: {
      ...channelArgs,
      // Otherwise the library would read variables of proxies by rules of its own.
      'grpc.enable_http_proxy': 0,
      ...(proxy && {
        'grpc.http_connect_target': `dns:${options.address}`,
        'grpc.default_authority': options.address,
      }),
      ...(username !== undefined && { 'grpc.http_connect_creds': `${username}:${password}` }),
    },
  });
  const close = connection.close.bind(connection);
  return Object.assign(connection, { close: () => retries.stop().then(close) });
}

/**
 * Makes the interceptor that retries calls, and the function that stops retries before the connection closes: a retry
 * on a closed connection throws in a timer, which would end the process.
 */
function createRetries() {
  const { retryableDecider, delayFunction } = defaultGrpcRetryOptions();
  let stopped = false;
  /** Number of calls, of their attempts, and of the retries that were scheduled. */
  const counts = { calls: 0, attempts: 0, scheduled: 0 };
  const retry = makeGrpcRetryInterceptor({
    retryableDecider: (attempt, status) => !stopped && retryableDecider(attempt, status),
    delayFunction(attempt, status) {
      counts.scheduled += 1;
      return delayFunction(attempt, status);
    },
  });
  const interceptor: Interceptor = (options, nextCall) => {
    counts.calls += 1;
    return retry(options, (attemptOptions) => {
      counts.attempts += 1;
      return nextCall(attemptOptions);
    });
  };
  return {
    interceptor,
    /** Waits until the scheduled retries have begun; no others are scheduled. */
    async stop(): Promise<void> {
      stopped = true;
      while (counts.scheduled > counts.attempts - counts.calls) await sleep(stopPollMs);
    },
  };
}

/**
 * Connects a command-line tool to the Temporal server.
 * @throws Error that contains the address if the server stays unreachable for ten seconds
 */
export async function openTemporal(config: TemporalConfig): Promise<Connection> {
  const options = await connectionOptions(config);
  try {
    return await connect(options);
  } catch (cause) {
    throw new Error(`Temporal at ${config.TEMPORAL_ADDRESS} cannot be reached`, { cause });
  }
}

/**
 * Wraps a connection, which clients keep, so that another one can take its place: `replace` sends
 * further requests over `next`, and closes the connection before.
 */
export function createReplaceableConnection(first: ConnectionLike) {
  let current = first;
  return {
    connection: {
      get workflowService() {
        return current.workflowService;
      },
      get operatorService() {
        return current.operatorService;
      },
      plugins: first.plugins,
      close: () => current.close(),
      ensureConnected: () => current.ensureConnected(),
      withDeadline: (deadline, call) => current.withDeadline(deadline, call),
      withMetadata: (metadata, call) => current.withMetadata(metadata, call),
      withAbortSignal: (signal, call) => current.withAbortSignal(signal, call),
    } satisfies ConnectionLike as ConnectionLike,
    replace(next: ConnectionLike): Promise<void> {
      const previous = current;
      current = next;
      return previous.close();
    },
  };
}

interface RenewalOptions {
  config: Config;
  /** Options of the open connection. */
  options: OwnOptions;
  /** Opens a connection with the options, and lets it replace the one before. */
  renew: (options: OwnOptions) => Promise<void>;
  logger: Logger;
}

/**
 * Renews a connection when a file of its options has changed. If that fails, for example because
 * only one of two files is new, the connection stays and the next pass tries again.
 * @returns the function that stops the passes
 */
export function renewOnChange({ config, renew, logger, ...first }: RenewalOptions) {
  let { options } = first;
  const pass = async (): Promise<void> => {
    try {
      const next = await connectionOptions(config);
      if (isDeepStrictEqual(next, options)) return;
      await renew(next);
      options = next;
      logger.info('temporal.certificate_renewed');
    } catch (error) {
      logger.error({ error }, 'temporal.certificate_not_renewed');
    }
  };
  return repeat(pass, { intervalMs: config.CERTIFICATE_CHECK_MS });
}

/** Connection of a process, and the function that closes it. */
interface OpenConnection {
  connection: ConnectionLike;
  close: () => Promise<void>;
}

/**
 * Connects a process to the Temporal server; retries while the server is unreachable. The connection
 * is renewed until it is closed.
 */
export async function connectTemporal(config: Config, logger: Logger): Promise<OpenConnection> {
  for (let waitMs = 250; ; waitMs = Math.min(waitMs * 2, 5000)) {
    // The files are read for each attempt, because the next one may have a renewed certificate.
    const options = await connectionOptions(config);
    try {
      const replaceable = createReplaceableConnection(await connect(options));
      const renew = async (next: OwnOptions) => replaceable.replace(await connect(next));
      const stop = renewOnChange({ config, options, renew, logger });
      const { connection } = replaceable;
      return { connection, close: () => stop().then(() => connection.close()) };
    } catch (error) {
      logger.warn({ error, address: config.TEMPORAL_ADDRESS, waitMs }, 'temporal.away');
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }
}
