/** API process with an HTTP server, a Temporal client and a listener for job events. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { providerDefinitions } from '../providers/provider-registry.ts';
import { openProcess } from '../process/services.ts';
import { createChat } from '../activities/chat.ts';
import type { ApiServices } from './composition.ts';
import { assert } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import type { Logger } from '../platform/logger.ts';
import { listenHost, openMetricsServer } from '../process/metrics-server.ts';
import { observeCertificates } from '../process/certificates.ts';
import { databaseChecks, jobChecks, storageChecks } from '../process/readiness.ts';
import { polledQueues } from '../domain/job-contract.ts';
import { respondWhileStarting, createApp, type RequestHandler } from './app.ts';
import type { Middleware } from './context.ts';
import { closeServer, handleInOrder } from './http/connections.ts';
import { createBulkReads } from '../bulk/bulk-reads.ts';
import { openUpdates, type Updates } from '../executions/updates.ts';

interface ApiOptions {
  config: Config;
  logger: Logger;
  /** Middleware that runs directly before the endpoints, and sees their responses and errors. */
  observe?: Middleware;
}

/** Running API process. */
export interface Api {
  port: number;
  /** Port of metrics and probes. Null if METRICS_PORT is not set. */
  metricsPort: number | null;
  services: ApiServices;
  client: Client;
  updates: Updates;
  /** Stops accepting connections, completes the open requests, and closes all services. */
  close: () => Promise<void>;
}

/** Maximum duration of an upload in milliseconds. Other bodies have shorter timeouts. */
const requestTimeoutMs = 900_000;

/** Timeouts of the HTTP server for slow clients, in milliseconds. */
const serverTimeouts = {
  headersTimeout: 15_000,
  requestTimeout: requestTimeoutMs,
  keepAliveTimeout: 65_000,
  // Interval between checks for expired timeouts. The default of 30 s would detect them late.
  connectionsCheckingInterval: 3000,
} as const;

/**
 * Starts the API, and returns when it serves requests. The port is opened first: requests receive
 * status 503 until the services have started.
 */
export async function startApi(options: ApiOptions): Promise<Api> {
  const { config, logger } = options;
  let handle: RequestHandler = respondWhileStarting;
  const server = createServer(
    serverTimeouts,
    handleInOrder(() => handle),
  );
  const port = await listen(server, config);
  const resources = await openProcess(config, logger, 'api');
  const { connection, client } = resources;
  const { chatLedger: ledger, telemetry } = resources.services;
  const chat = createChat({ config, ledger, logger, telemetry });
  const services = { ...resources.services, chat };
  const { pool, reads } = services;
  const kinds = [reads, createBulkReads(pool, reads)];
  const updates = await openUpdates({ config, pool, kinds, logger });
  let isDraining = false;
  const ofStorage = storageChecks(services.storage, logger);
  // An API starts without a usable storage, because chat works without it.
  void ofStorage.storage().catch(() => {});
  const certificates = observeCertificates(config, telemetry.metrics);
  const readiness = {
    ...certificates,
    required: { ...databaseChecks(services.pool), serving: () => Promise.resolve(!isDraining) },
    // Temporal is optional, because chat works without it: during an outage of Temporal, the load
    // balancer must keep using this process.
    optional: {
      ...certificates.optional,
      ...ofStorage,
      ...jobChecks({
        connection,
        namespace: config.TEMPORAL_NAMESPACE,
        queues: polledQueues(config.TASK_QUEUE_PREFIX, [...providerDefinitions.keys()]),
        isPolled: (pollers) => pollers.length > 0,
      }),
      notifications: () => Promise.resolve(updates.isListening()),
    },
  };
  const { observe } = options;
  handle = createApp({ config, services, client, updates, readiness, observe });
  const { metrics } = telemetry;
  const metricsServer = await openMetricsServer(config, { metrics, readiness });
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
      isDraining = true;
      await sleep(config.DRAIN_DELAY_MS);
      // Event streams are closed, so that their clients reconnect to another process. Requests that
      // wait for a job receive its current state: after a broken connection, a client would send
      // the request again and start another job.
      updates.drain();
      await closeServer(server);
      await updates.close();
      // All chats have ended with their connections. Their charges must be written before the
      // database pool closes.
      await chat.waitUntilIdle();
      await chat.close();
      await services.rejectedRequests.flush();
      await metricsServer?.close();
      await resources.close();
    },
  };
}

async function listen(server: Server, config: Config): Promise<number> {
  server.listen({ port: config.API_PORT, ...listenHost(config.API_HOST) });
  await once(server, 'listening');
  const address = server.address();
  assert(typeof address === 'object' && address, 'the server has no port');
  return address.port;
}
