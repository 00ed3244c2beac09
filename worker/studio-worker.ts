/**
 * Temporal workers of a process: one for the Studio queue (workflows and their local activities),
 * one per provider (its calls only, with the provider's concurrency), one for webhooks.
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

/** Running workers. */
export interface StudioWorkers {
  /** Resolves when the workers have drained; rejects when one of them fails. */
  done: Promise<void>;
  /** Stops polling and lets running tasks finish; then `done` resolves. */
  shutdown: () => void;
  running: () => boolean;
  /** Identity of these workers in the poller list of a task queue. */
  identity: string;
}

interface WorkerOptions {
  config: Config;
  connection: NativeConnection;
  services: Services;
  /** Workflow code other than that of the working tree. */
  workflowBundle?: { code: string };
}

/** Time that a draining worker waits for its activities. */
const shutdownGraceTime = '20s' as const;
/** Cached workflows; a waiting job takes about 277 KB (docs/scaling.md). */
const cachedWorkflowsMax = 2000;
/**
 * Concurrent workflow tasks. A task that waits for its local activities holds a slot but uses no
 * CPU.
 */
const workflowTasksMax = 1000;
const localActivitiesMax = 1000;
/** Concurrent ordinary activities of the Studio queue, which mostly wait for the database. */
const studioActivitiesMax = 500;
/** Concurrent attempts at webhooks, which mostly wait for a receiver. */
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
  const version = versionOf(config);
  const studio = await Worker.create({
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
    [...providerConcurrency(config)].map(([name, concurrent]) =>
      Worker.create({
        ...shared,
        taskQueue: providerTaskQueue(config.TASK_QUEUE_PREFIX, name),
        activities: callsOnly(activities),
        maxConcurrentActivityTaskExecutions: concurrent,
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
  const workers = [studio, ...providers, webhooks];
  return {
    done: runAll(workers),
    shutdown() {
      for (const worker of workers) {
        if (worker.getState() === 'RUNNING') worker.shutdown();
      }
    },
    running: () => workers.every((worker) => worker.getState() === 'RUNNING'),
    identity: studio.options.identity,
  };
}

/**
 * Returns the worker version of the Studio queue; null unless configured. Provider queues run only
 * activities, whose input does not depend on a version: their workers are unversioned.
 */
function versionOf(config: Config): WorkerDeploymentOptions | null {
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
