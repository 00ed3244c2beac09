/** Reads the pollers and backlogs of task queues from the Temporal server. */
import type { Connection } from '@temporalio/client';

/** Kind of task. A task queue has a separate backlog for each kind. */
export type TaskKind = 'workflow' | 'activity';

/** State of a task queue. */
export interface TaskQueueState {
  /** Identities of the workers that have polled within the last two minutes. */
  pollers: string[];
  backlog: number;
  backlogAgeSeconds: number;
}

/** Values of the enum `TaskQueueType` in temporal.api.enums.v1. */
const workflowType = 1;
const activityType = 2;
/**
 * Maximum time since the last poll of an active worker. A poll takes at most one minute, but the
 * server lists a poller for five minutes.
 */
const pollerAgeMaxMs = 120_000;
const describeTimeoutMs = 2500;

/** Reads the state of a task queue for one kind of task. */
export async function describeTaskQueue(
  connection: Connection,
  namespace: string,
  { queue, task }: { queue: string; task: TaskKind },
): Promise<TaskQueueState> {
  const response = await connection.withDeadline(Date.now() + describeTimeoutMs, () =>
    connection.workflowService.describeTaskQueue({
      namespace,
      taskQueue: { name: queue },
      // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
      taskQueueType: task === 'workflow' ? workflowType : activityType,
      reportStats: true,
    }),
  );
  const oldestMs = Date.now() - pollerAgeMaxMs;
  const { stats, pollers } = response;
  return {
    pollers: (pollers ?? [])
      .filter(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1000 >= oldestMs)
      .map(({ identity }) => identity ?? ''),
    backlog: Number(stats?.approximateBacklogCount ?? 0),
    backlogAgeSeconds: Number(stats?.approximateBacklogAge?.seconds ?? 0),
  };
}

/**
 * Wraps a function so that its result is reused for `ageMaxMs` milliseconds. Probes and scrapes are
 * too frequent to read the state each time.
 */
export function cacheResult<Answer>(
  read: () => Promise<Answer>,
  ageMaxMs: number,
): () => Promise<Answer> {
  let readAtMs = Number.NEGATIVE_INFINITY;
  let result: Promise<Answer> | undefined;
  return () => {
    if (!result || performance.now() - readAtMs > ageMaxMs) {
      readAtMs = performance.now();
      result = read();
      // An error is not reused; the next call reads the state again.
      result.catch(() => (result = undefined));
    }
    return result;
  };
}
