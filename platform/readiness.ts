/** Whether a process can do its work now: named checks, each with a time limit. */
import type { Connection } from '@temporalio/client';
import { command, type DatabasePool } from './database.ts';
import { describeTaskQueue, remembered, type TaskKind } from './task-queues.ts';

/** Checks by name; true when that part can be used now. */
export type Checks = Record<string, () => Promise<boolean>>;

/** What a process is asked. */
export interface Readiness {
  /** Without one of these it can do nothing. */
  required: Checks;
  /** Without one of these it can do some of its work, and says so. */
  wished: Checks;
}

/** The answer of `/readyz`. */
export interface ReadinessReport {
  ready: boolean;
  status: 'ready' | 'degraded' | 'not ready';
  checks: Record<string, boolean>;
}

const checkTimeoutMs = 3000;

/** Runs all checks side by side. A check that throws or takes too long has failed. */
export async function checkReadiness(readiness: Readiness): Promise<ReadinessReport> {
  const [required, wished] = await Promise.all([
    runAll(readiness.required),
    runAll(readiness.wished),
  ]);
  const ready = Object.values(required).every(Boolean);
  const status = !ready ? 'not ready' : Object.values(wished).every(Boolean) ? 'ready' : 'degraded';
  return { ready, status, checks: { ...required, ...wished } };
}

async function runAll(checks: Checks): Promise<Record<string, boolean>> {
  const entries = Object.entries(checks).map(async ([name, check]): Promise<[string, boolean]> => [
    name,
    await within(check),
  ]);
  return Object.fromEntries(await Promise.all(entries));
}

async function within(check: () => Promise<boolean>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, checkTimeoutMs, false);
  });
  try {
    return await Promise.race([check().catch(() => false), late]);
  } finally {
    clearTimeout(timer);
  }
}

interface JobCheckParts {
  connection: Connection;
  namespace: string;
  /** Task queues that must be polled. */
  queues: readonly { queue: string; task: TaskKind }[];
  /** Whether those who poll a queue are enough for this process. */
  isPolled: (pollers: readonly string[]) => boolean;
}

/** Probes come often; the server need not be asked each time. */
const pollersAgeMaxMs = 5000;

/** What every process needs: its database. */
export function databaseChecks(pool: DatabasePool): Checks {
  return {
    postgres: async () => {
      await pool.query(command`SELECT 1`);
      return true;
    },
  };
}

/** Checks of what Studio jobs need besides the database: a Temporal server, and a poller on every queue. */
export function jobChecks(parts: JobCheckParts): Checks {
  const { connection, namespace, queues } = parts;
  return {
    temporal: async () => {
      await connection.workflowService.getSystemInfo({});
      return true;
    },
    pollers: remembered(async () => {
      const states = await Promise.all(
        queues.map((queue) => describeTaskQueue(connection, namespace, queue)),
      );
      return states.every(({ pollers }) => parts.isPolled(pollers));
    }, pollersAgeMaxMs),
  };
}
