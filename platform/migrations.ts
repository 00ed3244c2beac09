/**
 * Migrations: numbered plain SQL files, forward only. A file that has run may not change (its hash is
 * kept), and a process refuses a schema newer than the files it knows.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { Client } from 'pg';
import { assert } from '../domain/assert.ts';

const directory = new URL('./migrations/', import.meta.url);
/** Any constant will do: it names the advisory lock under which migrations run. */
const lockId = 7_305_011;

interface Migration {
  version: number;
  name: string;
  statements: string;
  sha256: string;
}

async function readMigrations(): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.sql')).toSorted();
  return Promise.all(
    names.map(async (name, index) => {
      const statements = await readFile(new URL(name, directory), 'utf8');
      const version = Number(name.slice(0, 4));
      assert(version === index + 1, `migration ${name} is numbered without a gap`);
      return {
        version,
        name,
        statements,
        sha256: createHash('sha256').update(statements).digest('hex'),
      };
    }),
  );
}

/**
 * Brings a database to the newest schema; safe to run from several processes at once.
 * @returns the names of the migrations that ran now.
 * @throws Error when an old migration was changed or the schema is newer than this code.
 */
export async function migrate(databaseUrl: string): Promise<string[]> {
  const migrations = await readMigrations();
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query('SELECT pg_advisory_lock($1)', [lockId]);
    await client.query(`CREATE TABLE IF NOT EXISTS schema_migration (
      version integer PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL,
      applied_at timestamptz NOT NULL DEFAULT now())`);
    const applied = await readApplied(client);
    refuseForeign(applied, migrations);
    const pending = migrations.filter((migration) => !applied.has(migration.version));
    for (const migration of pending) {
      // Each migration builds on the one before.
      await apply(client, migration);
    }
    return pending.map((migration) => migration.name);
  } finally {
    await client.end();
  }
}

async function readApplied(client: Client): Promise<Map<number, string>> {
  const { rows } = await client.query<{ version: number; sha256: string }>(
    'SELECT version, sha256 FROM schema_migration',
  );
  return new Map(rows.map((row) => [row.version, row.sha256]));
}

function refuseForeign(applied: Map<number, string>, migrations: Migration[]): void {
  for (const [version, sha256] of applied) {
    const known = migrations[version - 1];
    if (!known) {
      throw new Error(`the database has schema ${version}, newer than this code knows`);
    }
    if (known.sha256 !== sha256) {
      throw new Error(`migration ${known.name} was changed after it ran: add a new one instead`);
    }
  }
}

async function apply(client: Client, migration: Migration): Promise<void> {
  await client.query('BEGIN');
  try {
    await client.query(migration.statements);
    await client.query('INSERT INTO schema_migration (version, name, sha256) VALUES ($1, $2, $3)', [
      migration.version,
      migration.name,
      migration.sha256,
    ]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

/**
 * Checks that a process may work with the schema it finds.
 * @throws Error when the schema is older or newer than the migrations of this code.
 */
export async function assertSchemaCurrent(databaseUrl: string): Promise<void> {
  const migrations = await readMigrations();
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const applied = await readApplied(client);
    refuseForeign(applied, migrations);
    if (applied.size < migrations.length) {
      throw new Error('the database schema is older than this code: run `npm run migrate` first');
    }
  } finally {
    await client.end();
  }
}
