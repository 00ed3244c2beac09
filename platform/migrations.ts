/**
 * Migrates the database schema. Migrations are numbered SQL files that create the tables. They only
 * run forward, and are not changed after their first run. Other SQL files, in the folders of the
 * code that uses them, create the functions and views. When one of them changes, all functions and
 * views are recreated in the same transaction as the migrations
 * (docs/decisions/0001-migrations.md). The database records which release made its schema, and the
 * oldest release whose processes run on it.
 */
import { createHash } from 'node:crypto';
import { glob, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { assert } from '../domain/errors.ts';
import { Client } from 'pg';
import { explainPoolerRefusal, parseDatabaseUrl } from './database-url.ts';
import { isNewer, oldestServedRelease, release } from './release.ts';

const migrationsDirectory = new URL('./migrations/', import.meta.url);
const root = new URL('../', import.meta.url);
/** Glob pattern of the files that contain functions and views. */
const functionFiles =
  '{bulk,chat,identity,ledger,platform,providers,request-log,storage,studio,webhooks}/**/*.sql';
/** SQL file. */
export interface SqlSource {
  name: string;
  statements: string;
  sha256: string;
}

/** Reads the files below a directory that match a pattern, ordered by their base names. */
async function readSources(directory: URL, pattern: string): Promise<SqlSource[]> {
  const cwd = fileURLToPath(directory);
  const sources: SqlSource[] = [];
  for await (const path of glob(pattern, { cwd, exclude: ['platform/migrations/**'] })) {
    const statements = await readFile(new URL(path, directory), 'utf8');
    const sha256 = createHash('sha256').update(statements).digest('hex');
    sources.push({ name: basename(path), statements, sha256 });
  }
  return sources.toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** Schema that this version of the code requires. */
export interface Schema {
  /** Migrations in their order. The migration at index n - 1 has the version n. */
  migrations: SqlSource[];
  /** All functions and views as one source. `undo` contains the statements that drop them. */
  functions: SqlSource & { undo: string };
}

/** Reads the SQL files. `directory` contains the migrations. */
export async function readSchema(directory = migrationsDirectory): Promise<Schema> {
  const migrations = await readSources(directory, '*.sql');
  for (const [index, { name }] of migrations.entries()) {
    assert(
      Number(name.slice(0, 4)) === index + 1,
      `migration ${name} should have number ${index + 1}`,
    );
  }
  const files = await readSources(root, functionFiles);
  const statements = files.map((file) => file.statements).join('\n');
  const listNames = (definition: RegExp): string =>
    [...statements.matchAll(definition)].map(([, name]) => name).join(', ');
  const undo = `DROP VIEW ${listNames(/^CREATE VIEW (\w+)/gm)};
    DROP FUNCTION ${listNames(/^CREATE FUNCTION (\w+)/gm)}`;
  const sha256 = createHash('sha256').update(statements).digest('hex');
  return { migrations, functions: { name: 'functions', statements, sha256, undo } };
}

/** Key of the advisory lock that is held during a schema change. The number is arbitrary. */
const lockId = 7_305_011;

/** Page that describes upgrades, which the refusals name. */
const page = 'docs/deploys.md';

/**
 * Time in milliseconds for which a statement of a migration waits for a lock. Meanwhile the
 * requests that need the same table wait behind it.
 */
const lockTimeoutMs = 30_000;

/** Time limit of a connection. A process with a wrong address must stop within five seconds. */
const connectTimeoutMs = 4000;

/**
 * Connects to the database.
 * @throws Error that contains the server's name, but not the password
 */
async function connectTo(databaseUrl: string): Promise<Client> {
  const address = parseDatabaseUrl(databaseUrl);
  const client = new Client({ ...address, connectionTimeoutMillis: connectTimeoutMs });
  // An error on an idle connection would end the process if there were no listener. The next query
  // reports the error.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    const refusal = explainPoolerRefusal(error);
    if (refusal) throw refusal;
    // If the host name has several addresses, there is one error for each address.
    const causes: unknown[] = error instanceof AggregateError ? error.errors : [error];
    const reasons = causes.map((one) => (one instanceof Error ? one.message : String(one)));
    throw new Error(
      `Postgres at ${address.host}:${address.port} (DATABASE_URL) cannot be reached: ${reasons.join('; ')}`,
      { cause: error },
    );
  }
  const { rows } = await client.query<{ name: string | null }>('SELECT current_schema() AS name');
  if (rows[0]?.name === null) {
    await client.end();
    throw new Error(
      'the setting search_path of the role names no existing schema: run ALTER ROLE … SET search_path = public',
    );
  }
  return client;
}

/**
 * Migrates a database to the newest schema. Several processes may call this simultaneously, even
 * while processes of the previous version run. A database of a newer release that serves this one
 * stays unchanged. `directory` contains the migrations.
 * @returns the names of the migrations that ran, and `functions` if the functions were recreated
 * @throws Error if a migration was changed after it ran, or if the database is of a newer release
 * that does not serve this one. The database then stays unchanged.
 */
export async function migrate(databaseUrl: string, directory?: URL): Promise<string[]> {
  const schema = await readSchema(directory);
  const client = await connectTo(databaseUrl);
  try {
    await client.query('BEGIN');
    // The limits of the role are those of requests. Setting names that the server lacks are skipped.
    await client.query(`SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN
      ('statement_timeout', 'lock_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')`);
    await client.query('SELECT pg_advisory_xact_lock($1)', [lockId]);
    await client.query(`SELECT set_config('lock_timeout', $1, true)`, [String(lockTimeoutMs)]);
    // The row with version 0 describes the functions and views.
    await client.query(`CREATE TABLE IF NOT EXISTS schema_migration (
      version integer PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL, undo text,
      applied_at timestamptz NOT NULL DEFAULT now())`);
    const migratedNames = await applyPending(client, schema);
    await client.query('COMMIT');
    return migratedNames;
  } finally {
    // Closing the connection rolls back a transaction that is still open.
    await client.end();
  }
}

async function applyPending(client: Client, schema: Schema): Promise<string[]> {
  const { migrations, functions } = schema;
  const found = await readApplied(client);
  const pending = listPending(schema, found);
  if (pending.length === 0) return [];
  // The release that made the schema, and the oldest one that it serves, are in the row with version 0.
  await client.query(`ALTER TABLE schema_migration
    ADD COLUMN IF NOT EXISTS release text, ADD COLUMN IF NOT EXISTS serves text`);
  // The views are dropped before any table is changed. The transaction then holds no table lock
  // while it waits for queries that use a view.
  if (found.functions) await client.query(found.functions.undo);
  for (const [index, migration] of [...migrations.entries()].slice(found.migrations.length)) {
    // Migrations run one after the other, because each depends on the previous one.
    await client.query(migration.statements);
    await insertApplied(client, { ...migration, version: index + 1, undo: null });
  }
  await client.query(functions.statements);
  await client.query('DELETE FROM schema_migration WHERE version = 0');
  await insertApplied(client, { ...functions, version: 0 });
  await client.query('UPDATE schema_migration SET release = $1, serves = $2 WHERE version = 0', [
    release,
    oldestServedRelease,
  ]);
  return pending;
}

interface AppliedSource {
  version: number;
  name: string;
  sha256: string;
  undo: string | null;
  /** Columns that 0.1.0 does not have. */
  release?: string | null;
  serves?: string | null;
}

async function insertApplied(client: Client, applied: AppliedSource): Promise<void> {
  const { version, name, sha256, undo } = applied;
  await client.query(
    'INSERT INTO schema_migration (version, name, sha256, undo) VALUES ($1, $2, $3, $4)',
    [version, name, sha256, undo],
  );
}

interface AppliedSchema {
  /** Migrations that have run, in order. */
  migrations: AppliedSource[];
  /** Functions and views that exist in the database. Null before the first migration. */
  functions: (AppliedSource & { undo: string }) | null;
  /** Release that made the schema, and the oldest release whose processes it serves. */
  release: string;
  serves: string;
}

async function readApplied(client: Client): Promise<AppliedSchema> {
  const { rows } = await client.query<AppliedSource>(
    'SELECT * FROM schema_migration ORDER BY version',
  );
  const first = rows[0];
  const made = { release: first?.release ?? '0.1.0', serves: first?.serves ?? '0.1.0' };
  return first?.version === 0
    ? { ...made, migrations: rows.slice(1), functions: { ...first, undo: first.undo ?? '' } }
    : { ...made, migrations: rows, functions: null };
}

/**
 * Returns whether a newer release made the schema, on which processes of this release run.
 * @throws Error if they do not
 */
function isServed(found: AppliedSchema): boolean {
  if (!isNewer(found.release, release)) return false;
  if (!isNewer(found.serves, release)) return true;
  throw new Error(
    `release ${found.release} made the database, and it needs processes of release ${found.serves} or later, but this is ${release}: see "Go back" in ${page}`,
  );
}

function throwIfIncompatible(found: AppliedSchema, migrations: SqlSource[]): void {
  for (const { version, name, sha256 } of found.migrations) {
    const known = migrations[version - 1];
    if (!known) {
      throw new Error(
        `a later build of release ${found.release} made the database: it has ${name}, which this build of ${release} lacks; run the build that made it, or a later one (${page})`,
      );
    }
    if (known.sha256 !== sha256) {
      throw new Error(
        `another build than release ${found.release} made the database: its ${name} differs from that of ${release}, so there is no upgrade from it; a new change needs a new migration (${page})`,
      );
    }
  }
}

/**
 * Returns the names that `migrate` would return, without changing the database.
 * @throws Error in the same cases as `migrate`
 */
export async function listPendingMigrations(databaseUrl: string): Promise<string[]> {
  const schema = await readSchema();
  const client = await connectTo(databaseUrl);
  try {
    return listPending(schema, (await isEmpty(client)) ? noneApplied : await readApplied(client));
  } finally {
    await client.end();
  }
}

const noneApplied: AppliedSchema = {
  migrations: [],
  functions: null,
  release,
  serves: oldestServedRelease,
};

/**
 * Returns the names of the pending migrations, and `functions` if the functions have changed.
 * @throws Error if another version of the code changed the database
 */
function listPending({ migrations, functions }: Schema, found: AppliedSchema): string[] {
  if (isServed(found)) return [];
  throwIfIncompatible(found, migrations);
  const pending = migrations.slice(found.migrations.length).map(({ name }) => name);
  const isCurrent = pending.length === 0 && found.functions?.sha256 === functions.sha256;
  return isCurrent ? [] : [...pending, functions.name];
}

async function isEmpty(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ name: string | null }>(
    `SELECT to_regclass('schema_migration')::text AS name`,
  );
  return rows[0]?.name === null;
}

/**
 * Checks that the database has the schema that this code requires, or that of a newer release that
 * serves this one.
 * @throws Error that names the release that made the database, and what it needs
 */
export async function assertSchemaCurrent(databaseUrl: string): Promise<void> {
  const { migrations, functions } = await readSchema();
  const client = await connectTo(databaseUrl);
  try {
    if (await isEmpty(client)) {
      throw new Error('the database has no schema: run `npm run migrate` first');
    }
    const found = await readApplied(client);
    if (isServed(found)) return;
    throwIfIncompatible(found, migrations);
    const made = `release ${found.release} made the database`;
    const run = `run \`npm run migrate\` of ${release} first (${page})`;
    if (found.migrations.length < migrations.length) {
      const missing = migrations.slice(found.migrations.length).map(({ name }) => name);
      throw new Error(`${made}, and it lacks ${missing.join(', ')}: ${run}`);
    }
    if (found.functions?.sha256 !== functions.sha256) {
      throw new Error(`${made}, and its SQL functions differ from those of this build: ${run}`);
    }
  } finally {
    await client.end();
  }
}
