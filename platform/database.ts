/**
 * Opens the Postgres pool of a process. All queries use slonik's `sql` tag, and each row is checked
 * against the schema of its query. A value of type int8 becomes a number, which must be a safe
 * integer; a timestamp becomes Unix milliseconds.
 */
import {
  BackendTerminatedError,
  BackendTerminatedUnexpectedlyError,
  ConnectionError,
  StatementTimeoutError,
  createPool,
  createTypeParserPreset,
  sql,
  type DatabasePool,
  type Interceptor,
} from 'slonik';
import { defaults as driverDefaults } from 'pg';
import type { Options } from 'p-retry';
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import { withoutCorrelation, type Logger, correlation } from './logger.ts';
import { explainPoolerRefusal, formatSlonikUrl, parseDatabaseUrl } from './database-url.ts';
import type { Metrics } from './metrics.ts';
import { createShares } from './shares.ts';

/**
 * Error of a query to which the database did not respond in time, or that was not sent because too
 * many other queries were waiting.
 */
class DatabaseSilentError extends Error {
  override readonly name = 'DatabaseSilentError';
}

/** Pattern of the driver's messages about a lost connection. These errors have no error code. */
const lostConnection =
  /Query read timeout|Connection terminated|timeout expired|timeout exceeded when trying to connect/i;

/**
 * SQLSTATE classes and codes of errors after which a retry may succeed: 08 connection failed, 28
 * credentials rejected and 3D000 no database (both while connecting), 25006 read-only server, 25P03
 * and 25P04 session or transaction timeout, 40001 and 40P01 conflict with another transaction, 53
 * no connections, memory or disk left, 55P03 lock not available, 57P shutdown or start, 58 error of
 * the operating system. The others are errors of the network.
 */
const temporaryCodes =
  /^(08|28|3D000|25006|25P0[34]|40001|40P01|53|55P03|57P|58|ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|ENOTFOUND|EAI_AGAIN)/;

/** Returns whether an error, or one of its causes, has a code that matches the pattern. */
function hasCode(error: unknown, pattern: RegExp): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && pattern.test(String(cause.code))) return true;
  }
  return false;
}

/** Returns whether an error, or one of its causes, is a lock timeout. */
export const isLockTimeout = (error: unknown): boolean => hasCode(error, /^55P03$/);

/** Returns whether the server refused a statement because it or the session is read-only. */
const isReadOnlyError = (error: unknown): boolean => hasCode(error, /^25006$/);

/**
 * Returns whether an error is a conflict with another transaction, which does not occur if the
 * operations of a batch run separately.
 */
export const isConflict = (error: unknown): boolean => hasCode(error, /^(40001|40P01)$/);

/** Returns whether an error means that the database is unavailable, so that a retry may succeed. */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (error instanceof ConnectionError || error instanceof BackendTerminatedError) return true;
  if (error instanceof BackendTerminatedUnexpectedlyError) return true;
  if (error instanceof StatementTimeoutError || error instanceof DatabaseSilentError) return true;
  if (!(error instanceof Error)) return false;
  return hasCode(error, temporaryCodes) || lostConnection.test(error.message);
}

/** Retry options of database writes, which are retried while the database is unavailable. */
export const databaseRetries = {
  retries: Infinity,
  minTimeout: 100,
  maxTimeout: 2000,
  shouldRetry: ({ error }) => isDatabaseUnavailable(error),
} satisfies Options;

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
    throw explainPoolerRefusal(error) ?? error;
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

/**
 * Time limit of a query, including its wait for a connection. After that, the query fails as if the
 * database were unreachable.
 */
const queryTimeoutMs = 15_000;
/**
 * Maximum number of unfinished queries; further queries fail immediately. The number is reached
 * only if the database does not respond.
 */
const unfinishedQueriesMax = 5000;

/** Methods of the pool that run one query. */
const queryMethods = [
  'any',
  'anyFirst',
  'exists',
  'many',
  'manyFirst',
  'maybeOne',
  'maybeOneFirst',
  'one',
  'oneFirst',
  'query',
] as const;

/**
 * Limits the duration and the number of queries. Without these limits, queries would wait forever
 * for a server that does not respond. The queries and transactions of an organization's requests
 * also wait for a fair share of the connections, so that one organization cannot occupy all of
 * them. Queries for several organizations (batches, sweeps) do not wait for a share.
 */
function limitQueries(pool: DatabasePool, poolMax: number): void {
  let unfinishedQueries = 0;
  const shares = createShares(poolMax);

  async function takeSlot(): Promise<() => void> {
    const { organizationId } = correlation();
    if (organizationId === undefined) return () => {};
    const release = await shares.enter(organizationId, queryTimeoutMs);
    if (!release) throw new DatabaseSilentError('the organization has too many slow queries');
    return release;
  }

  const withLimits =
    (query: (...values: unknown[]) => Promise<unknown>) =>
    async (...values: unknown[]): Promise<unknown> => {
      if (unfinishedQueries >= unfinishedQueriesMax) {
        throw new DatabaseSilentError('too many queries are waiting for the database');
      }
      const release = await takeSlot();
      unfinishedQueries += 1;
      let timer: NodeJS.Timeout | undefined;
      const timeout = new Promise<never>((_, reject) => {
        const fail = (): void => reject(new DatabaseSilentError('the database does not respond'));
        timer = setTimeout(fail, queryTimeoutMs);
      });
      const result = query(...values).finally(() => {
        unfinishedQueries -= 1;
        release();
      });
      // A query that fails after its time limit must not cause an unhandled rejection.
      result.catch(() => {});
      try {
        return await Promise.race([result, timeout]);
      } finally {
        clearTimeout(timer);
      }
    };
  const withShare: typeof withLimits =
    (transact) =>
    async (...values) => {
      const release = await takeSlot();
      try {
        return await transact(...values);
      } finally {
        release();
      }
    };
  function replaceMethod(name: string, wrap: typeof withLimits): void {
    const method: unknown = Reflect.get(pool, name);
    assert(typeof method === 'function', `the pool has no method ${name}`);
    Reflect.set(
      pool,
      name,
      wrap((...values) => Reflect.apply(method, pool, values)),
    );
  }
  for (const name of queryMethods) replaceMethod(name, withLimits);
  replaceMethod('transaction', withShare);
}
