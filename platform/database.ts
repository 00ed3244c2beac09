/**
 * Opens the Postgres pool of a process. All queries use slonik's `sql` tag, and each row is checked
 * against the schema of its query. A value of type int8 becomes a number, which must be a safe
 * integer; a timestamp becomes Unix milliseconds.
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
import { withoutCorrelation, type Logger } from './logger.ts';
import { isReadOnlyError } from './database-errors.ts';
import { formatSlonikUrl, parseDatabaseUrl } from './database-url.ts';
import type { Metrics } from './metrics.ts';
import { limitQueries } from './query-limits.ts';

export type { DatabasePool };

/** Template tag for SQL statements that return no rows. */
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
 * Maximum time for which a connection may stay silent during a query. After that it is closed,
 * because the pool would otherwise wait forever for a server or network that does not respond.
 */
const silenceTimeoutMs = 12_000;
// The driver's default is changed, because slonik has no option for this timeout.
driverDefaults.query_timeout = silenceTimeoutMs;

/** Error for a row that does not match the schema of its query. */
class RowError extends Error {
  override readonly name = 'RowError';
}

/**
 * Opens the pool. A query opens a new connection if none is free, so the pool recovers after an
 * outage of the server.
 */
export async function openDatabase(options: DatabaseOptions): Promise<DatabasePool> {
  const pool = await openPool(options).catch((error: unknown) => {
    const refused =
      error instanceof Error ? /unsupported startup parameter/.exec(error.message) : null;
    if (!refused) throw error;
    throw new Error(
      'DATABASE_URL: the pooler rejects the parameters of the connection; PgBouncer needs' +
        ' ignore_startup_parameters = statement_timeout, idle_in_transaction_session_timeout',
      { cause: error },
    );
  });
  pool.on('error', (error) =>
    // The error is logged without the correlation ids of the request that opened the connection.
    withoutCorrelation(() => options.logger.warn({ error }, 'database.connection_lost')),
  );
  if (options.metrics) countConnections(pool, options.metrics);
  limitQueries(pool, options.poolMax);
  return pool;
}

async function openPool(options: DatabaseOptions): Promise<DatabasePool> {
  const address = parseDatabaseUrl(options.url);
  const pool = await createPool(formatSlonikUrl(address), {
    ...(address.ssl && { ssl: address.ssl }),
    maxPoolSize: options.poolMax,
    minPoolSize: 1,
    idleTimeout: 60_000,
    // Not shorter, because a busy machine may need seconds to open many connections.
    connectionTimeout: silenceTimeoutMs,
    connectionRetryLimit: 1,
    gracefulTerminationTimeout: 500,
    statementTimeout: statementTimeoutMs,
    // slonik does not retry a query after a lost connection, because only the caller of the query
    // knows whether the statement may run twice.
    queryRetryLimit: 0,
    transactionRetryLimit: 0,
    // slonik's `DISCARD ALL` after each query is disabled. It would double the round trips, and the
    // gateway uses no session state.
    resetConnection: () => Promise.resolve(),
    typeParsers: [
      ...createTypeParserPreset().filter((parser) => parser.name !== 'int8'),
      safeInteger,
    ],
    interceptors: [
      checkRows,
      leaveReadOnlyServer(() => pool),
      ...(options.metrics ? [measureWaits(options.metrics)] : []),
    ],
  });
  return pool;
}

/** Interceptor that checks each row against its query's schema, because slonik does not. */
const checkRows: Interceptor = {
  name: 'check-rows',
  transformRow({ resultParser }, query, row) {
    const validation = resultParser?.['~standard'].validate(row);
    assert(!(validation instanceof Promise), 'a row schema must validate synchronously');
    // The error does not contain the row, because its contents must not be logged.
    if (validation?.issues) {
      throw new RowError(`${JSON.stringify(validation.issues)} in a row of ${query.sql}`);
    }
    return row;
  },
};

/** Minimum time between two replacements of the idle connections, in milliseconds. */
const replaceIntervalMs = 1000;

/**
 * Creates an interceptor that closes the idle connections when a server refuses a write because it
 * is read-only. After a failover they may lead to the former primary, and new connections to the
 * new one. slonik itself closes the connection of the failed query.
 */
function leaveReadOnlyServer(getPool: () => DatabasePool): Interceptor {
  let replacedAtMs = -Infinity;
  return {
    name: 'leave-read-only-server',
    queryExecutionError(_context, _query, error) {
      if (isReadOnlyError(error) && performance.now() - replacedAtMs > replaceIntervalMs) {
        replacedAtMs = performance.now();
        const pool = getPool();
        for (let count = pool.state().idleConnections; count > 0; count -= 1) {
          // slonik closes a connection whose handler throws.
          pool.connect(() => Promise.reject(error)).catch(() => {});
        }
      }
      return null;
    },
  };
}

/** Creates an interceptor that measures how long queries wait for a connection. */
function measureWaits({ poolWaitSeconds }: Metrics): Interceptor {
  // slonik passes the same context object to both hooks.
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
