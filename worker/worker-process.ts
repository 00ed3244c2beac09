/** Starts a worker process: Temporal workers, sweeper, state gauges and auditor. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { AuditSources } from '../ledger/audit.ts';
import { createActionRuns } from '../studio/jobs/action-runs.ts';
import { createBulkWorkflows } from '../bulk/bulk-execution.ts';
import { hasRunningWorkflow } from '../executions/workflow-state.ts';
import { providerDefinitions } from '../providers/provider-registry.ts';
import { createRelays, openProcess, type Services } from '../process/services.ts';
import type { Config } from '../platform/config.ts';
import type { Logger } from '../platform/logger.ts';
import { createStateGauges, type StateGauges } from '../platform/metrics.ts';
import { openMetricsServer } from '../process/metrics-server.ts';
import { observeCertificates } from '../process/certificates.ts';
import { databaseChecks, jobChecks, storageChecks } from '../process/readiness.ts';
import { polledQueues } from '../domain/job-contract.ts';
import { startArchiver, startAuditor, startDayCloser } from './daily-passes.ts';
import { repeat } from '../platform/background.ts';
import { connectionOptions, renewOnChange } from '../platform/temporal-connection.ts';
import { connectWorkers } from './runtime.ts';
import { startStudioWorkers } from './studio-worker.ts';
import { registerStateGauges } from './state-gauges.ts';
import { sweep } from './sweeper.ts';

/** Running worker process. */
interface WorkerProcess {
  services: Services;
  /** Port of the metrics and the probes; null if METRICS_PORT is not set. */
  metricsPort: number | null;
  /** Promise that rejects when a worker fails. */
  failed: Promise<void>;
  close: () => Promise<void>;
}

interface WorkerProcessOptions {
  /** URL at which the Temporal SDK serves its own metrics; null if it serves none. */
  sdkMetricsUrl?: string | null;
}

/** Starts a worker process. Resolves when its workers poll their task queues. */
export async function startWorkerProcess(
  config: Config,
  logger: Logger,
  options: WorkerProcessOptions = {},
): Promise<WorkerProcess> {
  const opened = await openProcess(config, logger, 'worker');
  const { services, connection, client, prepareServer } = opened;
  const { metrics } = services.telemetry;
  const state = createStateGauges(metrics);
  const { webhookRelay } = createRelays(services, client, config);
  const ofStorage = storageChecks(services.storage, logger);
  await untilUsable(ofStorage.storage);
  const connected = await startConnectedWorkers(config, services);
  const { workers } = connected;
  const { pool, storage, usageSums } = services;
  const databaseUrl = config.DATABASE_URL;
  const bulkWorkflows = createBulkWorkflows({ pool, client, config, logger });
  const actionRuns = createActionRuns({ pool, client, config, logger });
  const { workflowBuild } = workers;
  const swept = { webhookRelay, bulkWorkflows, actionRuns, workflowBuild };
  const runPass = () => sweep({ config, services, client, prepareServer, ...swept });
  const stopSweeping = startSweeping({ runPass, config, services, state });
  const stopAuditing = startAuditor({
    sources: createAuditSources(config, services, client),
    logger,
    intervalMs: config.AUDIT_INTERVAL_MS,
    state,
  });
  const stopArchiving = startArchiver({
    sources: { databaseUrl, pool, storage },
    logger,
    keptMonths: config.ARCHIVE_AFTER_MONTHS,
  });
  const stopClosing = startDayCloser({ databaseUrl, usageSums, logger });
  registerStateGauges({ config, services, connection, metrics, state });
  const metricsServer = await openMetricsServer(config, {
    metrics,
    readiness: {
      ...observeCertificates(config, metrics),
      required: {
        ...databaseChecks(services.pool),
        ...ofStorage,
        ...jobChecks({
          connection,
          namespace: config.TEMPORAL_NAMESPACE,
          queues: polledQueues(config.TASK_QUEUE_PREFIX, [...providerDefinitions.keys()]),
          isPolled: (pollers) => pollers.includes(workers.identity),
        }),
        workers: () => Promise.resolve(workers.running()),
      },
    },
    sdkMetricsUrl: options.sdkMetricsUrl ?? null,
  });
  logger.info('worker.polling');
  return {
    services,
    metricsPort: metricsServer?.port ?? null,
    failed: workers.done,
    async close() {
      await connected.close();
      await stopSweeping();
      await stopAuditing();
      await stopArchiving();
      await stopClosing();
      await metricsServer?.close();
      await opened.close();
    },
  };
}

/**
 * Waits until the storage is usable. Until then, no call is sent to a provider, because its output
 * would be paid and lost.
 */
async function untilUsable(check: () => Promise<boolean>): Promise<void> {
  for (let waitMs = 250; !(await check().catch(() => false)); waitMs = Math.min(waitMs * 2, 5000)) {
    await sleep(waitMs);
  }
}

/** Starts the workers over a connection of their own, which is renewed until they are closed. */
async function startConnectedWorkers(config: Config, services: Services) {
  const options = await connectionOptions(config);
  let connection = await connectWorkers(config);
  const workers = await startStudioWorkers({ config, connection, services });
  const renew = async (): Promise<void> => {
    const next = await connectWorkers(config);
    await workers.replaceConnection(next);
    connection = next;
  };
  const stopRenewing = renewOnChange({ config, options, renew, logger: services.logger });
  return {
    workers,
    async close(): Promise<void> {
      workers.shutdown();
      await workers.done.catch(() => {});
      await stopRenewing();
      await connection.close();
    },
  };
}

function createAuditSources(config: Config, { pool }: Services, client: Client): AuditSources {
  return {
    databaseUrl: config.DATABASE_URL,
    pool,
    hasRunningWorkflow: (jobId) => hasRunningWorkflow(client, jobId),
  };
}

interface SweepingOptions {
  /** Runs one pass of the sweeper. */
  runPass: () => ReturnType<typeof sweep>;
  config: Config;
  services: Services;
  state: StateGauges;
}

/** Starts the sweeper. Returns a function that stops it. */
function startSweeping(options: SweepingOptions): () => Promise<void> {
  const { config, services, state } = options;
  const { logger } = services;
  const sweepAndCount = async (): Promise<void> => {
    try {
      const report = await options.runPass();
      for (const [action, count] of Object.entries(report)) {
        state.sweeperActions.inc({ action }, count);
      }
      if (report.failed === 0) state.sweptAt.setToCurrentTime();
    } catch (error) {
      logger.warn({ error }, 'sweeper.failed');
    }
  };
  return repeat(sweepAndCount, { intervalMs: config.SWEEP_INTERVAL_MS });
}
