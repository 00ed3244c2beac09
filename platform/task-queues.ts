/** State of task queues at the Temporal server: their pollers and backlogs. */
import type { Connection } from '@temporalio/client';

/** Kind of task; a queue has one list of each. */
export type TaskKind = 'workflow' | 'activity';

/** A task queue according to the server. */
export interface TaskQueueState {
  /** Identities that polled within the last two minutes. */
  pollers: string[];
  backlog: number;
  backlogAgeSeconds: number;
}

/** `TaskQueueType` of temporal.api.enums.v1. */
const workflowType = 1;
const activityType = 2;
/**
 * Age of a poller that counts: a poll takes a minute at most, and the server remembers pollers for
 * five.
 */
const pollerAgeMaxMs = 120_000;
const describeTimeoutMs = 2500;

/** Describes one queue and kind. */
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

/** Makes a function whose result is reused for a while, because probes and scrapes come often. */
export function remembered<Answer>(
  read: () => Promise<Answer>,
  ageMaxMs: number,
): () => Promise<Answer> {
  let readAtMs = Number.NEGATIVE_INFINITY;
  let answer: Promise<Answer> | undefined;
  return () => {
    if (!answer || performance.now() - readAtMs > ageMaxMs) {
      readAtMs = performance.now();
      answer = read();
      // A failure is not reused: the next call tries again.
      answer.catch(() => (answer = undefined));
    }
    return answer;
  };
}
