/** A database with the jobs and chats of an organization in past days. */
import pRetry from 'p-retry';
import { beforeAll } from 'vitest';
import { fillDatabase } from '../../dev/bench/growth-data.ts';
import { createLedger } from '../../ledger/ledger.ts';
import { useDatabase } from '../harness/database.ts';

const organizationId = `org_${'1'.repeat(32)}`;
const keyIds = ['key_one', 'key_two'];

/** Returns the database, which is filled before the first test of a file. */
export function useHistory(rows: { jobs: number; chats: number; days: number }) {
  const database = useDatabase();
  beforeAll(async () => {
    const { query } = database;
    // The days of the ledger are those of UTC, whatever time zone the database has.
    await query(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Kathmandu''',
      current_database()); END $$`);
    await query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`);
    await query(`INSERT INTO organization (id, name, created_at)
      VALUES ('${organizationId}', 'history', now() - interval '${rows.days + 4} days')`);
    await query(`INSERT INTO app_user VALUES ('usr_one', '${organizationId}', 'one', 'owner')`);
    for (const id of keyIds) {
      await query(`INSERT INTO api_key (id, organization_id, user_id, name, prefix, mac, scopes)
        VALUES ('${id}', '${organizationId}', 'usr_one', 'key', 'gk', '${id}', '{}')`);
    }
    await query(`INSERT INTO account (organization_id) VALUES ('${organizationId}')`);
    const start = { id: 'start', amountMicro: 1_000_000_000_000, actor: 'test', reason: 'test' };
    // The pool may not have noticed yet that its connection was ended.
    await pRetry(() => createLedger(database.pool).grant({ organizationId, ...start }));
    await fillDatabase(database.url, { ...rows, organizationId, keyIds });
  });
  return { database, organizationId, keyIds };
}
