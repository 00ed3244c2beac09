/**
 * Creates the Temporal workers of a process: one for the Studio task queue, which runs workflows
 * and the activities that call no provider; one per provider, which runs only its calls, with its
 * concurrency; and one for webhooks.
 */
import { Worker, type NativeConnection, type WorkerDeploymentOptions } from '@temporalio/worker';
import { createActivities, type Activities } from '../activities/index.ts';
import { providerConcurrency } from '../providers/registry.ts';
import { publicBaseUrl, type Services } from '../activities/services.ts';
import type { Config } from '../platform/config.ts';
import { createDataConverter } from '../platform/payload-codec.ts';
import { createJobView } from '../studio/job-view.ts';
import { providerTaskQueue, studioTaskQueue, webhookTaskQueue } from '../jobs/contract.ts';
import { createActivityContext } from './activity-context.ts';
import { loadWorkflowBundle } from './bundle.ts';

/** Running workers of a process. */
export interface StudioWorkers {
  /** Resolves when the workers have drained; rejects when one of them fails. */
  done: Promise<void>;
  /** Stops polling. `done` resolves when the running tasks have finished. */
  shutdown: () => void;
  running: () => boolean;
  /** Identity of these workers in the poller list of a task queue. */
  identity: string;
}

interface WorkerOptions {
  config: Config;
  connection: NativeConnection;
  services: Services;
  /** Workflow code to run instead of the code in the working tree. */
  workflowBundle?: { code: string };
}

/** How long a worker that shuts down waits for its activities. */
const shutdownGraceTime = '20s' as const;
/** Maximum number of cached workflows. A waiting job takes about 277 KB (docs/scaling.md). */
const cachedWorkflowsMax = 2000;
/**
 * Maximum number of concurrent workflow tasks, high because a task that waits for its local
 * activities occupies a slot but uses no CPU.
 */
const workflowTasksMax = 1000;
const localActivitiesMax = 1000;
/**
 * Maximum number of concurrent ordinary activities of the Studio task queue, which mostly wait for
 * the database.
 */
const studioActivitiesMax = 500;
/** Maximum number of concurrent webhook attempts, which mostly wait for receivers. */
const webhookAttemptsMax = 100;

/** Starts the workers of this process. */
export async function startStudioWorkers(options: WorkerOptions): Promise<StudioWorkers> {
  const { config, connection, services } = options;
  const view = createJobView({
    publicBaseUrl: publicBaseUrl(config),
    urlOf: (artifact, ttlMs) => services.storage.urlOf(artifact.storageKey, ttlMs),
  });
  const activities = createActivities(services, { config, showJob: view.resource });
  const shared = {
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
  const studioWorker = await Worker.create({
    ...shared,
    taskQueue: studioTaskQueue(config.TASK_QUEUE_PREFIX),
    workflowBundle:
      options.workflowBundle ??
      (await loadWorkflowBundle({ encodeFailures: config.PAYLOAD_ENCRYPTION })),
    ...(version && { workerDeploymentOptions: version }),
    activities,
    maxCachedWorkflows: cachedWorkflowsMax,
    maxConcurrentWorkflowTaskExecutions: workflowTasksMax,
    maxConcurrentLocalActivityExecutions: localActivitiesMax,
    maxConcurrentActivityTaskExecutions: studioActivitiesMax,
  });
  const providers = await Promise.all(
    [...providerConcurrency(config)].map(([name, concurrency]) =>
      Worker.create({
        ...shared,
        taskQueue: providerTaskQueue(config.TASK_QUEUE_PREFIX, name),
        activities: callsOnly(activities),
        maxConcurrentActivityTaskExecutions: concurrency,
      }),
    ),
  );
  const { attemptDelivery, stopDelivery } = activities;
  const webhooks = await Worker.create({
    ...shared,
    taskQueue: webhookTaskQueue(config.TASK_QUEUE_PREFIX),
    activities: { attemptDelivery, stopDelivery },
    maxConcurrentActivityTaskExecutions: webhookAttemptsMax,
  });
  const workers = [studioWorker, ...providers, webhooks];
  return {
    done: runAll(workers),
    shutdown() {
      for (const worker of workers) {
        if (worker.getState() === 'RUNNING') worker.shutdown();
      }
    },
    running: () => workers.every((worker) => worker.getState() === 'RUNNING'),
    identity: studioWorker.options.identity,
  };
}

/**
 * Returns the worker version of the Studio task queue; null if none is configured. Workers of the
 * other task queues are unversioned, because they run only activities, whose input is the same in
 * all versions.
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

function callsOnly(activities: Activities): Partial<Activities> {
  const { submit, check, store, cancel } = activities;
  return { submit, check, store, cancel };
}

async function runAll(workers: Worker[]): Promise<void> {
  await Promise.all(workers.map((worker) => worker.run()));
}
