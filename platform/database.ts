/**
 * Postgres: one pool per process. Queries are slonik's `sql` tag only; each row is checked against
 * the schema of its query. int8 becomes a number that is asserted to be a safe integer, timestamps
 * become Unix milliseconds.
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
import { boundQueries } from './query-limits.ts';

export type { DatabasePool };

/** Makes a statement that returns no rows. */
export const command = sql.type(z.object({}));

const safeInteger = {
  name: 'int8',
  parse(value: string): number {
    const parsed = Number(value);
    assert(Number.isSafeInteger(parsed), 'an int8 column holds a safe integer');
    return parsed;
  },
};

interface DatabaseOptions {
  url: string;
  poolMax: number;
  logger: Logger;
  /** Metrics of the process; absent in tools. */
  metrics?: Metrics;
}

/** Time limit of a statement, enforced by the server. */
const statementTimeoutMs = 10_000;
/**
 * Time without data after which a connection is closed, because the server or the network does not
 * respond. Otherwise the pool would wait for the connection forever.
 */
const silenceTimeoutMs = 12_000;
// slonik has no option for this timeout, so it is set in the defaults of the driver.
driverDefaults.query_timeout = silenceTimeoutMs;

/** Error of a row that does not match the schema of its query. */
class RowError extends Error {
  override readonly name = 'RowError';
}

/**
 * Opens the pool. Connections are opened when they are first used; a query opens a new one after
 * the server was lost.
 */
export async function openDatabase(options: DatabaseOptions): Promise<DatabasePool> {
  const pool = await createPool(options.url, {
    maxPoolSize: options.poolMax,
    minPoolSize: 1,
    idleTimeout: 60_000,
    // Not shorter, because a busy machine may need seconds to open many connections at once.
    connectionTimeout: silenceTimeoutMs,
    connectionRetryLimit: 1,
    gracefulTerminationTimeout: 500,
    statementTimeout: statementTimeoutMs,
    // No retries by slonik after a lost connection, because only the caller of the query knows
    // whether the statement may run twice.
    queryRetryLimit: 0,
    transactionRetryLimit: 0,
    // No `DISCARD ALL` after each query, which would double the round trips; the gateway uses no
    // session state.
    resetConnection: () => Promise.resolve(),
    typeParsers: [
      ...createTypeParserPreset().filter((parser) => parser.name !== 'int8'),
      safeInteger,
    ],
    interceptors: [checkRows, ...(options.metrics ? [timeWaits(options.metrics)] : [])],
  });
  pool.on('error', (error) =>
    // The end of a connection is logged without the ids of the request that opened it.
    withoutCorrelation(() => options.logger.warn({ error }, 'database.connection_lost')),
  );
  if (options.metrics) countConnections(pool, options.metrics);
  boundQueries(pool, options.poolMax);
  return pool;
}

/**
 * Interceptor that checks each row against the schema of its query; slonik itself uses it only as a
 * type.
 */
const checkRows: Interceptor = {
  name: 'check-rows',
  transformRow({ resultParser }, query, row) {
    const checked = resultParser?.['~standard'].validate(row);
    assert(!(checked instanceof Promise), 'a row is checked at once');
    // The error does not contain the row, because its contents must not be logged.
    if (checked?.issues) {
      throw new RowError(`${JSON.stringify(checked.issues)} in a row of ${query.sql}`);
    }
    return row;
  },
};

/** Measures the time that queries wait for a connection. */
function timeWaits({ poolWaitSeconds }: Metrics): Interceptor {
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
