/** Reads the SQL files of the schema. They contain the migrations, the functions and the views. */
import { createHash } from 'node:crypto';
import { glob, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { assert } from '../domain/errors.ts';

const migrationsDirectory = new URL('./migrations/', import.meta.url);
const root = new URL('../', import.meta.url);
/** Glob pattern of the files that contain functions and views. */
const functionFiles = '{chat,identity,ledger,platform,providers,storage,webhooks}/**/*.sql';
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
