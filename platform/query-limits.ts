/** Limits the duration and number of a pool's queries. */
import type { DatabasePool } from 'slonik';
import { assert } from '../domain/errors.ts';
import { correlation } from './correlation.ts';
import { DatabaseSilentError } from './database-errors.ts';
import { createFairLimiter } from './fair-limiter.ts';

/**
 * Time limit of a query, including its wait for a connection. Beyond it, the query fails as if the
 * database were unreachable.
 */
const queryTimeoutMs = 15_000;
/**
 * Maximum number of unfinished queries; further queries fail immediately. This many are unfinished
 * only if the database does not respond.
 */
const unfinishedMax = 5000;

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
 * Limits the duration and number of queries, because the pool itself lets queries wait forever
 * while the server does not respond. Queries of an organization's requests also wait for a fair
 * share of the connections, so that one organization's slow queries cannot occupy all of them.
 * Queries for several organizations (batches, sweeps) do not wait.
 */
export function limitQueries(pool: DatabasePool, poolMax: number): void {
  let unfinished = 0;
  const shares = createFairLimiter(poolMax);

  async function enter(): Promise<() => void> {
    const { organizationId } = correlation();
    if (organizationId === undefined) return () => {};
    const release = await shares.enter(organizationId, queryTimeoutMs);
    if (!release) throw new DatabaseSilentError('the organization has too many slow queries');
    return release;
  }

  const limit =
    (query: (...values: unknown[]) => Promise<unknown>) =>
    async (...values: unknown[]): Promise<unknown> => {
      const release = await enter();
      if (unfinished >= unfinishedMax) {
        release();
        throw new DatabaseSilentError('too many queries are waiting for the database');
      }
      unfinished += 1;
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<never>((_, reject) => {
        const fail = (): void => reject(new DatabaseSilentError('the database does not respond'));
        timer = setTimeout(fail, queryTimeoutMs);
      });
      const result = query(...values).finally(() => {
        unfinished -= 1;
        release();
      });
      // A query that fails after its time limit must not cause an unhandled rejection.
      result.catch(() => {});
      try {
        return await Promise.race([result, late]);
      } finally {
        clearTimeout(timer);
      }
    };
  for (const name of queryMethods) {
    const query: unknown = Reflect.get(pool, name);
    assert(typeof query === 'function', `the pool has no method ${name}`);
    Reflect.set(
      pool,
      name,
      limit((...values) => Reflect.apply(query, pool, values)),
    );
  }
}
