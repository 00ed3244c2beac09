/** A new, migrated database for one test file. */
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { inject } from 'vitest';
import type { Balance } from '../../domain/credits.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { during } from './during.ts';

/** A row of a job. */
interface JobRow {
  id: string;
  type: string;
  status: string;
  model: string;
  request: Record<string, unknown>;
}

/** A database; `drop` deletes it. */
export type TestDatabase = Awaited<ReturnType<typeof createTestDatabase>>;

/** Copies the template database. */
export async function createTestDatabase() {
  const templateUrl = inject('templateDatabaseUrl');
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  const replaceDatabase = (database: string): string =>
    templateUrl.replace(/\/[^/]*$/, `/${database}`);
  // A busy test machine can pause longer than the timeout of the product’s connections allows.
  const query_timeout = 240_000;
  const admin = new Client({ connectionString: replaceDatabase('postgres'), query_timeout });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name} TEMPLATE template_gateway`);
  const client = new Client({ connectionString: replaceDatabase(name), query_timeout });
  await client.connect();
  // The last step of a file drops the database while this connection is open.
  client.on('error', () => {});
  /** Runs a statement and returns its rows. */
  const query = async <Row extends object>(text: string, values?: unknown[]): Promise<Row[]> =>
    (await client.query(text, values)).rows;
  return {
    url: replaceDatabase(name),
    query,
    /** Returns the rows of `ledger_audit`: violations of the ledger’s promises. */
    audit: () =>
      query<{ finding: string; subject: string }>('SELECT finding, subject FROM ledger_audit'),
    /** Returns the balance of an organization, in micro-credits. */
    async balance(organizationId: string): Promise<Balance | null> {
      const [found] = await query<Balance>(
        `SELECT posted::float8, reserved::float8, (posted - reserved)::float8 AS available
          FROM account WHERE organization_id = $1`,
        [organizationId],
      );
      return found ?? null;
    },
    /** Returns the kinds of the ledger entries of a job or chat, in their order. */
    async entryKinds(reservationId: string): Promise<string[]> {
      const text = 'SELECT kind FROM ledger_entry WHERE reservation_id = $1 ORDER BY sequence';
      return (await query<{ kind: string }>(text, [reservationId])).map(({ kind }) => kind);
    },
    /** Returns the jobs of an organization, oldest first. */
    jobs: (organizationId: string) =>
      query<JobRow>(
        `SELECT id, type, status, model, request FROM job WHERE organization_id = $1
          ORDER BY created_at, id`,
        [organizationId],
      ),
    /** Returns the provider notifications of a job. */
    notifications: (jobId: string) =>
      query<{ state: string; deliveries: number }>(
        'SELECT state, deliveries FROM provider_notification WHERE job_id = $1',
        [jobId],
      ),
    /** Returns the ids of the uploads of an organization, oldest first. */
    async uploadIds(organizationId: string): Promise<string[]> {
      const text = 'SELECT id FROM upload WHERE organization_id = $1 ORDER BY created_at, id';
      return (await query<{ id: string }>(text, [organizationId])).map(({ id }) => id);
    },
    async drop(): Promise<void> {
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
