/** The worker process: Studio and provider workers, and the sweeper. */
import type { Client } from '@temporalio/client';
import type { AuditSources } from '../activities/ledger/audit.ts';
import { ownerOf } from '../activities/jobs/job-owner.ts';
import { providerDefinitions } from '../activities/providers/registry.ts';
import { createRelays, openProcess, type Services } from '../activities/services.ts';
import type { Config } from '../platform/config.ts';
import type { Logger } from '../platform/logger.ts';
import { createStateMetrics, type StateMetrics } from '../platform/metrics.ts';
import { openOperationsServer } from '../platform/operations-server.ts';
import { databaseChecks, jobChecks } from '../platform/readiness.ts';
import { polledQueues } from '../jobs/contract.ts';
import { repeat } from './repetition.ts';
import { startStudioWorkers } from './studio-worker.ts';
import { startAuditor } from './auditor.ts';
import { showState } from './state-gauges.ts';
import { createSweeper, type Sweeper, type SweepReport } from './sweeper.ts';

/** A running worker process. */
export interface WorkerProcess {
  services: Services;
  sweeper: Sweeper;
  /** Where metrics and probes are served; null without METRICS_PORT. */
  metricsPort: number | null;
  /** Rejects when a worker fails. */
  failed: Promise<void>;
  close: () => Promise<void>;
}

interface WorkerProcessOptions {
  /** Where the Temporal SDK shows its own metrics, if it does. */
  sdkMetricsUrl?: string | null;
}

/** Starts the workers; they poll when this returns. */
export async function startWorkerProcess(
  config: Config,
  logger: Logger,
  options: WorkerProcessOptions = {},
): Promise<WorkerProcess> {
  const opened = await openProcess(config, logger);
  const { services, connection, client, prepareServer } = opened;
  const { metrics } = services.telemetry;
  const state = createStateMetrics(metrics);
  const sweeper = openSweeper({ config, services, client, prepareServer, state });
  const workers = await startStudioWorkers({ config, connection, services });
  const stopSweeping = startSweeping(sweeper, { config, services });
  const stopAuditing = startAuditor({
    sources: auditSources(config, services, client),
    logger,
    intervalMs: config.AUDIT_INTERVAL_MS,
    state,
  });
  showState({ config, services, connection, metrics, state });
  const operations = await openOperationsServer(config, {
    metrics,
    readiness: {
      required: {
        ...databaseChecks(services.pool),
        ...jobChecks({
          connection,
          namespace: config.TEMPORAL_NAMESPACE,
          queues: polledQueues(config.TASK_QUEUE_PREFIX, [...providerDefinitions.keys()]),
          isPolled: (pollers) => pollers.includes(workers.identity),
          workersRun: () => workers.running(),
        }),
      },
      wished: {},
    },
    sdkMetricsUrl: options.sdkMetricsUrl ?? null,
  });
  logger.info('worker.polling');
  return {
    services,
    sweeper,
    metricsPort: operations?.port ?? null,
    failed: workers.done,
    async close() {
      workers.shutdown();
      await workers.done.catch(() => {});
      await stopSweeping();
      await stopAuditing();
      await operations?.close();
      await opened.close();
    },
  };
}

function auditSources(config: Config, { pool }: Services, client: Client): AuditSources {
  return {
    databaseUrl: config.DATABASE_URL,
    pool,
    isOwned: async (jobId) => (await ownerOf(client, jobId)) === 'running',
  };
}

function countPass(state: StateMetrics, report: SweepReport): void {
  for (const [action, count] of Object.entries(report)) state.sweeperActions.inc({ action }, count);
  if (report.failed === 0) state.sweptAt.setToCurrentTime();
}

interface SweeperParts {
  config: Config;
  services: Services;
  client: Client;
  prepareServer: () => Promise<void>;
  state: StateMetrics;
}

/** The sweeper with the relays by which it wakes workflows. */
function openSweeper(parts: SweeperParts): Sweeper {
  const { services, client, config, state } = parts;
  return createSweeper({
    ...parts,
    ...createRelays(services, client, config),
    onPass: (report) => countPass(state, report),
  });
}

/** The sweeper, and the follow-up of what was released without a verdict; returns what stops both. */
function startSweeping(
  sweeper: Sweeper,
  { config, services }: { config: Config; services: Services },
): () => Promise<void> {
  const { outcomes, logger } = services;
  const stops = [
    sweeper.start(),
    repeat(
      async () => {
        await outcomes.followUp().catch((error: unknown) => {
          logger.warn({ error }, 'outcome.follow_up_failed');
        });
      },
      { intervalMs: config.SWEEP_INTERVAL_MS },
    ),
  ];
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
  };
}
