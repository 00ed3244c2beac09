/** The archive: what it removes can be read back, and no sum, balance or limit changes. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from 'vitest';
import { findS3Server, startS3Server } from '../../dev/stack/s3-server.ts';
import { createJobReads } from '../../studio/jobs/job-reads.ts';
import { archive, checkArchive } from '../../ledger/archive.ts';
import { runAudit } from '../../ledger/audit.ts';
import { findViolations } from '../../ledger/invariants.ts';
import { createLedger } from '../../ledger/ledger.ts';
import { createUsageSums } from '../../ledger/usage-sums.ts';
import type { LocalDisk } from '../../storage/local-disk.ts';
import { openS3 } from '../../storage/s3.ts';
import { newFolder, openTestDisk } from '../harness/folders.ts';
import { useHistory } from './use-history.ts';

const { database, organizationId, keyIds } = useHistory({ jobs: 2000, chats: 3000, days: 100 });
const directory = newFolder();
let storage: LocalDisk;
const ledger = () => createLedger(database.pool);
const sums = () => createUsageSums(database.pool);
const monthMs = (monthsAgo: number) => {
  const now = new Date();
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - monthsAgo, 1);
};
const sources = (store: Partial<LocalDisk> = {}) => ({
  databaseUrl: database.url,
  pool: database.pool,
  storage: { ...storage, ...store },
});
const audit = async () => (await findViolations(database.url, { scope: 'all' })).findings;
const count = async (table: string, where = 'true') =>
  Number(
    (await database.query<{ n: string }>(`SELECT count(*) AS n FROM ${table} WHERE ${where}`))[0]
      ?.n,
  );
const check = () => checkArchive(sources(), { after: null });

/** Gives an eighth of the jobs and chats an end user. */
async function nameEndUsers(): Promise<void> {
  const pair = `coalesce(metadata, '{}') || '{"$endUser": "ann"}'`;
  const isChosen = `right(id, 1) IN ('a', 'b')`;
  for (const statement of [
    `UPDATE job SET metadata = ${pair} WHERE ${isChosen}`,
    `UPDATE reservation SET further_budgets = ARRAY[organization_id || '/ann'],
       metadata = CASE WHEN kind = 'chat' THEN ${pair} END WHERE ${isChosen}`,
    `INSERT INTO budget_spend SELECT organization_id || '/ann', (created_at AT TIME ZONE 'UTC')::date,
       sum(CASE state WHEN 'reserved' THEN amount ELSE coalesce(charged, 0) END)
     FROM reservation WHERE further_budgets IS NOT NULL GROUP BY 1, 2`,
  ])
    await database.query(statement);
}

/** What callers and operators see of money: none of it may change. */
const money = async () => ({
  account: await database.query('SELECT posted, reserved, sequence FROM account'),
  budgets: await database.query('SELECT * FROM budget_spend ORDER BY 1, 2'),
  sums: await Promise.all(
    (['day', 'month', 'model', 'key', 'type', 'endUser', 'metadata.team'] as const).map((group) =>
      sums().sum(organizationId, { groupBy: [group], limit: 10_000 }),
    ),
  ),
  charged: await sums().sum(organizationId, {
    groupBy: ['day', 'key'],
    status: 'charged',
    keyId: keyIds[0],
    afterMs: monthMs(2),
    beforeMs: monthMs(0),
    limit: 10_000,
  }),
  booked: await sums().sum(organizationId, {
    by: 'booked',
    groupBy: ['day', 'model', 'key', 'type'],
    limit: 10_000,
  }),
});
type Money = Awaited<ReturnType<typeof money>>;
let before: Money;
let oldJob = '';

beforeAll(async () => {
  storage = await openTestDisk(directory);
  await nameEndUsers();
  while ((await sums().closeDays()) > 0);
  const [old, next] = await database.query<{ id: string }>(
    `SELECT j.id FROM job j JOIN reservation r USING (id) WHERE r.state = 'charged' ORDER BY j.id LIMIT 2`,
  );
  oldJob = old?.id ?? '';
  const refund = { organizationId, refundId: 'one', actor: 'test', reason: 'test', amountMicro: 7 };
  expect(await ledger().refund({ ...refund, id: oldJob })).toMatchObject({ verdict: 'refunded' });
  // The webhooks of the end, the start and a step of the next job, to a URL and to an endpoint.
  await database.query(
    `INSERT INTO webhook (subject_id, organization_id, url, state, endpoint_id)
    SELECT event || suffix, $2, 'https://example.com', 'delivered', nullif(suffix, '')
    FROM unnest(ARRAY['job_' || $1, 'start_' || $1, 'wait_' || $1 || '_a']) AS event, unnest('{"", .whe_1}'::text[]) AS suffix`,
    [next?.id.slice(4), organizationId],
  );
  before = await money();
});

