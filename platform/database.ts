/**
 * Postgres: one pool per process. Queries are slonik's `sql` tag only; each row is checked against the schema of
 * its query. int8 becomes a number that is asserted to be a safe integer, timestamps become Unix milliseconds.
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
import { withoutCorrelation } from './correlation.ts';
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
  /** Absent in tools, which nobody scrapes. */
  metrics?: Metrics;
}

/** A statement that takes longer is broken off by the server. */
const statementTimeoutMs = 10_000;
/**
 * A server that says nothing for this long is gone without a word: frozen, or behind a network that
 * was cut. The connection is given up, so that the pool does not wait for it for ever.
 */
const silenceTimeoutMs = 12_000;
// slonik has no option for it; the driver reads its defaults at every connection.
driverDefaults.query_timeout = silenceTimeoutMs;

/** Waiting for a connection included: whoever asks is told by then that the database is away. */
const answerTimeoutMs = 15_000;
/** More questions under way than this are not waited for: it has been long silent. */
const underWayMax = 5000;

/** The database did not answer in time, or so many wait for it that asking is in vain. */
class DatabaseSilentError extends Error {
  override readonly name = 'DatabaseSilentError';
}

/** A row is not what the schema of its query says. */
class RowError extends Error {
  override readonly name = 'RowError';
}

/** The methods that ask one question. */
const questions = [
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
 * Bounds how long a question may take, and how many there may be: the pool itself makes callers wait
 * for a connection without an end, one after the other, while the server is frozen.
 */
function boundQuestions(pool: DatabasePool): void {
  let underWay = 0;
  const bounded =
    (ask: (...given: unknown[]) => Promise<unknown>) =>
    async (...given: unknown[]): Promise<unknown> => {
      if (underWay >= underWayMax) throw new DatabaseSilentError('too many wait for the database');
      underWay += 1;
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<never>((_, reject) => {
        const give = (): void => reject(new DatabaseSilentError('the database does not answer'));
        timer = setTimeout(give, answerTimeoutMs);
      });
      const asked = ask(...given).finally(() => {
        underWay -= 1;
      });
      // Whoever asked may be gone when the pool gives up.
      asked.catch(() => {});
      try {
        return await Promise.race([asked, late]);
      } finally {
        clearTimeout(timer);
      }
    };
  for (const name of questions) {
    const ask: unknown = Reflect.get(pool, name);
    assert(typeof ask === 'function', `the pool has the method ${name}`);
    Reflect.set(
      pool,
      name,
      bounded((...given) => Reflect.apply(ask, pool, given)),
    );
  }
}

/** Opens the pool. Connections are made when first used; a lost server is met by the next query. */
export async function openDatabase(options: DatabaseOptions): Promise<DatabasePool> {
  const pool = await createPool(options.url, {
    maxPoolSize: options.poolMax,
    minPoolSize: 1,
    idleTimeout: 60_000,
    // Not shorter: a busy machine takes seconds for the connections of a first burst.
    connectionTimeout: silenceTimeoutMs,
    connectionRetryLimit: 1,
    gracefulTerminationTimeout: 500,
    statementTimeout: statementTimeoutMs,
    // Slonik would repeat a statement whose connection broke. Whoever may repeat one decides that.
    queryRetryLimit: 0,
    transactionRetryLimit: 0,
    // `DISCARD ALL` after each query would double the round trips; we keep no session state.
    resetConnection: () => Promise.resolve(),
    typeParsers: [
      ...createTypeParserPreset().filter((parser) => parser.name !== 'int8'),
      safeInteger,
    ],
    interceptors: [checkRows, ...(options.metrics ? [timeWaits(options.metrics)] : [])],
  });
  pool.on('error', (error) =>
    // Whoever happened to open the connection has nothing to do with its end.
    withoutCorrelation(() => options.logger.warn({ error }, 'database.connection_lost')),
  );
  if (options.metrics) countConnections(pool, options.metrics);
  boundQuestions(pool);
  return pool;
}

/** Slonik itself uses the schema of a query as a type only. */
const checkRows: Interceptor = {
  name: 'check-rows',
  transformRow({ resultParser }, query, row) {
    const checked = resultParser?.['~standard'].validate(row);
    assert(!(checked instanceof Promise), 'a row is checked at once');
    // Without the row, whose contents must not reach logs.
    if (checked?.issues) {
      throw new RowError(`${JSON.stringify(checked.issues)} in a row of ${query.sql}`);
    }
    return row;
  },
};

/** Measures how long queries wait for a connection. */
function timeWaits({ poolWaitSeconds }: Metrics): Interceptor {
  // The driver hands the same context to both hooks.
  const askedAtMs = new WeakMap<object, number>();
  return {
    name: 'pool-waits',
    beforePoolConnection(context) {
      askedAtMs.set(context, performance.now());
      return null;
    },
    afterPoolConnection(context) {
      const startedAtMs = askedAtMs.get(context);
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

/** What the driver says, without a code, of a connection that broke or was given up. */
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

/** Whether an error means that the database is away: the same may work in a moment. */
export function isDatabaseAway(error: unknown): boolean {
  if (isLockTimeout(error)) return true;
  if (error instanceof ConnectionError || error instanceof BackendTerminatedError) return true;
  if (error instanceof BackendTerminatedUnexpectedlyError) return true;
  if (error instanceof StatementTimeoutError || error instanceof DatabaseSilentError) return true;
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  // Class 57P: shutting down or starting up; 53: out of connections, memory or disk; 08: connections.
  return (
    /^(57P|53|08|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT)/.test(code) ||
    lostConnection.test(error.message)
  );
}
