/** Reads the state of task queues from the Temporal server: pollers and backlogs. */
import type { Connection } from '@temporalio/client';

/** Kind of task; every task queue has a backlog for each kind. */
export type TaskKind = 'workflow' | 'activity';

/** State of a task queue. */
export interface TaskQueueState {
  /** Identities of the workers that polled within the last two minutes. */
  pollers: string[];
  backlog: number;
  backlogAgeSeconds: number;
}

/** `TaskQueueType` of temporal.api.enums.v1. */
const workflowType = 1;
const activityType = 2;
/**
 * Maximum age of a poller that counts as active. A poll takes at most one minute; the server lists
 * pollers for five minutes.
 */
const pollerAgeMaxMs = 120_000;
const describeTimeoutMs = 2500;

/** Requests the state of a task queue for one kind of task. */
export async function describeTaskQueue(
  connection: Connection,
  namespace: string,
  { queue, task }: { queue: string; task: TaskKind },
): Promise<TaskQueueState> {
  const described = await connection.withDeadline(Date.now() + describeTimeoutMs, () =>
    connection.workflowService.describeTaskQueue({
      namespace,
      taskQueue: { name: queue },
      // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
      taskQueueType: task === 'workflow' ? workflowType : activityType,
      reportStats: true,
    }),
  );
  const oldestMs = Date.now() - pollerAgeMaxMs;
  const { stats, pollers } = described;
  return {
    pollers: (pollers ?? [])
      .filter(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1000 >= oldestMs)
      .map(({ identity }) => identity ?? ''),
    backlog: Number(stats?.approximateBacklogCount ?? 0),
    backlogAgeSeconds: Number(stats?.approximateBacklogAge?.seconds ?? 0),
  };
}

/**
 * Wraps a function so that its result is reused for `ageMaxMs`, because probes and scrapes are
 * frequent.
 */
export function cached<Answer>(
  read: () => Promise<Answer>,
  ageMaxMs: number,
): () => Promise<Answer> {
  let readAtMs = Number.NEGATIVE_INFINITY;
  let answer: Promise<Answer> | undefined;
  return () => {
    if (!answer || performance.now() - readAtMs > ageMaxMs) {
      readAtMs = performance.now();
      answer = read();
      // A failure is not reused; the next call reads again.
      answer.catch(() => (answer = undefined));
    }
    return answer;
  };
}
