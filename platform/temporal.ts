/** Temporal: runtime, connection, what the namespace must know, and what travels with a workflow (domain/request-context.ts). */
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import {
  Client,
  type WorkflowClientInterceptor,
  type WorkflowStartInput,
} from '@temporalio/client';
import {
  DefaultLogger,
  NativeConnection,
  Runtime,
  type NativeConnectionOptions,
} from '@temporalio/worker';
import { context, propagation, ROOT_CONTEXT, SpanKind, type Context } from '@opentelemetry/api';
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import { assert } from '../domain/errors.ts';
import type { Config, TemporalConfig } from './config.ts';
import type { Logger } from './logger.ts';
import { dataConverterOf } from './payload-codec.ts';
import { inSpan } from './telemetry.ts';
import { requestContextHeader, type RequestContext } from '../domain/request-context.ts';
import { correlation } from './correlation.ts';

/**
 * Installs the SDK's runtime once per process: its logs go to ours, its signal handling is off. With
 * `metricsAddress` (host:port) it serves its own metrics there.
 */
export function installRuntime(logger: Logger, metricsAddress?: string): void {
  Runtime.install({
    // The process that hosts the worker decides when to drain.
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

function readIfNamed(path: string | undefined): Promise<Buffer> | undefined {
  return path === undefined ? undefined : readFile(path);
}

async function connectionOptions(config: TemporalConfig): Promise<NativeConnectionOptions> {
  const certificate = await readIfNamed(config.TEMPORAL_TLS_CERT_PATH);
  const key = await readIfNamed(config.TEMPORAL_TLS_KEY_PATH);
  const ca = await readIfNamed(config.TEMPORAL_TLS_CA_PATH);
  const tls =
    config.TEMPORAL_TLS || certificate !== undefined || config.TEMPORAL_API_KEY !== undefined;
  return {
    address: config.TEMPORAL_ADDRESS,
    ...(tls && {
      tls: {
        ...(ca && { serverRootCACertificate: ca }),
        ...(certificate && key && { clientCertPair: { crt: certificate, key } }),
      },
    }),
    ...(config.TEMPORAL_API_KEY !== undefined && { apiKey: config.TEMPORAL_API_KEY }),
  };
}

/**
 * As `installRuntime`; where the configuration has a metrics port, the SDK shows its own metrics on a free
 * port of the loopback interface, for the operations server to pass on.
 * @returns their URL, or null
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

/** The SDK takes a port but does not tell which it got, so that 0 would be of no use. */
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

/** Connects, and keeps trying while the server is away: a process that starts first waits. */
export async function connectTemporal(
  config: TemporalConfig,
  logger: Logger,
): Promise<NativeConnection> {
  const options = await connectionOptions(config);
  for (let waitMs = 250; ; waitMs = Math.min(waitMs * 2, 5000)) {
    try {
      return await NativeConnection.connect(options);
    } catch (error) {
      logger.warn({ error, address: config.TEMPORAL_ADDRESS, waitMs }, 'temporal.away');
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }
}

/** A client on a connection: it hands the request's context over, and seals payloads as configured. */
export function createTemporalClient(connection: NativeConnection, config: TemporalConfig): Client {
  return new Client({
    connection,
    namespace: config.TEMPORAL_NAMESPACE,
    interceptors: { workflow: [requestContextInterceptor] },
    dataConverter: dataConverterOf(config),
  });
}

/** `IndexedValueType` of temporal.api.enums.v1. */
const indexedTypes = { KEYWORD: 2, KEYWORD_LIST: 7 } as const;

/** Registers the search attributes that are missing in the namespace. */
export async function registerSearchAttributes(
  connection: NativeConnection,
  namespace: string,
  keys: readonly { name: string; type: keyof typeof indexedTypes }[],
): Promise<void> {
  const known = await connection.operatorService.listSearchAttributes({ namespace });
  const missing = keys.filter((key) => !(key.name in known.customAttributes));
  if (missing.length === 0) return;
  await connection.operatorService.addSearchAttributes({
    namespace,
    searchAttributes: Object.fromEntries(
      missing.map(({ name, type }) => [name, indexedTypes[type]]),
    ),
  });
}

/**
 * Puts the context of the current request on workflows that a client starts. Temporal's own interceptors
 * (@temporalio/interceptors-opentelemetry 1.24) need version 1 of the OpenTelemetry SDK.
 */
const requestContextInterceptor: WorkflowClientInterceptor = {
  startWithDetails(input, next) {
    const { workflowType, options } = input;
    const attributes = { 'workflow.type': workflowType, 'workflow.id': options.workflowId };
    const name = `workflow.start ${workflowType}`;
    return inSpan({ name, kind: SpanKind.PRODUCER, attributes }, () => next(withContext(input)));
  },
};

function withContext(input: WorkflowStartInput): WorkflowStartInput {
  const { requestId } = correlation();
  const carried: RequestContext = { ...(requestId !== undefined && { requestId }) };
  propagation.inject(context.active(), carried);
  if (Object.keys(carried).length === 0) return input;
  const header = defaultPayloadConverter.toPayload(carried);
  return { ...input, headers: { ...input.headers, [requestContextHeader]: header } };
}

/** Reads the request of an activity and the parent of its spans; both are absent for work that no request began. */
export function contextOf(headers: Headers): { requestId?: string; parent: Context } {
  const header = headers[requestContextHeader];
  if (!header) return { parent: ROOT_CONTEXT };
  const { requestId, ...carrier } = defaultPayloadConverter.fromPayload<RequestContext>(header);
  const parent = propagation.extract(ROOT_CONTEXT, carrier);
  return { ...(requestId !== undefined && { requestId }), parent };
}
