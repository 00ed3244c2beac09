/**
 * Postgres: one pool per process. Queries are slonik's `sql` tag only; int8 becomes a number that is
 * asserted to be a safe integer, timestamps become Unix milliseconds.
 */
import { createPool, createTypeParserPreset, type DatabasePool } from 'slonik';
import { assert } from '../domain/assert.ts';
import type { Logger } from './logger.ts';

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
  });
  pool.on('error', (error) => options.logger.warn({ error }, 'database.connection_lost'));
  return pool;
}
