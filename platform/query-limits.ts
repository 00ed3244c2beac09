/** Limits the duration and the number of the queries of a database pool. */
import type { DatabasePool } from 'slonik';
import { assert } from '../domain/errors.ts';
import { correlation } from './logger.ts';
import { DatabaseSilentError } from './database-errors.ts';
import { createShares } from './shares.ts';

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
export function limitQueries(pool: DatabasePool, poolMax: number): void {
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
