/**
 * Postgres: one pool per process. Queries are slonik's `sql` tag only; each row is checked against
 * the schema of its query. int8 becomes a number that is asserted to be a safe integer, timestamps
 * become Unix milliseconds.
 */
import { defaults as driverDefaults } from 'pg';
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
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import { correlation, withoutCorrelation } from './correlation.ts';
import { createFairLimiter } from './fair-limiter.ts';
import type { Logger } from './logger.ts';
import type { Metrics } from './metrics.ts';

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

/**
 * Time limit of a query, including its wait for a connection; then the query fails as if the
 * database were unreachable.
 */
const answerTimeoutMs = 15_000;
/**
 * Maximum number of unfinished queries; further queries fail at once, because so many wait only if
 * the database does not respond.
 */
const underWayMax = 5000;

/**
 * Error of a query to which the database did not respond in time, or that would wait behind too
 * many others.
 */
class DatabaseSilentError extends Error {
  override readonly name = 'DatabaseSilentError';
}

/** Error of a row that does not match the schema of its query. */
class RowError extends Error {
  override readonly name = 'RowError';
}

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
 * Limits the time and the number of queries, because the pool itself lets queries wait without a
 * limit while the server does not respond. Slow queries of one organization must not occupy all
 * connections, so the queries of an organization's requests wait for a fair share of the
 * connections. Queries for several organizations (batches, sweeps) do not wait.
 */
function boundQueries(pool: DatabasePool, poolMax: number): void {
  let underWay = 0;
  const shares = createFairLimiter(poolMax);

  async function enter(): Promise<() => void> {
    const { organizationId } = correlation();
    if (organizationId === undefined) return () => {};
    const leave = await shares.enter(organizationId, answerTimeoutMs);
    if (!leave) throw new DatabaseSilentError('the organization has too many slow queries');
    return leave;
  }

  const bounded =
    (query: (...values: unknown[]) => Promise<unknown>) =>
    async (...values: unknown[]): Promise<unknown> => {
      const leave = await enter();
      if (underWay >= underWayMax) {
        leave();
        throw new DatabaseSilentError('too many wait for the database');
      }
      underWay += 1;
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<never>((_, reject) => {
        const give = (): void => reject(new DatabaseSilentError('the database does not answer'));
        timer = setTimeout(give, answerTimeoutMs);
      });
      const answer = query(...values).finally(() => {
        underWay -= 1;
        leave();
      });
      // A query that fails after its time limit must not cause an unhandled rejection.
      answer.catch(() => {});
      try {
        return await Promise.race([answer, late]);
      } finally {
        clearTimeout(timer);
      }
    };
  for (const name of queryMethods) {
    const query: unknown = Reflect.get(pool, name);
    assert(typeof query === 'function', `the pool has the method ${name}`);
    Reflect.set(
      pool,
      name,
      bounded((...values) => Reflect.apply(query, pool, values)),
    );
  }
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

/** Messages of the driver, which have no code, about a broken or closed connection. */
const lostConnection =
  /Query read timeout|Connection terminated|timeout expired|timeout exceeded when trying to connect/i;

/** SQLSTATE of a lock that was not available within `lock_timeout`. */
const lockNotAvailable = '55P03';

/** Checks whether an error is a lock timeout. */
export function isLockTimeout(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && cause.code === lockNotAvailable) return true;
  }
  return false;
}

/** Returns whether an error means that the database is unreachable, so that a retry may succeed. */
export function isDatabaseAway(error: unknown): boolean {
  if (isLockTimeout(error)) return true;
  if (error instanceof ConnectionError || error instanceof BackendTerminatedError) return true;
  if (error instanceof BackendTerminatedUnexpectedlyError) return true;
  if (error instanceof StatementTimeoutError || error instanceof DatabaseSilentError) return true;
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  // Class 57P: shutting down or starting; 53: out of connections, memory or disk; 08: connection
  // errors.
  return (
    /^(57P|53|08|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT)/.test(code) ||
    lostConnection.test(error.message)
  );
}
