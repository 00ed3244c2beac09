import { readdir } from 'node:fs/promises';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { assertSchemaCurrent, migrate } from '../../platform/migrations.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
beforeEach(async () => {
  await database.query('DROP SCHEMA public CASCADE');
  await database.query('CREATE SCHEMA public');
  await migrate(database.url);
});
afterAll(() => database.drop());

/** As if the functions had been made by a version that had others. */
const forgetFunctions = () =>
  database.query(`UPDATE schema_migration SET sha256 = 'x' WHERE version = 0`);

describe('the schema', () => {
  it('is made once, whoever asks and however many at a time', async () => {
    await database.query('DROP SCHEMA public CASCADE');
    await database.query('CREATE SCHEMA public');
    const ran = await Promise.all([migrate(database.url), migrate(database.url)]);
    const [applied, nothing] = ran.toSorted((a, b) => b.length - a.length);
    const files = await readdir(new URL('../../platform/migrations/', import.meta.url));
    expect(applied).toEqual([...files.toSorted(), 'sql/']);
    expect(nothing).toEqual([]);
    await expect(assertSchemaCurrent(database.url)).resolves.toBeUndefined();
  });

  it('is not taken on when a migration was changed after it ran', async () => {
    await database.query(`UPDATE schema_migration SET sha256 = 'x' WHERE version = 1`);
    await expect(migrate(database.url)).rejects.toThrow('0001-tables.sql was changed');
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow('was changed');
  });

  it('is not taken on when it is older than the code', async () => {
    await database.query('DELETE FROM schema_migration WHERE version = 1');
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow('older than this code');
  });

  it('is not taken on when it is newer than the code', async () => {
    await database.query(
      `INSERT INTO schema_migration (version, name, sha256) VALUES (9999, 'x', 'x')`,
    );
    await forgetFunctions();
    await expect(migrate(database.url)).rejects.toThrow('newer than this code');
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow('newer than this code');
  });

  it('of a version before 0.1.0 is refused in one sentence that says what to do', async () => {
    // What the sixteen migrations of those left, as far as anybody looks.
    await database.query('DROP TABLE schema_migration');
    await database.query(`CREATE TABLE schema_migration (version integer PRIMARY KEY,
      name text NOT NULL, sha256 text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`);
    await database.query(`INSERT INTO schema_migration (version, name, sha256)
      SELECT n, CASE n WHEN 1 THEN '0001-foundation.sql' ELSE 'x' END, 'x' FROM generate_series(1, 16) n`);
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow('before 0.1.0');
    const program = promisify(execFile)(process.execPath, ['platform/migrate.ts'], {
      env: { ...process.env, DATABASE_URL: database.url },
    });
    await expect(program).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^migrate: [^\n]*before 0\.1\.0[^\n]*DATABASE_URL[^\n]*\.data[^\n]*\n$/,
      ),
    });
    expect(await database.query('SELECT * FROM schema_migration')).toHaveLength(16);
  });
});

describe('functions and views', () => {
  it('are those of the code, or no process starts', async () => {
    await forgetFunctions();
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow('SQL functions');
    expect(await migrate(database.url)).toEqual(['sql/']);
    await expect(assertSchemaCurrent(database.url)).resolves.toBeUndefined();
  });

  it('are made anew when they have another type or are gone, and nobody else’s are touched', async () => {
    await database.query('DROP FUNCTION recall_chat_leases');
    await database.query(`CREATE FUNCTION recall_chat_leases(organization text) RETURNS text
      LANGUAGE sql RETURN 'of another version'`);
    await database.query('CREATE FUNCTION gone() RETURNS integer LANGUAGE sql RETURN 1');
    await database.query('CREATE FUNCTION of_operators() RETURNS integer LANGUAGE sql RETURN 1');
    await database.query(`UPDATE schema_migration SET undo = undo || ', gone' WHERE version = 0`);
    await forgetFunctions();
    await migrate(database.url);
    const [recalled] = await database.query(`SELECT recall_chat_leases('org_none') AS answer`);
    expect(recalled).toEqual({ answer: { leased: 0, available: 0 } });
    await expect(database.query('SELECT gone()')).rejects.toThrow('gone() does not exist');
    expect(await database.query('SELECT of_operators() AS answer')).toEqual([{ answer: 1 }]);
  });

  it('stay as they are, with the tables, when something fails', async () => {
    await database.query('CREATE VIEW of_operators AS SELECT unix_ms(now()) AS now');
    await forgetFunctions();
    await expect(migrate(database.url)).rejects.toThrow('other objects depend on');
    await database.query(`SELECT ledger_apply('[]')`);
  });

  it('are changed under those who call them, and none of them notices', async () => {
    await database.query(`INSERT INTO organization (id, name) VALUES ('org_1', 'x')`);
    await database.query(`INSERT INTO account (organization_id) VALUES ('org_1')`);
    const changed = new AbortController();
    let moves = 0;
    const call = async (caller: number): Promise<void> => {
      const client = new Client({ connectionString: database.url });
      await client.connect();
      while (!changed.signal.aborted) {
        const batch = Array.from({ length: caller % 2 ? 1 : 20 }, (_, index) => ({
          verb: 'grant',
          organizationId: 'org_1',
          id: `${caller}-${moves}-${index}`,
          amount: 1,
        }));
        moves += batch.length;
        // One after the other: that is a caller.
        await client.query('SELECT ledger_apply($1)', [JSON.stringify(batch)]);
      }
      await client.end();
    };
    const callers = Promise.all([1, 2, 3, 4].map(call));
    const changes = (async () => {
      try {
        for (let change = 0; change < 10; change += 1) {
          await forgetFunctions();
          expect(await migrate(database.url)).toEqual(['sql/']);
        }
      } finally {
        changed.abort();
      }
    })();
    await Promise.all([callers, changes]);
    const [account] = await database.query<{ posted: string }>('SELECT posted FROM account');
    expect(Number(account?.posted)).toBe(moves);
    expect(await database.query('SELECT * FROM ledger_audit')).toEqual([]);
  });
});
