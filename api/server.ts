/** The API process: an HTTP server, a Temporal client, and a listener to the events of jobs. It hosts no worker. */
import { createServer, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { providerDefinitions } from '../providers/registry.ts';
import { openProcess, type Services } from '../activities/services.ts';
import { assert } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import type { Logger } from '../platform/logger.ts';
import { openOperationsServer } from '../platform/operations-server.ts';
import { databaseChecks, jobChecks } from '../platform/readiness.ts';
import { polledQueues } from '../jobs/contract.ts';
import { answerStarting, createApp, type Handler } from './app.ts';
import type { Middleware } from './context.ts';
import { openJobNews, type JobNews } from './studio/job-news.ts';

interface ApiOptions {
  config: Config;
  logger: Logger;
  /** Middleware directly around the operations, which sees their responses and errors. */
  observe?: Middleware;
}

/** A running API. */
export interface Api {
  port: number;
  /** Where metrics and probes are served; null without METRICS_PORT. */
  metricsPort: number | null;
  services: Services;
  client: Client;
  news: JobNews;
  /** Refuses new connections and answers the requests that are open. */
  close: () => Promise<void>;
}

/** Connections that are still open after this are cut. */
const closeTimeoutMs = 15_000;

/** The longest upload; other bodies are cut sooner, where they are read. */
const requestTimeoutMs = 900_000;

/** What a slow or silent client gets. */
const serverTimeouts = {
  headersTimeout: 15_000,
  requestTimeout: requestTimeoutMs,
  keepAliveTimeout: 65_000,
  // How late a timeout may be noticed; by default it is half a minute.
  connectionsCheckingInterval: 3000,
} as const;

/**
 * Starts the API; it serves when this returns. The port is open before: a process that waits for
 * Temporal says so.
 */
export async function startApi(options: ApiOptions): Promise<Api> {
  const { config, logger } = options;
  let handle: Handler = answerStarting;
  const server = createServer(serverTimeouts, (request, response) => handle(request, response));
  const port = await listen(server, config);
  const opened = await openProcess(config, logger);
  const { services, connection, client } = opened;
  const news = await openJobNews({ databaseUrl: config.DATABASE_URL, ...services });
  let draining = false;
  const readiness = {
    required: { ...databaseChecks(services.pool), serving: () => Promise.resolve(!draining) },
    // Chat does without: an outage of Temporal must not take it out of the load balancer.
    wished: jobChecks({
      connection,
      namespace: config.TEMPORAL_NAMESPACE,
      queues: polledQueues(config.TASK_QUEUE_PREFIX, [...providerDefinitions.keys()]),
      isPolled: (pollers) => pollers.length > 0,
    }),
  };
  const { observe } = options;
  handle = createApp({ config, services, client, news, readiness, observe });
  const operations = await openOperationsServer(config, {
    metrics: services.telemetry.metrics,
    readiness,
  });
  logger.info({ port }, 'api.listening');
  return {
    port,
    metricsPort: operations?.port ?? null,
    services,
    client,
    news,
    async close() {
      // Who balances the load looks at readiness: until it has looked, requests still come here.
      draining = true;
      await sleep(config.DRAIN_DELAY_MS);
      // Who follows jobs connects again, elsewhere.
      news.interrupt();
      await closeServer(server);
      await news.close();
      // Every chat has ended with its connection; what it cost must be written before the pool closes.
      await services.chat.drained();
      await services.chat.close();
      await operations?.close();
      await opened.close();
    },
  };
}

async function listen(server: Server, config: Config): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(config.API_PORT, config.API_HOST, resolve);
  });
  const address = server.address();
  assert(typeof address === 'object' && address, 'the server listens on a port');
  return address.port;
}

async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  server.closeIdleConnections();
  const late = setTimeout(() => server.closeAllConnections(), closeTimeoutMs);
  await closed;
  clearTimeout(late);
}
