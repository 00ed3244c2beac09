/**
 * The upgrade from each release: a database that the release recorded with open work is migrated; its
 * audit is clean, its balances are the same, and its open work continues and settles.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { Client } from 'pg';
import { describe, expect, it } from 'vitest';
import { createLogger } from '../../platform/logger.ts';
import type { JobPlan } from '../../domain/job-plan.ts';
import { isRecord } from '../../domain/json.ts';
import { findViolations } from '../../ledger/invariants.ts';
import { assertSchemaCurrent, migrate } from '../../platform/migrations.ts';
import { createBulkWorkflows } from '../../bulk/bulk-execution.ts';
import { startWorkflow } from '../../studio/jobs/job-execution.ts';
import { startDayCloser } from '../../worker/daily-passes.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';

interface Recording {
  functions: string;
  key: string;
  KEY_PEPPER: string;
  TASK_QUEUE_PREFIX: string;
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

/**
 * Continues the open jobs and bulk jobs as Temporal and the provider do, which keep their state during
 * an upgrade and are not recorded: starts the workflows, whose steps are idempotent, and sends the
 * accepted call to the new sandbox. Returns the ids of the jobs.
 */
async function continueOpenWork({ api, config, database, sandbox }: TestGateway) {
  const accepted = await fetch(`${sandbox.url}/fal/queue/fal-ai/nano-banana`, {
    method: 'POST',
    headers: { authorization: `Key ${sandbox.falKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'a slow tide', num_images: 1 }),
  });
  const { request_id: operationId } = (await accepted.json()) as { request_id: string };
  const calls = await database.query(
    `UPDATE provider_call c
      SET operation = jsonb_set(operation, '{id}', to_jsonb($1::text)), provider_request_id = $1
      FROM job j WHERE j.id = c.job_id AND j.status = 'open' AND c.state = 'accepted' RETURNING 1`,
    [operationId],
  );
  expect(calls).toHaveLength(1);
  const { client, services } = api;
  const jobs = await database.query<{ plan: JobPlan }>(
    `SELECT plan || jsonb_build_object('request', request) AS plan FROM job WHERE status = 'open'`,
  );
  expect(jobs).toHaveLength(5);
  for (const { plan } of jobs) await startWorkflow({ client, config }, plan);
  const bulkWorkflows = createBulkWorkflows({ ...services, client, config });
  for (const { id } of await database.query<{ id: string }>(
    'SELECT id FROM bulk WHERE completed_at IS NULL',
  )) {
    await bulkWorkflows.wake(id);
  }
  return jobs.map(({ plan }) => plan.jobId);
}

/**
 * Counts the waiting items after a worker of 0.1.0, which sends `live`, finds two started items of
 * the open bulk job without a job. The changes are rolled back.
 */
async function returnLostItems(query: TestGateway['database']['query']): Promise<object[]> {
  await query('BEGIN');
  await query(`UPDATE bulk_item SET state = 'running', job_id = 'job_lost' || index, claimed_at = now() - interval '1 minute'
    WHERE state = 'waiting'`);
  await query(`SELECT bulk_advance(jsonb_build_object('bulkId', id, 'live', '[]'::jsonb, 'rejected', '[]'::jsonb, 'itemsMax', 0))
    FROM bulk WHERE completed_at IS NULL`);
  const counts = await query(
    `SELECT count(*)::integer AS items FROM bulk_item WHERE state = 'waiting'`,
  );
  await query('ROLLBACK');
  return counts;
}

const files = readdirSync(import.meta.dirname).filter((name) => name.endsWith('.ndjson'));

describe.each(files)('the database of %s', (file) => {
  it('is migrated with clean books, and its open work continues and settles', async () => {
    const recording = readRecording(`./${file}`);
    const { key, KEY_PEPPER, TASK_QUEUE_PREFIX } = recording;
    const balances = (client: Client) =>
      client.query('SELECT organization_id, posted, reserved, sequence FROM account ORDER BY 1');
    const gateway = await startGateway({
      env: { KEY_PEPPER, TASK_QUEUE_PREFIX },
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
    expect(await returnLostItems(query)).toEqual([{ items: 2 }]);
    const open = await continueOpenWork(gateway);
    await query('UPDATE webhook SET url = $1', [gateway.receiver.at('/hook')]);
    const [reported] = await query<{ id: string }>('SELECT job_id AS id FROM webhook');
    await gateway.operate(`/jobs/${reported?.id}/webhook/redeliver`, {});
    await gateway.operate('/providers/fal/resume', {});
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
    await expect.poll(left, { timeout: 240_000, interval: 1000 }).toEqual([]);
    await stop();
    const ends = await query(
      `SELECT type, status, error FROM job WHERE id = ANY ($1) ORDER BY type, status`,
      [open],
    );
    const completed = (type: string) => ({ type, status: 'completed', error: null });
    expect(ends).toEqual([
      ...Array.from({ length: 4 }, () => completed('imageGenerate')),
      completed('pipeline'),
    ]);
    const bulks = await query('SELECT status, completed, total FROM bulk ORDER BY created_at');
    expect(bulks).toEqual([
      { status: 'completed', completed: 2, total: 2 },
      { status: 'completed', completed: 4, total: 4 },
    ]);
    expect(await query('SELECT state FROM webhook')).toEqual([{ state: 'delivered' }]);
    const read = await gateway.call('/api/v1/usage', { key });
    expect(read.status).toBe(200);
    await gateway.expectSettled();
    await gateway.close();
  }, 400_000);
});

it('each release has a recorded database', () => {
  expect(files).toEqual(['0.1.0.ndjson']);
});
