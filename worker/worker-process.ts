/** The worker process: Studio and provider workers, and the sweeper. */
import type { Client } from '@temporalio/client';
import type { NotificationRelay } from '../activities/inbox/notification-relay.ts';
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
  const { notificationRelay, webhookRelay } = createRelays(services, client, config);
  const onPass = (report: SweepReport) => countPass(state, report);
  const sweeper = createSweeper({ config, services, client, prepareServer, webhookRelay, onPass });
  const workers = await startStudioWorkers({ config, connection, services });
  const stopSweeping = startSweeping({ sweeper, notificationRelay, config, services, state });
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

interface SweepingParts {
  sweeper: Sweeper;
  notificationRelay: NotificationRelay;
  config: Config;
  services: Services;
  state: StateMetrics;
}

/** A job waits for its notification; looking whether one waits is a look into an index that is empty as a rule. */
const redeliverEveryMs = 2000;

/**
 * The sweeper, the notifications that no workflow has heard, and the follow-up of what was released without
 * a verdict; returns what stops them.
 */
function startSweeping(parts: SweepingParts): () => Promise<void> {
  const { sweeper, notificationRelay, config, services, state } = parts;
  const { outcomes, logger } = services;
  const redeliver = async (): Promise<void> => {
    const count = await notificationRelay.redeliver();
    state.sweeperActions.inc({ action: 'redelivered' }, count);
  };
  const again = (pass: () => Promise<unknown>, intervalMs: number, failed: string) =>
    repeat(
      async () => {
        await pass().catch((error: unknown) => logger.warn({ error }, failed));
      },
      { intervalMs },
    );
  const stops = [
    sweeper.start(),
    again(redeliver, redeliverEveryMs, 'notification.not_redelivered'),
    again(outcomes.followUp, config.SWEEP_INTERVAL_MS, 'outcome.follow_up_failed'),
  ];
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
  };
}
