/**
 * The upgrade from each release: a database that the release recorded with open work is migrated; its
 * audit is clean, its balances are the same, and its open work continues and settles.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { Client } from 'pg';
import { describe, expect, it } from 'vitest';
import { createLogger } from '../../platform/logger.ts';
import { isRecord } from '../../domain/json.ts';
import { findViolations } from '../../ledger/invariants.ts';
import { assertSchemaCurrent, migrate } from '../../platform/migrations.ts';
import { startDayCloser } from '../../worker/daily-passes.ts';
import { startGateway } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';

interface Recording {
  functions: string;
  key: string;
  KEY_PEPPER: string;
  rows: { table: string; row: object }[];
}

function readRecording(file: string): Recording {
  const [first = '', ...lines] = readFileSync(new URL(file, import.meta.url), 'utf8')
    .trimEnd()
    .split('\n');
  return { ...JSON.parse(first), rows: lines.map((line) => JSON.parse(line)) };
}

/** Makes the database of a release anew: its tables, functions and rows. */
async function restore(databaseUrl: string, { functions, rows }: Recording): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(`DROP SCHEMA public CASCADE; CREATE SCHEMA public;
    CREATE TABLE schema_migration (version integer PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL, undo text,
      applied_at timestamptz NOT NULL DEFAULT now())`);
  for (const { row } of rows.filter(({ table }) => table === 'schema_migration')) {
    const name = isRecord(row) && row['version'] !== 0 ? String(row['name']) : null;
    if (name === null) continue;
    const file = new URL(`../../platform/migrations/${name}`, import.meta.url);
    await client.query(readFileSync(file, 'utf8'));
  }
  await client.query(functions);
  await client.query('SET session_replication_role = replica');
  for (const { table, row } of rows) {
    const { rows: columns } = await client.query<{ name: string }>(
      `SELECT quote_ident(attname) AS name FROM pg_attribute
        WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`,
      [table],
    );
    const names = columns.map(({ name }) => name).join();
    await client.query(
      `INSERT INTO ${table} (${names}) OVERRIDING SYSTEM VALUE
        SELECT ${names} FROM jsonb_populate_record(NULL::${table}, $1)`,
      [JSON.stringify(row)],
    );
  }
  await client.query(
    `SELECT setval(pg_get_serial_sequence('admin_action', 'id'), coalesce(max(id), 0) + 1) FROM admin_action`,
  );
  await client.end();
}

const files = readdirSync(import.meta.dirname).filter((name) => name.endsWith('.ndjson'));

describe.each(files)('the database of %s', (file) => {
  it('is migrated with clean books, and its open work continues and settles', async () => {
    const recording = readRecording(`./${file}`);
    const { key, KEY_PEPPER } = recording;
    const balances = (client: Client) =>
      client.query('SELECT organization_id, posted, reserved, sequence FROM account ORDER BY 1');
    const gateway = await startGateway({
      env: { KEY_PEPPER, OUTCOME_WAIT_MS: '12000', FIRST_CHECK_MAX_MS: '500' },
      reach: async (databaseUrl) => {
        await restore(databaseUrl, recording);
        const client = new Client({ connectionString: databaseUrl });
        await client.connect();
        const before = await balances(client);
        await expect(assertSchemaCurrent(databaseUrl)).rejects.toThrow(
          'release 0.1.0 made the database, and it lacks 0002',
        );
        expect((await migrate(databaseUrl)).at(-1)).toBe('functions');
        await assertSchemaCurrent(databaseUrl);
        expect((await balances(client)).rows).toEqual(before.rows);
        await client.end();
        // Reservations that wait for the sweeper are as old as the recording.
        const { findings } = await findViolations(databaseUrl, { scope: 'all' });
        expect(findings.filter(({ finding }) => !finding.endsWith('for the sweeper'))).toEqual([]);
        return {};
      },
    });
    const { query } = gateway.database;
    await query('UPDATE webhook SET url = $1', [gateway.receiver.at('/hook')]);
    const open = await query<{ id: string }>(
      `SELECT id FROM job WHERE status = 'open' ORDER BY created_at`,
    );
    expect(open).toHaveLength(5);
    await gateway.admin('/providers/fal/resume', {});
    for (const { id } of open) {
      const { status } = await gateway.admin(`/jobs/${id}/resettle`, {});
      expect([200, 202]).toContain(status);
    }
    const stop = startDayCloser({
      databaseUrl: gateway.database.url,
      usageSums: gateway.api.services.usageSums,
      logger: createLogger('test', 'silent'),
    });
    const left = async () => {
      await sweepOnce(gateway);
      return query(`SELECT 'reservation' AS kind, id, state::text AS state FROM reservation WHERE state = 'reserved'
        UNION ALL SELECT 'bulk', id, status FROM bulk WHERE completed_at IS NULL
        UNION ALL SELECT 'webhook', subject_id, state FROM webhook WHERE state IN ('waiting', 'delivering')`);
    };
    // Two passes that miss a workflow are 30 s apart.
    await expect.poll(left, { timeout: 240_000, interval: 1000 }).toEqual([]);
    await stop();
    const ends = await query<{ status: string; type: string }>(
      `SELECT type, status FROM job WHERE id = ANY ($1) ORDER BY type, status`,
      [open.map(({ id }) => id)],
    );
    // The recorded provider's operation of the slow picture is unknown to the new sandbox.
    expect(ends).toEqual([
      ...['completed', 'completed', 'completed', 'failed'].map((status) => ({
        type: 'imageGenerate',
        status,
      })),
      { type: 'pipeline', status: 'completed' },
    ]);
    const bulks = await query('SELECT status, completed, total FROM bulk ORDER BY created_at');
    expect(bulks).toMatchObject([
      { completed: 2, total: 2 },
      { status: 'stopped', total: 4 },
    ]);
    const read = await gateway.call('/api/v1/usage', { key });
    expect(read.status).toBe(200);
    await gateway.expectSettled();
    await gateway.close();
  }, 400_000);
});

it('each release has a recorded database', () => {
  expect(files).toEqual(['0.1.0.ndjson']);
});
