/**
 * Postgres pool of the process. All queries use slonik's `sql` tag, and each row is checked against
 * the schema of its query. int8 becomes a number (asserted to be a safe integer); timestamps become
 * Unix milliseconds.
 */
import { defaults as driverDefaults } from 'pg';
import {
  createPool,
  createTypeParserPreset,
  sql,
  type DatabasePool,
  type Interceptor,
} from 'slonik';
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import { withoutCorrelation } from './correlation.ts';
import type { Logger } from './logger.ts';
import type { Metrics } from './metrics.ts';
import { limitQueries } from './query-limits.ts';

export type { DatabasePool };

/** Builds a statement that returns no rows. */
export const command = sql.type(z.object({}));

const safeInteger = {
  name: 'int8',
  parse(value: string): number {
    const parsed = Number(value);
    assert(Number.isSafeInteger(parsed), 'an int8 value is not a safe integer');
    return parsed;
  },
};

interface DatabaseOptions {
  url: string;
  poolMax: number;
  logger: Logger;
  /** Metrics of the process; command-line tools have none. */
  metrics?: Metrics;
}

/** Time limit of a statement, enforced by the server. */
const statementTimeoutMs = 10_000;
/**
 * How long a connection may stay silent before it is closed. Otherwise the pool would wait forever
 * for a server or network that does not respond.
 */
const silenceTimeoutMs = 12_000;
// slonik has no option for this timeout, so the default of the driver is set.
driverDefaults.query_timeout = silenceTimeoutMs;

/** Row that does not match the schema of its query. */
class RowError extends Error {
  override readonly name = 'RowError';
}

/**
 * Opens the pool. A query opens a connection if none is free, so the pool recovers after the server
 * was lost.
 */
export async function openDatabase(options: DatabaseOptions): Promise<DatabasePool> {
  const pool = await createPool(options.url, {
    maxPoolSize: options.poolMax,
    minPoolSize: 1,
    idleTimeout: 60_000,
    // Not shorter, because a busy machine may need seconds to open many connections together.
    connectionTimeout: silenceTimeoutMs,
    connectionRetryLimit: 1,
    gracefulTerminationTimeout: 500,
    statementTimeout: statementTimeoutMs,
    // No retries by slonik after a lost connection, because only the caller of the query knows
    // whether the statement may run twice.
    queryRetryLimit: 0,
    transactionRetryLimit: 0,
    // No `DISCARD ALL` after each query: it would double the round trips, and the gateway uses no
    // session state.
    resetConnection: () => Promise.resolve(),
    typeParsers: [
      ...createTypeParserPreset().filter((parser) => parser.name !== 'int8'),
      safeInteger,
    ],
    interceptors: [checkRows, ...(options.metrics ? [measureWaits(options.metrics)] : [])],
  });
  pool.on('error', (error) =>
    // Logged without the ids of the request that opened the connection.
    withoutCorrelation(() => options.logger.warn({ error }, 'database.connection_lost')),
  );
  if (options.metrics) countConnections(pool, options.metrics);
  limitQueries(pool, options.poolMax);
  return pool;
}

/**
 * Interceptor that checks each row against the schema of its query, because slonik itself does not.
 */
const checkRows: Interceptor = {
  name: 'check-rows',
  transformRow({ resultParser }, query, row) {
    const checked = resultParser?.['~standard'].validate(row);
    assert(!(checked instanceof Promise), 'a row schema must validate synchronously');
    // The error does not contain the row, because its contents must not be logged.
    if (checked?.issues) {
      throw new RowError(`${JSON.stringify(checked.issues)} in a row of ${query.sql}`);
    }
    return row;
  },
};

/** Creates an interceptor that measures how long queries wait for a connection. */
function measureWaits({ poolWaitSeconds }: Metrics): Interceptor {
  // The driver passes the same context object to both hooks.
  const requestedAtMs = new WeakMap<object, number>();
  return {
    name: 'pool-waits',
    beforePoolConnection(context) {
      requestedAtMs.set(context, performance.now());
      return null;
    },
    afterPoolConnection(context) {
      const startedAtMs = requestedAtMs.get(context);
      if (startedAtMs !== undefined) {
        poolWaitSeconds.observe((performance.now() - startedAtMs) / 1000);
      }
      return null;
    },
  };
}

function countConnections(pool: DatabasePool, metrics: Metrics): void {
  metrics.onScrape(() => {
    const { acquiredConnections, idleConnections, pendingConnections, waitingClients } =
      pool.state();
    metrics.poolConnections.set({ state: 'acquired' }, acquiredConnections);
    metrics.poolConnections.set({ state: 'idle' }, idleConnections);
    metrics.poolConnections.set({ state: 'pending' }, pendingConnections);
    metrics.poolWaiting.set(waitingClients);
  });
}
