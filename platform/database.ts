/**
 * Postgres: one pool per process. Queries are slonik's `sql` tag only; int8 becomes a number that is
 * asserted to be a safe integer, timestamps become Unix milliseconds.
 */
import { createPool, createTypeParserPreset, type DatabasePool, type Interceptor } from 'slonik';
import { assert } from '../domain/assert.ts';
import { withoutCorrelation } from './correlation.ts';
import type { Logger } from './logger.ts';
import type { Metrics } from './metrics.ts';

export type { DatabasePool };

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
  metrics?: Metrics | null;
}

/** Opens the pool. Connections are made when first used; a lost server is met by the next query. */
export async function openDatabase(options: DatabaseOptions): Promise<DatabasePool> {
  const pool = await createPool(options.url, {
    maxPoolSize: options.poolMax,
    minPoolSize: 1,
    idleTimeout: 60_000,
    connectionTimeout: 5000,
    statementTimeout: 15_000,
    // Slonik would repeat a statement whose connection broke. Whoever may repeat one decides that.
    queryRetryLimit: 0,
    transactionRetryLimit: 0,
    // `DISCARD ALL` after each query would double the round trips; we keep no session state.
    resetConnection: () => Promise.resolve(),
    typeParsers: [
      ...createTypeParserPreset().filter((parser) => parser.name !== 'int8'),
      safeInteger,
    ],
    ...(options.metrics && { interceptors: [timeWaits(options.metrics)] }),
  });
  pool.on('error', (error) =>
    // Whoever happened to open the connection has nothing to do with its end.
    withoutCorrelation(() => options.logger.warn({ error }, 'database.connection_lost')),
  );
  if (options.metrics) countConnections(pool, options.metrics);
  return pool;
}

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