/** Program that archives, and writes the name of each step before it to standard output. */
const archiveProgram = `
  import { archive } from './ledger/archive.ts';
  import { openDatabase } from './platform/database.ts';
  import { createLogger } from './platform/logger.ts';
  import { openLocalDisk } from './storage/local-disk.ts';
  const { url, beforeMs, killedAt, ...disk } = JSON.parse(process.argv[1]);
  const pool = await openDatabase({ url, poolMax: 2, logger: createLogger('archive', 'silent') });
  const storage = await openLocalDisk(disk);
  let segments = 0;
  const reach = (step) => step === killedAt && process.kill(process.pid, 'SIGKILL');
  await archive({ databaseUrl: url, pool, storage: {
    spoolPath: () => { reach(segments++ === 1 && 'next'); return storage.spoolPath(); },
    put: async (key, path) => { reach('put'); await storage.put(key, path); reach('read'); },
    open: (key) => storage.open(key),
  } }, { beforeMs });`;

/** Runs an archive until a step of its first segment, at which its process is killed. */
async function killArchive(killedAt: 'put' | 'read' | 'remove' | 'next'): Promise<void> {
  const options = {
    url: database.url,
    beforeMs: monthMs(1),
    killedAt,
    directory,
    secret: 'a secret of thirty-two characters or more',
    publicBaseUrl: 'http://127.0.0.1:4000',
  };
  if (killedAt === 'remove') {
    await database.query('BEGIN');
    await database.query('LOCK TABLE archived_id IN ACCESS EXCLUSIVE MODE');
  }
  const child = spawn(
    process.execPath,
    ['--input-type=module', '-e', archiveProgram, JSON.stringify(options)],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  const ended = once(child, 'exit');
  if (killedAt === 'remove') {
    await expect
      .poll(() => count('pg_locks', `NOT granted AND relation = 'archived_id'::regclass`))
      .toBe(1);
    child.kill('SIGKILL');
  }
  expect(await ended).toEqual([null, 'SIGKILL']);
  if (killedAt === 'remove') await database.query('ROLLBACK');
}

describe('an archive that is interrupted', () => {
  it.each([
    ['the object cannot be written', { put: () => Promise.reject(new Error('full')) }, 'full'],
    ['the object cannot be read back', { open: () => Promise.resolve(null) }, 'other bytes'],
  ])('removes nothing if %s', async (_, store, message) => {
    const rows = await count('ledger_entry');
    await expect(archive(sources(store), { beforeMs: monthMs(1) })).rejects.toThrow(message);
    expect([await count('ledger_entry'), await count('archive_segment')]).toEqual([rows, 0]);
    expect(await audit()).toEqual([]);
  });

  it('loses and doubles nothing when its process is killed at any point', async () => {
    const rows = async () => (await count('reservation')) + (await count('archived_id'));
    const all = await rows();
    for (const [step, segments] of [
      ['put', 0],
      ['read', 0],
      // The statement goes on in Postgres, and removes the rows.
      ['remove', 1],
      ['next', 2],
    ] as const) {
      await killArchive(step);
      await expect.poll(() => count('archive_segment')).toBe(segments);
      expect(await rows()).toBe(all);
      expect(await money()).toEqual(before);
      expect((await check()).findings).toEqual([]);
      expect(await audit()).toEqual([]);
      expect(await count('webhook')).toBe(segments === 0 ? 6 : 0);
    }
  });

  it('writes a segment anew if its rows change after it was written', async () => {
    const [changed] = await database.query<{ id: string }>(
      `SELECT id FROM job WHERE status = 'failed' AND id > '${oldJob}' ORDER BY id LIMIT 1`,
    );
    const change = (deletedAt: string) =>
      database.query(`UPDATE job SET media_deleted_at = ${deletedAt} WHERE id = $1`, [changed?.id]);
    const written: string[] = [];
    const put: LocalDisk['put'] = async (key, path) => {
      written.push(await readFile(path, 'utf8'));
      const stored = await storage.put(key, path);
      if (written.at(-1)?.includes(changed?.id ?? '')) {
        if (written.at(-1)?.includes('"media_deleted_at": "2')) throw new Error('written anew');
        await change('now()');
      }
      return stored;
    };
    await expect(archive(sources({ put }), { beforeMs: monthMs(1) })).rejects.toThrow(
      'written anew',
    );
    await change('NULL');
  });

  it('continues after a time limit, and after each object that was written without its removal', async () => {
    expect(await archive(sources(), { beforeMs: monthMs(1), timeMs: -1 })).toMatchObject({
      segments: 0,
      complete: false,
    });
    // The refund moves the old job behind the first segment, in which its other entries are.
    const put: LocalDisk['put'] = async (key, path) => {
      await storage.put(key, path);
      throw new Error('crash');
    };
    await expect(archive(sources({ put }), { beforeMs: monthMs(1) })).rejects.toThrow('crash');
    const archived = await archive(sources(), { beforeMs: monthMs(1) });
    expect(archived).toMatchObject({ complete: true });
    expect(archived.segments).toBeGreaterThan(2);
    expect(await archive(sources(), { beforeMs: monthMs(1) })).toEqual({
      segments: 0,
      reservations: 0,
      complete: true,
    });
  });
});

it('removes the rows of ended months, and changes no balance, budget or sum', async () => {
  expect(await money()).toEqual(before);
  expect(await count('webhook')).toBe(0);
  expect(await audit()).toEqual([]);
  expect(await database.audit()).toEqual([]);
  while ((await sums().closeDays()) > 0);
  expect(await money()).toEqual(before);
  expect(await audit()).toEqual([]);
  const old = `created_at < '${new Date(monthMs(1)).toISOString()}'`;
  // The refund of the old job is young, so the job remains with all of its entries; so does the grant.
  expect([await count('job', old), await count('reservation', old)]).toEqual([1, 1]);
  expect(await count('ledger_entry', old)).toBe(
    2 + (await count('ledger_entry', `kind = 'grant' AND ${old}`)),
  );
  expect(await count('job', `NOT (${old})`)).toBeGreaterThan(100);
  expect(await count('metadata_pair', `${old} AND id <> '${oldJob}'`)).toBe(0);
  expect(await count('provider_call')).toBe(await count('job'));
});

it('is read back without findings, and finds each change of an object or a row', async () => {
  const clean = await check();
  expect(clean).toMatchObject({ findings: [], next: null });
  expect(clean.segments).toBe(await count('archive_segment'));
  const first = await checkArchive(sources(), { after: null, timeMs: 0 }).catch(() => null);
  expect(first).toBeNull();
  const [segment] = await database.query<{ key: string; sequence: string; sha256: string }>(
    'SELECT storage_key AS key, sequence, sha256 FROM archive_segment ORDER BY sequence LIMIT 1 OFFSET 1',
  );
  const path = join(directory, 'objects', segment?.key ?? '');
  const content = await readFile(path, 'utf8');
  await writeFile(path, content.replace('"kind": "charge"', '"kind": "refund"'));
  expect((await check()).findings).toEqual([
    { finding: 'the hash of an archived segment is not the recorded one', subject: segment?.key },
  ]);
  await writeFile(path, content);
  for (const [column, finding] of [
    ['posted', 'the totals of an archived ledger entry do not follow from the previous entry'],
    ['net', 'the sums of an archived segment differ from its reservations'],
  ]) {
    const change = (by: number) =>
      database.query(
        `UPDATE archive_segment SET ${column} = ${column} + ${by} WHERE sequence = ${segment?.sequence}`,
      );
    await change(1);
    expect((await check()).findings).toContainEqual({ finding, subject: segment?.key });
    await change(-1);
  }
  await database.query(
    `UPDATE usage_day SET net = net + 1 WHERE ctid = (SELECT ctid FROM usage_day WHERE archived LIMIT 1)`,
  );
  expect(await audit()).toContainEqual({
    finding: 'the sums of archived jobs and chats differ from the archive',
    subject: organizationId,
  });
  const findsMonth = async () => {
    const { checks } = await runAudit(sources(), { scope: 'all' });
    return checks
      .filter(({ name }) => name.startsWith('the usage report of a month'))
      .flatMap(({ subjects }) => subjects);
  };
  expect(await findsMonth()).toEqual([expect.stringMatching(/^org_1+ \d{4}-\d\d$/)]);
  await database.query(`UPDATE usage_day SET net = net - 1 WHERE ctid = (SELECT ctid FROM usage_day WHERE archived
    AND xmin::text::bigint = (SELECT max(xmin::text::bigint) FROM usage_day WHERE archived) LIMIT 1)`);
  expect(await audit()).toEqual([]);
  expect(await findsMonth()).toEqual([]);
});

it('keeps its promises: ids of archived jobs, grants once, and entries that only an archive removes', async () => {
  const [archivedJob] = await database.query<{ id: string }>(
    `SELECT 'job_' || replace(id::text, '-', '') AS id FROM archived_id LIMIT 1`,
  );
  const id = archivedJob?.id ?? '';
  const reads = createJobReads(database.pool);
  expect(await reads.read(organizationId, id)).toBeNull();
  expect(await reads.missing(organizationId, id)).toBe('JOB_ARCHIVED');
  expect(await reads.missing('org_other', id)).toBe('JOB_NOT_FOUND');
  expect(await reads.missing(organizationId, `job_${'0'.repeat(32)}`)).toBe('JOB_NOT_FOUND');
  const by = { organizationId, actor: 'test', reason: 'test' };
  const grant = { ...by, id: 'start', amountMicro: 1_000_000_000_000 };
  expect(await ledger().grant(grant)).toMatchObject({ repeated: true });
  expect(await ledger().refund({ ...by, id, refundId: 'late' })).toEqual({
    verdict: 'not_reserved',
  });
  expect(
    await ledger().refund({ ...by, id: oldJob, refundId: 'two', amountMicro: 3 }),
  ).toMatchObject({ refunded: 10 });
  await expect(database.query(`DELETE FROM ledger_entry WHERE kind = 'refund'`)).rejects.toThrow(
    'append-only',
  );
  await expect(database.query(`UPDATE ledger_entry SET posted_change = 0`)).rejects.toThrow(
    'append-only',
  );
  expect(await audit()).toEqual([]);
});

const s3 = await findS3Server();
it.skipIf(!s3)('archives to a store with the protocol of S3, and reads it back', async () => {
  const server = await startS3Server(s3);
  const { accessKeyId, secretAccessKey } = server;
  const bucket = await openS3({
    ...server,
    readCredentials: () => Promise.resolve({ accessKeyId, secretAccessKey }),
    spoolDirectory: newFolder(),
  });
  const shown = await money();
  const onS3 = { ...sources(), storage: bucket };
  const [last] = await database.query<{ sequence: string }>(
    'SELECT max(sequence) AS sequence FROM archive_segment',
  );
  const { segments } = await archive(onS3, { beforeMs: monthMs(0) });
  const after = { organizationId, sequence: Number(last?.sequence) };
  expect(await checkArchive(onS3, { after })).toEqual({ segments, findings: [], next: null });
  expect(await money()).toEqual(shown);
  // Its objects are moved, so that the other tests can read them.
  const stored = await database.query<{ key: string }>(
    `SELECT storage_key AS key FROM archive_segment WHERE sequence > ${last?.sequence}`,
  );
  for (const { key } of stored) {
    const object = await bucket.open(key);
    const path = await storage.spoolPath();
    if (object) await writeFile(path, await buffer(object.stream));
    await storage.put(key, path);
  }
  await server.stop();
});

it('archives nothing that an audit has not found right', async () => {
  const [job] = await database.query<{ id: string }>('SELECT id FROM job ORDER BY id DESC LIMIT 1');
  await database.query('DELETE FROM audit_checkpoint');
  await database.query(`UPDATE reservation SET amount = amount + 1 WHERE id = '${job?.id}'`);
  expect(await archive(sources(), { beforeMs: Date.now() })).toMatchObject({
    segments: 0,
    complete: true,
  });
  await database.query(`UPDATE reservation SET amount = amount - 1 WHERE id = '${job?.id}'`);
  expect((await archive(sources(), { beforeMs: Date.now() })).segments).toBeGreaterThan(0);
  // What ended in the last seven days stays.
  expect(
    await count('job', `created_at < now() - interval '7 days 1 minute' AND id <> '${oldJob}'`),
  ).toBe(0);
  expect(await count('job')).toBeGreaterThan(100);
  expect(await audit()).toEqual([]);
  expect((await check()).findings).toEqual([]);
});
