import { createHash } from 'node:crypto';
import { copyFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Client } from 'pg';
import { sql } from 'slonik';
import { z } from 'zod';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { findViolations } from '../../ledger/invariants.ts';
import { openDatabase } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { assertSchemaCurrent, migrate, listPendingMigrations } from '../../platform/migrations.ts';
import { isNewer, release } from '../../platform/release.ts';
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
afterAll(() => database.drop());
/** Makes the schema anew before each test of a block. */
const useNewSchema = () =>
  beforeEach(async () => {
    await empty();
    await migrate(database.url);
  });

/** SHA-256 hashes of the migrations of all releases, which never change. */
const released = {
  // 0.1.0
  '0001-tables.sql': 'ddac4dd86fc7ea8a6585befd37b99c6d476fdc1c485aa07970a398ce0fe35814',
};

/** Makes the schema look as if another release had made it, which serves processes from a release on. */
const makeBy = (maker: string, serves: string) =>
  database.query(`INSERT INTO schema_migration (version, name, sha256) VALUES (9999, '9999-x.sql', 'x');
    UPDATE schema_migration SET sha256 = 'x', release = '${maker}', serves = '${serves}' WHERE version = 0`);
/** Copies the migrations to a directory, where a test adds one with the next number. */
function copyMigrations(): { directory: URL; next: string } {
  const directory = pathToFileURL(`${newFolder()}/`);
  for (const name of migrations) {
    const original = new URL(`../../platform/migrations/${name}`, import.meta.url);
    copyFileSync(original, new URL(name, directory));
  }
  return { directory, next: String(migrations.length + 1).padStart(4, '0') };
}

/** Makes the functions look as if another version had created them. */
const forgetFunctions = () =>
  database.query(`UPDATE schema_migration SET sha256 = 'x' WHERE version = 0`);

describe('the schema', () => {
  useNewSchema();
  it('is created once, also by parallel migrations', async () => {
    await empty();
    const ran = await Promise.all([migrate(database.url), migrate(database.url)]);
    const [applied, nothing] = ran.toSorted((a, b) => b.length - a.length);
    expect(applied).toEqual([...migrations, 'functions']);
    expect(nothing).toEqual([]);
    await expect(assertSchemaCurrent(database.url)).resolves.toBeUndefined();
  });

  it('is extended by a later migration, with the functions, and a changed migration is rejected', async () => {
    const { directory, next } = copyMigrations();
    const name = `${next}-later.sql`;
    const later = new URL(name, directory);
    writeFileSync(later, 'ALTER TABLE account ADD COLUMN later integer; CREATE TABLE later ()');
    expect(await migrate(database.url, directory)).toEqual([name, 'functions']);
    expect(await migrate(database.url, directory)).toEqual([]);
    expect(await database.query('SELECT later FROM account')).toEqual([]);
    expect(await database.query('SELECT * FROM ledger_audit')).toEqual([]);
    writeFileSync(later, 'CREATE TABLE later ()');
    await expect(migrate(database.url, directory)).rejects.toThrow(
      `another build than release ${release} made the database: its ${name} differs`,
    );
    await expect(migrate(database.url)).rejects.toThrow(`it has ${name}, which this build`);
  });

  it('has the migrations of all releases, unchanged', () => {
    for (const [name, sha256] of Object.entries(released)) {
      const content = readFileSync(new URL(`../../platform/migrations/${name}`, import.meta.url));
      expect([name, createHash('sha256').update(content).digest('hex')]).toEqual([name, sha256]);
    }
  });

  it('of another build than its release is rejected, with both releases and the page', async () => {
    await database.query(`UPDATE schema_migration SET sha256 = 'x' WHERE version = 1`);
    const message = new RegExp(
      `another build than release ${release} made the database: its 0001-tables.sql differs from that of ${release}.*docs/deploys.md`,
    );
    await expect(migrate(database.url)).rejects.toThrow(message);
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow(message);
  });

  it('of an older release is rejected by a process until it is migrated', async () => {
    await database.query(`ALTER TABLE schema_migration DROP COLUMN release, DROP COLUMN serves`);
    await database.query('DELETE FROM schema_migration WHERE version = $1', [migrations.length]);
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow(
      `release 0.1.0 made the database, and it lacks ${migrations.at(-1)}: run \`npm run migrate\` of ${release} first (docs/deploys.md)`,
    );
  });

  it('of a newer release that serves this one is used as it is, and not migrated back', async () => {
    await makeBy('99.0.0', release);
    const before = await schemaNow();
    await expect(assertSchemaCurrent(database.url)).resolves.toBeUndefined();
    expect(await migrate(database.url)).toEqual([]);
    expect(await listPendingMigrations(database.url)).toEqual([]);
    expect(await schemaNow()).toEqual(before);
  });

  it('of a newer release that no longer serves this one is rejected, with what it needs', async () => {
    await makeBy('99.0.0', '98.0.0');
    const message = `release 99.0.0 made the database, and it needs processes of release 98.0.0 or later, but this is ${release}: see "Go back" in docs/deploys.md`;
    for (const attempt of [migrate, listPendingMigrations, assertSchemaCurrent]) {
      await expect(attempt(database.url)).rejects.toThrow(message);
    }
  });
});

