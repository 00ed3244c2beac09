/**
 * Migrations of the database schema. Migrations (numbered SQL files, forward only, unchanged after
 * their first run) create the tables. The other SQL files, each in the folder of its subject,
 * create the functions and views; when one of them changes, all functions and views are recreated
 * in the transaction of the migrations (docs/decisions/0001-migrations.md).
 */
import { Client } from 'pg';
import { readSchema, type Schema, type SqlSource } from './sql-sources.ts';

/** Key of the advisory lock that a schema change holds; an arbitrary constant. */
const lockId = 7_305_011;

/**
 * Connects to the database.
 * @throws Error that names the server, never the password
 */
async function connectTo(databaseUrl: string): Promise<Client> {
  const client = new Client({ connectionString: databaseUrl, connectionTimeoutMillis: 10_000 });
  // Without a listener, an error on an idle connection would end the process. The next query
  // reports it.
  client.on('error', () => {});
  try {
    await client.connect();
    return client;
  } catch (error) {
    // A host name with several addresses causes one error per address.
    const causes: unknown[] = error instanceof AggregateError ? error.errors : [error];
    const why = causes.map((one) => (one instanceof Error ? one.message : String(one)));
    throw new Error(
      `Postgres at ${new URL(databaseUrl).host} cannot be reached: ${why.join('; ')}`,
      {
        cause: error,
      },
    );
  }
}

/**
 * Migrates a database to the newest schema. Several processes may call this simultaneously, even
 * while processes of the previous version run. `directory` contains the migrations.
 * @returns the names of the migrations that ran, and `functions` if the functions were recreated
 * @throws Error if an old migration was changed or the schema is newer than this code; the database
 * is then unchanged
 */
export async function migrate(databaseUrl: string, directory?: URL): Promise<string[]> {
  const schema = await readSchema(directory);
  const client = await connectTo(databaseUrl);
  try {
    await client.query('BEGIN');
    await client.query('SELECT pg_advisory_xact_lock($1)', [lockId]);
    // The row with version 0 describes the functions and views.
    await client.query(`CREATE TABLE IF NOT EXISTS schema_migration (
      version integer PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL, undo text,
      applied_at timestamptz NOT NULL DEFAULT now())`);
    const ran = await applyPending(client, schema);
    await client.query('COMMIT');
    return ran;
  } finally {
    // The end of the connection rolls back an open transaction.
    await client.end();
  }
}

async function applyPending(client: Client, schema: Schema): Promise<string[]> {
  const { migrations, functions } = schema;
  const found = await readApplied(client);
  const pending = listPending(schema, found);
  if (pending.length === 0) return [];
  // Views are dropped first: while the transaction waits for a query on a view, it then holds no
  // table lock.
  if (found.functions) await client.query(found.functions.undo);
  for (const [index, migration] of [...migrations.entries()].slice(found.migrations.length)) {
    // Run one after the other, because each migration depends on the previous one.
    await client.query(migration.statements);
    await record(client, { ...migration, version: index + 1, undo: null });
  }
  await client.query(functions.statements);
  await client.query('DELETE FROM schema_migration WHERE version = 0');
  await record(client, { ...functions, version: 0 });
  return pending;
}

interface Applied {
  version: number;
  name: string;
  sha256: string;
  undo: string | null;
}

async function record(client: Client, applied: Applied): Promise<void> {
  const { version, name, sha256, undo } = applied;
  await client.query(
    'INSERT INTO schema_migration (version, name, sha256, undo) VALUES ($1, $2, $3, $4)',
    [version, name, sha256, undo],
  );
}

interface Found {
  /** Migrations that have run, in order. */
  migrations: Applied[];
  /** Functions and views created last; null before the first migration. */
  functions: (Applied & { undo: string }) | null;
}

async function readApplied(client: Client): Promise<Found> {
  const { rows } = await client.query<Applied>('SELECT * FROM schema_migration ORDER BY version');
  const first = rows[0];
  return first?.version === 0
    ? { migrations: rows.slice(1), functions: { ...first, undo: first.undo ?? '' } }
    : { migrations: rows, functions: null };
}

function throwIfForeign(found: Found, migrations: SqlSource[]): void {
  for (const { version, sha256 } of found.migrations) {
    const known = migrations[version - 1];
    if (!known) {
      throw new Error(
        `the database has schema ${version}, newer than this code: run the version that created it, or a later one`,
      );
    }
    if (known.sha256 !== sha256) {
      throw new Error(`migration ${known.name} was changed after it ran: add a new one instead`);
    }
  }
}

/**
 * Returns the names that `migrate` would return, without changing the database.
 * @throws Error in the same cases as `migrate`
 */
export async function pendingMigrations(databaseUrl: string): Promise<string[]> {
  const schema = await readSchema();
  const client = await connectTo(databaseUrl);
  try {
    return listPending(schema, (await isEmpty(client)) ? noneApplied : await readApplied(client));
  } finally {
    await client.end();
  }
}

const noneApplied: Found = { migrations: [], functions: null };

/**
 * Returns the names of the pending migrations, and `functions` if the functions have changed.
 * @throws Error if another version of the code changed the database
 */
function listPending({ migrations, functions }: Schema, found: Found): string[] {
  throwIfForeign(found, migrations);
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
 * Checks that the database has the schema of this code.
 * @throws Error if its migrations are older or newer, or its functions differ
 */
export async function assertSchemaCurrent(databaseUrl: string): Promise<void> {
  const { migrations, functions } = await readSchema();
  const client = await connectTo(databaseUrl);
  try {
    if (await isEmpty(client)) {
      throw new Error('the database has no schema: run `npm run migrate` first');
    }
    const found = await readApplied(client);
    throwIfForeign(found, migrations);
    if (found.migrations.length < migrations.length) {
      throw new Error('the database schema is older than this code: run `npm run migrate` first');
    }
    if (found.functions?.sha256 !== functions.sha256) {
      throw new Error(
        'the SQL functions in the database are from another version: run `npm run migrate` with the version to be deployed',
      );
    }
  } finally {
    await client.end();
  }
}
