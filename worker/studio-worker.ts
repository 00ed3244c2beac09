/**
 * Creates the Temporal workers of a process. One worker polls the Studio task queue and runs
 * workflows and the activities that call no provider. One worker per provider runs the calls to
 * this provider, with its maximum number of simultaneous calls. One worker delivers webhooks.
 */
import { createHash } from 'node:crypto';
import {
  Worker,
  type NativeConnection,
  type WorkerDeploymentOptions,
  type WorkerOptions,
} from '@temporalio/worker';
import { createActivities, type Activities } from '../activities/index.ts';
import { chatAnswersMax, chatHeartbeatMs } from '../activities/answer-chat.ts';
import { createChat } from '../activities/chat.ts';
import { providerConcurrency } from '../providers/provider-registry.ts';
import { type Services } from '../process/services.ts';
import type { Config } from '../platform/config.ts';
import { createDataConverter } from '../platform/payload-codec.ts';
import { createTemporalClient } from '../platform/temporal.ts';
import { createReplaceableConnection } from '../platform/temporal-connection.ts';
import {
  chatTaskQueue,
  providerTaskQueue,
  studioTaskQueue,
  webhookTaskQueue,
} from '../domain/job-contract.ts';
import { createActivityContext } from './activity-context.ts';
import { loadWorkflowBundle } from './bundle.ts';

/** Running workers of a process. */
export interface StudioWorkers {
  /** Promise that resolves when all workers have stopped, and rejects when a worker fails. */
  done: Promise<void>;
  /** Stops polling the task queues. `done` resolves when the running tasks have finished. */
  shutdown: () => void;
  running: () => boolean;
  /** Version of their workflow code. */
  workflowBuild: string;
  /** Identity of the workers in the list of pollers of a task queue. */
  identity: string;
  /** Polls and sends over another connection, and closes the one before. */
  replaceConnection: (next: NativeConnection) => Promise<void>;
}

interface WorkersOptions {
  config: Config;
  connection: NativeConnection;
  services: Services;
  /** Workflow bundle that replaces the bundle of the code in the working tree. */
  workflowBundle?: { code: string };
}

/** Time for which a worker that shuts down waits for its activities. */
const shutdownGraceTime = '20s' as const;
/** Maximum number of cached workflows. A waiting job takes about 277 KB (docs/scaling.md). */
const cachedWorkflowsMax = 2000;
/**
 * Maximum number of concurrent workflow tasks. It is high, because a workflow task that waits for
 * its local activities occupies a slot but uses no CPU.
 */
const workflowTasksMax = 1000;
const localActivitiesMax = 1000;
/**
 * Maximum number of concurrent ordinary activities of the Studio task queue. Most of the time,
 * these activities wait for the database.
 */
const studioActivitiesMax = 500;
/**
 * Maximum number of submits per provider, and of chat jobs, that wait in the worker for a slot
 * (attempt.ts). They leave those of other organizations a way to the free slots.
 */
const waitingSubmitsMax = 16;
/** Maximum number of concurrent webhook attempts, which mostly wait for receivers. */
const webhookAttemptsMax = 100;

/** Starts the workers of this process. */
export async function startStudioWorkers(options: WorkersOptions): Promise<StudioWorkers> {
  const { config, connection, services } = options;
  const ofActivities = createReplaceableConnection(connection);
  const { chatLedger: ledger, logger, telemetry } = services;
  const chat = createChat({ config, ledger, logger, telemetry });
  const activities = createActivities(services, {
    config,
    chat,
    client: createTemporalClient(ofActivities.connection, config),
    showJob: services.view.resource,
  });
  const sharedOptions = {
    connection,
    namespace: config.TEMPORAL_NAMESPACE,
    shutdownGraceTime,
    interceptors: {
      activity: [
        createActivityContext({ pool: services.pool, usdPerCredit: config.USD_PER_CREDIT }),
      ],
    },
    dataConverter: createDataConverter(config),
  };
  const version = getWorkerVersion(config);
  const workflowBundle =
    options.workflowBundle ??
    (await loadWorkflowBundle({ encodeFailures: config.PAYLOAD_ENCRYPTION }));
  const studioWorker = await Worker.create({
    ...sharedOptions,
    taskQueue: studioTaskQueue(config.TASK_QUEUE_PREFIX),
    workflowBundle,
    ...(version && { workerDeploymentOptions: version }),
    activities,
    maxCachedWorkflows: cachedWorkflowsMax,
    maxConcurrentWorkflowTaskExecutions: workflowTasksMax,
    maxConcurrentLocalActivityExecutions: localActivitiesMax,
    maxConcurrentActivityTaskExecutions: studioActivitiesMax,
  });
  const activityWorkers = await createActivityWorkers(config, sharedOptions, activities);
  const workers = [studioWorker, ...activityWorkers];
  return {
    done: runAll(workers).finally(() => void chat.close()),
    shutdown() {
      for (const worker of workers) {
        if (worker.getState() === 'RUNNING') worker.shutdown();
      }
    },
    workflowBuild: createHash('sha256').update(workflowBundle.code).digest('hex').slice(0, 16),
    running: () => workers.every((worker) => worker.getState() === 'RUNNING'),
    identity: studioWorker.options.identity,
    replaceConnection(next) {
      for (const worker of workers) worker.connection = next;
      return ofActivities.replace(next);
    },
  };
}

/** Creates the workers of the task queues of providers, of chat jobs and of webhooks. */
function createActivityWorkers(
  config: Config,
  sharedOptions: Omit<WorkerOptions, 'taskQueue'>,
  activities: Activities,
): Promise<Worker[]> {
  const { attemptDelivery, stopDelivery, answerChat } = activities;
  const prefix = config.TASK_QUEUE_PREFIX;
  const workers: WorkerOptions[] = [
    ...[...providerConcurrency(config)].map(([name, concurrency]) => ({
      taskQueue: providerTaskQueue(prefix, name),
      activities: selectCallActivities(activities),
      maxConcurrentActivityTaskExecutions: concurrency + waitingSubmitsMax,
    })),
    {
      taskQueue: chatTaskQueue(prefix),
      activities: { answerChat },
      maxConcurrentActivityTaskExecutions: chatAnswersMax + waitingSubmitsMax,
      maxHeartbeatThrottleInterval: chatHeartbeatMs,
    },
    {
      taskQueue: webhookTaskQueue(prefix),
      activities: { attemptDelivery, stopDelivery },
      maxConcurrentActivityTaskExecutions: webhookAttemptsMax,
    },
  ];
  return Promise.all(workers.map((options) => Worker.create({ ...sharedOptions, ...options })));
}

/**
 * Returns the version of the worker of the Studio task queue; null if none is configured. The
 * workers of the other task queues have no version, because they run only activities, whose input
 * is the same in all versions.
 */
function getWorkerVersion(config: Config): WorkerDeploymentOptions | null {
  const { WORKER_DEPLOYMENT_NAME: deploymentName, WORKER_BUILD_ID: buildId } = config;
  if (deploymentName === undefined || buildId === undefined) return null;
  return {
    useWorkerVersioning: true,
    version: { deploymentName, buildId },
    defaultVersioningBehavior: config.WORKER_VERSIONING,
  };
}

function selectCallActivities(activities: Activities): Partial<Activities> {
  const { submit, check, store, cancel } = activities;
  return { submit, check, store, cancel };
}

async function runAll(workers: Worker[]): Promise<void> {
  await Promise.all(workers.map((worker) => worker.run()));
}
