/** API process: an HTTP server, a Temporal client, and a listener for job events. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { providerDefinitions } from '../providers/registry.ts';
import { openProcess, type Services } from '../activities/services.ts';
import { assert } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import type { Logger } from '../platform/logger.ts';
import { openMetricsServer } from '../platform/metrics-server.ts';
import { databaseChecks, jobChecks } from '../platform/readiness.ts';
import { polledQueues } from '../jobs/contract.ts';
import { answerStarting, createApp, type Handler } from './app.ts';
import type { Middleware } from './context.ts';
import { openJobUpdates, type JobUpdates } from './studio/job-updates.ts';

interface ApiOptions {
  config: Config;
  logger: Logger;
  /** Middleware directly around the endpoints, which sees their responses and errors. */
  observe?: Middleware;
}

/** Running API. */
export interface Api {
  port: number;
  /** Port of metrics and probes; null without METRICS_PORT. */
  metricsPort: number | null;
  services: Services;
  client: Client;
  updates: JobUpdates;
  /** Rejects new connections, completes the open requests, and closes all services. */
  close: () => Promise<void>;
}

/** Time after which `close` terminates the connections that are still open, in milliseconds. */
const closeTimeoutMs = 15_000;

/** Longest time of an upload, in milliseconds; other bodies have shorter timeouts. */
const requestTimeoutMs = 900_000;

/** Timeouts of the HTTP server in milliseconds, for slow or silent clients. */
const serverTimeouts = {
  headersTimeout: 15_000,
  requestTimeout: requestTimeoutMs,
  keepAliveTimeout: 65_000,
  // Time between two checks for expired timeouts; the default is half a minute.
  connectionsCheckingInterval: 3000,
} as const;

/**
 * Starts the API, and returns when it serves requests. The port is opened before the services are:
 * while the process waits for Temporal, requests receive status 503.
 */
export async function startApi(options: ApiOptions): Promise<Api> {
  const { config, logger } = options;
  let handle: Handler = answerStarting;
  const server = createServer(serverTimeouts, (request, response) => handle(request, response));
  const port = await listen(server, config);
  const resources = await openProcess(config, logger, 'api');
  const { services, connection, client } = resources;
  const updates = await openJobUpdates({ databaseUrl: config.DATABASE_URL, ...services });
  let draining = false;
  const readiness = {
    required: { ...databaseChecks(services.pool), serving: () => Promise.resolve(!draining) },
    // Temporal is not required, because chat works without it: in an outage, the process must stay
    // in the load balancer.
    optional: jobChecks({
      connection,
      namespace: config.TEMPORAL_NAMESPACE,
      queues: polledQueues(config.TASK_QUEUE_PREFIX, [...providerDefinitions.keys()]),
      isPolled: (pollers) => pollers.length > 0,
    }),
  };
  const { observe } = options;
  handle = createApp({ config, services, client, updates, readiness, observe });
  const metricsServer = await openMetricsServer(config, {
    metrics: services.telemetry.metrics,
    readiness,
  });
  logger.info({ port }, 'api.listening');
  return {
    port,
    metricsPort: metricsServer?.port ?? null,
    services,
    client,
    updates,
    async close() {
      // The load balancer sends requests until its next readiness check, so the process keeps
      // serving for DRAIN_DELAY_MS.
      draining = true;
      await sleep(config.DRAIN_DELAY_MS);
      // Clients that follow jobs are disconnected, so that they reconnect to another process.
      // Requests that wait for a job receive it as it is, because a client whose connection breaks
      // would send the request again, as another job.
      updates.drain();
      await closeServer(server);
      await updates.close();
      // All chats have ended with their connections; their charges must be written before the pool
      // closes.
      await services.chat.drained();
      await services.chat.close();
      await metricsServer?.close();
      await resources.close();
    },
  };
}

async function listen(server: Server, config: Config): Promise<number> {
  server.listen(config.API_PORT, config.API_HOST);
  await once(server, 'listening');
  const address = server.address();
  assert(typeof address === 'object' && address, 'the server listens on a port');
  return address.port;
}

async function closeServer(server: Server): Promise<void> {
  const closed = once(server.close(), 'close');
  const late = setTimeout(() => server.closeAllConnections(), closeTimeoutMs);
  await closed;
  clearTimeout(late);
}
