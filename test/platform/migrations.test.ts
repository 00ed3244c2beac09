import { copyFileSync, readdirSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { assertSchemaCurrent, migrate, listPendingMigrations } from '../../platform/migrations.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';
import { newFolder } from '../harness/folders.ts';
import { runProgram } from '../harness/programs.ts';

const migrations = readdirSync(new URL('../../platform/migrations/', import.meta.url)).toSorted();
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
/** Removes all tables and functions. */
const empty = () => database.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
beforeEach(async () => {
  await empty();
  await migrate(database.url);
});
afterAll(() => database.drop());

const newer = `INSERT INTO schema_migration (version, name, sha256) VALUES (9999, 'x', 'x')`;
/** Makes the functions look as if another version had created them. */
const forgetFunctions = () =>
  database.query(`UPDATE schema_migration SET sha256 = 'x' WHERE version = 0`);

describe('the schema', () => {
  it('is created once, also by parallel migrations', async () => {
    await empty();
    const ran = await Promise.all([migrate(database.url), migrate(database.url)]);
    const [applied, nothing] = ran.toSorted((a, b) => b.length - a.length);
    expect(applied).toEqual([...migrations, 'functions']);
    expect(nothing).toEqual([]);
    await expect(assertSchemaCurrent(database.url)).resolves.toBeUndefined();
  });

  it('is extended by a later migration, with the functions, and a changed migration is rejected', async () => {
    const directory = pathToFileURL(`${newFolder()}/`);
    for (const name of migrations) {
      const original = new URL(`../../platform/migrations/${name}`, import.meta.url);
      copyFileSync(original, new URL(name, directory));
    }
    const laterName = `${String(migrations.length + 1).padStart(4, '0')}-later.sql`;
    const later = new URL(laterName, directory);
    writeFileSync(later, 'ALTER TABLE account ADD COLUMN later integer; CREATE TABLE later ()');
    expect(await migrate(database.url, directory)).toEqual([laterName, 'functions']);
    expect(await migrate(database.url, directory)).toEqual([]);
    expect(await database.query('SELECT later FROM account')).toEqual([]);
    expect(await database.query('SELECT * FROM ledger_audit')).toEqual([]);
    writeFileSync(later, 'CREATE TABLE later ()');
    await expect(migrate(database.url, directory)).rejects.toThrow(`${laterName} was changed`);
    await expect(migrate(database.url)).rejects.toThrow('newer than this code');
  });

  it('is rejected if it is older than the code', async () => {
    await database.query('DELETE FROM schema_migration WHERE version = 1');
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow('older than this code');
  });

  it('is rejected if it is newer than the code', async () => {
    await database.query(newer);
    await forgetFunctions();
    await expect(migrate(database.url)).rejects.toThrow('newer than this code');
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow('newer than this code');
  });
});

/** Runs `npm run migrate`. */
const run = (...args: string[]) =>
  runProgram('platform/migrate.ts', args, { DATABASE_URL: database.url });
const schemaNow = () =>
  database.query(`SELECT version, name, sha256, applied_at FROM schema_migration
    UNION ALL SELECT 0, relname, relkind::text, NULL FROM pg_class
      WHERE relnamespace = 'public'::regnamespace ORDER BY 1, 2`);

describe('a migration plan', () => {
  it('for a current schema is empty', async () => {
    expect(await run('--plan')).toEqual({ status: 0, stdout: 'schema is current\n', stderr: '' });
  });

  it('for an empty database lists everything, and changes nothing', async () => {
    await empty();
    expect(await listPendingMigrations(database.url)).toEqual([...migrations, 'functions']);
    const table = `SELECT to_regclass('schema_migration') AS name`;
    expect(await database.query(table)).toEqual([{ name: null }]);
  });

  it('lists the pending migrations, and changes nothing', async () => {
    await database.query('DELETE FROM schema_migration WHERE version = $1', [migrations.length]);
    const before = await schemaNow();
    expect(await run('--plan')).toEqual({
      status: 0,
      stdout: `pending: ${migrations.at(-1)}, functions\n`,
      stderr: '',
    });
    expect(await schemaNow()).toEqual(before);
  });

  it('lists only the functions if only functions have changed', async () => {
    await forgetFunctions();
    expect(await listPendingMigrations(database.url)).toEqual(['functions']);
  });

  it('rejects the same schemas as a migration', async () => {
    await database.query(newer);
    const rejected = await run('--plan');
    expect(rejected.status).toBe(1);
    expect(rejected.stderr).toMatch(/^migrate: [^\n]*newer than this code[^\n]*\n$/);
  });
});

it('a failing migration leaves nothing behind if it is killed halfway, and runs again', async () => {
  await forgetFunctions();
  const before = await schemaNow();
  const holder = new Client({ connectionString: database.url });
  await holder.connect();
  // A reader of a view: the migration has changed its own table, and waits for the reader.
  await holder.query('BEGIN; SELECT count(*) FROM ledger_audit');
  const running = migrate(database.url).catch((error: unknown) => error);
  const waiting = `SELECT pid FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  await expect.poll(() => database.query(waiting)).toHaveLength(1);
  await database.query(`SELECT pg_terminate_backend(pid) FROM (${waiting}) AS w`);
  expect(await running).toBeInstanceOf(Error);
  await holder.end();
  expect(await schemaNow()).toEqual(before);
  await expect(assertSchemaCurrent(database.url)).rejects.toThrow('SQL functions');
  expect(await migrate(database.url)).toEqual(['functions']);
});

describe('functions and views', () => {
  it('are replaced if their type changed or they are missing, and others are kept', async () => {
    await database.query('DROP FUNCTION key_budget');
    await database.query(`CREATE FUNCTION key_budget(of_key text) RETURNS text
      LANGUAGE sql RETURN 'of another version'`);
    await database.query('CREATE FUNCTION gone() RETURNS integer LANGUAGE sql RETURN 1');
    await database.query('CREATE FUNCTION of_operators() RETURNS integer LANGUAGE sql RETURN 1');
    await database.query(`UPDATE schema_migration SET undo = undo || ', gone' WHERE version = 0`);
    await forgetFunctions();
    await migrate(database.url);
    expect(await database.query(`SELECT key_budget('none') AS answer`)).toEqual([{ answer: null }]);
    await expect(database.query('SELECT gone()')).rejects.toThrow('gone() does not exist');
    expect(await database.query('SELECT of_operators() AS answer')).toEqual([{ answer: 1 }]);
  });

  it('stay unchanged, with the tables, if a statement fails', async () => {
    await database.query('CREATE VIEW of_operators AS SELECT unix_ms(now()) AS now');
    await forgetFunctions();
    await expect(migrate(database.url)).rejects.toThrow('other objects depend on');
    await database.query(`SELECT ledger_apply('[]')`);
  });

  it('are replaced while other sessions call them, and no call fails', async () => {
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
        await client.query('SELECT ledger_apply($1)', [JSON.stringify(batch)]);
      }
      await client.end();
    };
    const callers = Promise.all([1, 2, 3, 4].map(call));
    const changes = (async () => {
      try {
        for (let change = 0; change < 10; change += 1) {
          await forgetFunctions();
          expect(await migrate(database.url)).toEqual(['functions']);
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
