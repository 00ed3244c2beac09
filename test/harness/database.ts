/** A new, migrated database for one test file. */
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { inject } from 'vitest';
import type { Balance } from '../../jobs/ledger-results.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { during } from './during.ts';

/** A database; `drop` deletes it. */
export interface TestDatabase {
  url: string;
  /** Runs a statement and returns its rows. */
  query: <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>;
  /** Returns the rows of `ledger_audit`: violations of the ledger’s promises. */
  audit: () => Promise<{ finding: string; subject: string }[]>;
  /** The balance of an organization, micro-credits. */
  balance: (organizationId: string) => Promise<Balance | null>;
  drop: () => Promise<void>;
}

/** Copies the template database. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const templateUrl = inject('templateDatabaseUrl');
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  const urlOf = (database: string): string => templateUrl.replace(/\/[^/]*$/, `/${database}`);
  // A busy test machine can pause longer than the timeout of the product’s connections allows.
  const query_timeout = 240_000;
  const admin = new Client({ connectionString: urlOf('postgres'), query_timeout });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name} TEMPLATE template_gateway`);
  const client = new Client({ connectionString: urlOf(name), query_timeout });
  await client.connect();
  // The last step of a file drops the database while this connection is open.
  client.on('error', () => {});
  const query: TestDatabase['query'] = async (text, values) =>
    (await client.query(text, values)).rows;
  return {
    url: urlOf(name),
    query,
    audit: () => query('SELECT finding, subject FROM ledger_audit'),
    async balance(organizationId) {
      const [found] = await query<Balance>(
        `SELECT posted::float8, reserved::float8, (posted - reserved)::float8 AS available
          FROM account WHERE organization_id = $1`,
        [organizationId],
      );
      return found ?? null;
    },
    async drop() {
      await client.end();
      await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
      await admin.end();
    },
  };
}

/** A database of the tests of a file, with a pool like those of the gateway. */
export function useDatabase(): TestDatabase & { pool: DatabasePool } {
  return during(async () => {
    const database = await createTestDatabase();
    const logger = createLogger('test', 'silent');
    const pool = await openDatabase({ url: database.url, poolMax: 4, logger });
    const close = async (): Promise<void> => {
      await pool.end();
      await database.drop();
    };
    return { ...database, pool, close };
  });
}