it.each([
  ['0.2.0', '0.1.9', true],
  ['0.10.0', '0.9.1', true],
  ['1.0.0', '0.99.99', true],
  ['0.2.0', '0.2.0', false],
  ['0.2.9', '0.3.0', false],
  ['0.99.0', '1.0.0', false],
])('release %s is newer than %s: %s', (one, other, expected) => {
  expect(isNewer(one, other)).toBe(expected);
});

/** Sets defaults of the role in the test database, as an administrator does. */
const setDefaults = (settings: string[]) =>
  Promise.all(
    settings.map((setting) =>
      database.query(`DO $$ BEGIN EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET ${setting}',
        current_database()); END $$`),
    ),
  );

describe('defaults of the role', () => {
  useNewSchema();
  afterEach(() =>
    database.query(`DO $$ BEGIN EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I RESET ALL',
      current_database()); END $$`),
  );

  it('do not end a migration: its time limits are its own', async () => {
    const { directory, next } = copyMigrations();
    const slow = `${next}-slow.sql`;
    writeFileSync(new URL(slow, directory), 'SELECT pg_sleep(0.3)');
    await setDefaults([
      `statement_timeout = ''100ms''`,
      `lock_timeout = ''100ms''`,
      `idle_in_transaction_session_timeout = ''100ms''`,
    ]);
    // Not limited by the defaults, because its statements may take longer on a busy machine.
    const options = '-c statement_timeout=0 -c idle_in_transaction_session_timeout=0';
    const blocker = new Client({ connectionString: database.url, options });
    await blocker.connect();
    await blocker.query('BEGIN; SELECT pg_advisory_xact_lock(7305011)');
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`;
    const migrated = migrate(database.url, directory).catch((error: unknown) => error);
    await expect.poll(() => database.query(waiting)).toHaveLength(1);
    await blocker.query('SELECT pg_sleep(0.2)');
    await blocker.query('COMMIT');
    await blocker.end();
    expect(await migrated).toEqual([slow, 'functions']);
  });

  it('do not change the times and the isolation of sessions', async () => {
    await setDefaults([
      `"DateStyle" = ''German''`,
      `default_transaction_isolation = ''serializable''`,
    ]);
    const pool = await openDatabase({
      url: database.url,
      poolMax: 1,
      logger: createLogger('test', 'silent'),
    });
    const row = await pool.one(sql.type(z.object({ time: z.number(), isolation: z.string() }))`
      SELECT to_timestamp(0) AS time, current_setting('transaction_isolation') AS isolation`);
    await pool.end();
    expect(row).toEqual({ time: 0, isolation: 'read committed' });
    expect((await findViolations(database.url, { scope: 'all' })).findings).toEqual([]);
  });

  it('an empty search_path is named', async () => {
    await setDefaults([`search_path = ''''`]);
    for (const attempt of [migrate, assertSchemaCurrent]) {
      await expect(attempt(database.url)).rejects.toThrow(
        'the setting search_path of the role names no existing schema: run ALTER ROLE … SET search_path = public',
      );
    }
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
  useNewSchema();
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
    await makeBy('99.0.0', '98.0.0');
    const rejected = await run('--plan');
    expect(rejected.status).toBe(1);
    expect(rejected.stderr).toMatch(/^migrate: release 99.0.0 made the database[^\n]*\n$/);
  });
});

it('a failing migration leaves nothing behind if it is killed halfway, and runs again', async () => {
  await empty();
  await migrate(database.url);
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
  useNewSchema();
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
