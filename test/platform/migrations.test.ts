import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { assertSchemaCurrent, migrate } from '../../platform/migrations.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

describe('migrations', () => {
  it('run once, whoever asks and however many at a time', async () => {
    await database.query('DROP SCHEMA public CASCADE');
    await database.query('CREATE SCHEMA public');
    const ran = await Promise.all([migrate(database.url), migrate(database.url)]);
    const [applied, nothing] = ran.toSorted((a, b) => b.length - a.length);
    expect(applied?.[0]).toBe('0001-foundation.sql');
    expect(nothing).toEqual([]);
    await expect(assertSchemaCurrent(database.url)).resolves.toBeUndefined();
  });

  it('refuse a file that was changed after it ran', async () => {
    await database.query(`UPDATE schema_migration SET sha256 = 'x' WHERE version = 1`);
    await expect(migrate(database.url)).rejects.toThrow('0001-foundation.sql was changed');
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow('was changed');
    await database.query('DELETE FROM schema_migration WHERE version = 1');
  });

  it('refuse a schema that is older than the code', async () => {
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow('older than this code');
  });

  it('refuse a schema that is newer than the code', async () => {
    await database.query(
      `INSERT INTO schema_migration (version, name, sha256) VALUES (9999, 'x', 'x')`,
    );
    await expect(migrate(database.url)).rejects.toThrow('newer than this code');
    await expect(assertSchemaCurrent(database.url)).rejects.toThrow('newer than this code');
  });
});
