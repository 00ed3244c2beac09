/** Checks the readiness of a process. Each check has a name and a time limit. */
import type { ConnectionLike } from '@temporalio/client';
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import type { Storage } from '../storage/storage.ts';
import { describeTaskQueue, cacheResult, type TaskKind } from '../platform/temporal.ts';

/** Readiness checks by name. Each returns whether a dependency of the process is usable now. */
export type Checks = Record<string, () => Promise<boolean>>;

/** Readiness checks of a process. */
export interface Readiness {
  /** Checks of the dependencies without which the process cannot serve any request. */
  required: Checks;
  /**
   * Checks of the dependencies without which the process can serve only some requests. It then
   * reports that it is degraded.
   */
  optional: Checks;
  /** Reads the days until each client certificate ends, by the variable that names its file. */
  readCertificateDays?: () => Promise<Record<string, number>>;
}

/** Response body of `/readyz`. */
export interface ReadinessReport {
  ready: boolean;
  status: 'ready' | 'degraded' | 'not ready';
  checks: Record<string, boolean>;
  /** Duration of each check. */
  milliseconds: Record<string, number>;
  certificateDays: Record<string, number>;
}

const checkTimeoutMs = 3000;

const readOnlyRow = z.object({ isReadOnly: z.boolean() });

/** Runs all checks in parallel. A check fails if it throws or exceeds its time limit. */
export async function checkReadiness(readiness: Readiness): Promise<ReadinessReport> {
  const milliseconds: Record<string, number> = {};
  const runAll = async (checks: Checks): Promise<Record<string, boolean>> => {
    const entries = Object.entries(checks).map(async ([name, check]) => {
      const startedAt = performance.now();
      const isUsable = await runWithTimeout(check);
      milliseconds[name] = Math.round(performance.now() - startedAt);
      return [name, isUsable] as const;
    });
    return Object.fromEntries(await Promise.all(entries));
  };
  const [required, optional] = await Promise.all([
    runAll(readiness.required),
    runAll(readiness.optional),
  ]);
  const ready = Object.values(required).every(Boolean);
  const status = !ready
    ? 'not ready'
    : Object.values(optional).every(Boolean)
      ? 'ready'
      : 'degraded';
  const certificateDays = (await readiness.readCertificateDays?.()) ?? {};
  return { ready, status, checks: { ...required, ...optional }, milliseconds, certificateDays };
}

async function runWithTimeout(check: () => Promise<boolean>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, checkTimeoutMs, false);
  });
  try {
    return await Promise.race([check().catch(() => false), timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** Maximum age of the store's state, because each check costs a request. */
const storageAgeMaxMs = 15_000;

/** Creates the check of the storage. Its failures are logged, because they contain the reason. */
export function storageChecks(storage: Storage, logger: Logger) {
  return {
    storage: cacheResult(async () => {
      try {
        await storage.check();
        return true;
      } catch (error) {
        logger.error({ error }, 'storage.unusable');
        throw error;
      }
    }, storageAgeMaxMs),
  };
}

interface JobCheckParts {
  connection: ConnectionLike;
  namespace: string;
  /** Task queues that workers must poll. */
  queues: readonly { queue: string; task: TaskKind }[];
  /** Returns whether the pollers of a queue are sufficient for this process. */
  isPolled: (pollers: readonly string[]) => boolean;
}

/** Maximum age of the pollers' state, which is reused because probes are frequent. */
const pollersAgeMaxMs = 5000;

/**
 * Creates the check of the database, which every process needs. A standby and a server in read-only
 * mode answer queries but accept no write.
 */
export function databaseChecks(pool: DatabasePool): Checks {
  return {
    // slonik closes a connection whose handler throws: the next check may reach another server.
    postgres: () =>
      pool.connect(async (connection) => {
        const isReadOnly = await connection.oneFirst(sql.type(readOnlyRow)`
          SELECT current_setting('transaction_read_only')::boolean AS "isReadOnly"`);
        if (isReadOnly) throw new Error('the server is read-only');
        return true;
      }),
  };
}

/** Creates the additional checks for Studio jobs: the Temporal server, a poller on every queue. */
export function jobChecks(parts: JobCheckParts): Checks {
  const { connection, namespace, queues } = parts;
  return {
    temporal: async () => {
      await connection.withDeadline(Date.now() + checkTimeoutMs, () =>
        connection.workflowService.getSystemInfo({}),
      );
      return true;
    },
    pollers: cacheResult(async () => {
      const states = await Promise.all(
        queues.map((queue) => describeTaskQueue(connection, namespace, queue)),
      );
      return states.every(({ pollers }) => parts.isPolled(pollers));
    }, pollersAgeMaxMs),
  };
}
