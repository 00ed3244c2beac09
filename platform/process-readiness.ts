/** What every process of the gateway needs to do its work. */
import type { NativeConnection } from '@temporalio/worker';
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from './database.ts';
import type { Checks } from './readiness.ts';
import { describeTaskQueue, remembered, type TaskKind } from './task-queues.ts';

const none = z.object({});

interface JobCheckParts {
  connection: NativeConnection;
  namespace: string;
  /** Task queues that must be polled. */
  queues: readonly { queue: string; task: TaskKind }[];
  /** Whether those who poll a queue are enough for this process. */
  isPolled: (pollers: readonly string[]) => boolean;
  /** Whether the process's own workers, if it has any, are running. */
  workersRun: () => boolean;
}

/** Probes come often; the server need not be asked each time. */
const pollersAgeMaxMs = 5000;

/** Its database. */
export function databaseChecks(pool: DatabasePool): Checks {
  return {
    postgres: async () => {
      await pool.query(sql.type(none)`SELECT 1`);
      return true;
    },
  };
}

/** What jobs need beside it: Temporal, the process's own workers, and somebody at every queue. */
export function jobChecks(parts: JobCheckParts): Checks {
  const { connection, namespace, queues } = parts;
  return {
    temporal: async () => {
      await connection.workflowService.getSystemInfo({});
      return true;
    },
    workers: () => Promise.resolve(parts.workersRun()),
    pollers: remembered(async () => {
      const states = await Promise.all(
        queues.map((queue) => describeTaskQueue(connection, namespace, queue)),
      );
      return states.every(({ pollers }) => parts.isPolled(pollers));
    }, pollersAgeMaxMs),
  };
}
