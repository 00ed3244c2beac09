/** Limits of the time and the number of queries of a pool. */
import type { DatabasePool } from 'slonik';
import { assert } from '../domain/errors.ts';
import { correlation } from './correlation.ts';
import { DatabaseSilentError } from './database-errors.ts';
import { createFairLimiter } from './fair-limiter.ts';

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
export function boundQueries(pool: DatabasePool, poolMax: number): void {
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
