/** The archive as operators and callers see it: endpoints, commands, and the setting of a worker. */
import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { createLogger } from '../../platform/logger.ts';
import { startArchiver } from '../../worker/daily-passes.ts';
import { say } from '../chat/chat-clients.ts';
import { studio } from '../clients/cli/studio.ts';
import { operatorAction, useOwnGateway, type StudioBody } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

// An archive contains the jobs of all organizations.
const gateway = useOwnGateway({}, 'never');
const thisMonth = `${new Date().toISOString().slice(0, 7)}-01`;
let jobIds: string[] = [];
let chatId = '';

const admin = (line: string) =>
  studio(`admin ${line}`, {
    STUDIO_API_URL: gateway.url,
    STUDIO_ADMIN_KEY: gateway.config.ADMIN_API_KEY,
  });
const archiveBefore = (before: unknown) =>
  gateway.admin<StudioBody<never> & { message: string }>('/archive', { ...operatorAction, before });
/**
 * Moves everything to the past by an interval of Postgres; the triggers of the ledger would reject
 * this.
 */
const age = async (by: string) => {
  const changes = [
    ['reservation', 'created_at', 'settled_at', 'window_started_at'],
    ['ledger_entry', 'created_at'],
    ['job', 'created_at', 'completed_at'],
    ['metadata_pair', 'created_at'],
    ['organization', 'created_at'],
    ['account', 'window_started_at'],
    ['bulk', 'created_at', 'completed_at'],
    ['bulk_item', 'claimed_at', 'ended_at'],
    ['account_notice', 'created_at'],
    ['bulk_action', 'created_at', 'completed_at'],
  ].map(
    ([table, ...columns]) =>
      `UPDATE ${table} SET ${columns.map((one) => `${one} = ${one} - interval '${by}'`).join()}`,
  );
  await gateway.database.query(`SET session_replication_role = replica; ${changes.join('; ')};
    DELETE FROM budget_spend; INSERT INTO budget_spend
      SELECT budget_id, day, sum(spent) FROM (
        SELECT budget_id, (created_at AT TIME ZONE 'UTC')::date AS day, coalesce(charged, 0) AS spent FROM reservation
        UNION ALL SELECT * FROM archived_spend) AS x
      GROUP BY 1, 2 HAVING sum(spent) <> 0;
    RESET session_replication_role`);
};
const makeJobs = async (prompts: string[]) => {
  const ids: string[] = [];
  for (const prompt of prompts) {
    const jobId = await gateway.startImage({ prompt, metadata: { team: 'old' } });
    await gateway.untilDone(jobId);
    ids.push(jobId);
  }
  return ids;
};
const money = async () => {
  const query = `groupBy=model,metadata.team&after=${yearAgo}`;
  const summary = await gateway.call<Record<string, object>>(`/api/v1/usage/summary?${query}`);
  const usage = await gateway.call<{ balance: object }>('/api/v1/usage');
  return [summary.status, summary.body['rows'], summary.body['total'], usage.body.balance];
};
/** First instant of a month, so many months before this one. */
const monthStart = (monthsAgo: number) => {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - monthsAgo, 1)).toISOString();
};
/** Reports of two successive months, as JSON and CSV and on the command line. */
const monthReports = async () => {
  const reports: unknown[] = [];
  for (const by of ['created', 'booked']) {
    for (const monthsAgo of [3, 2]) {
      const period = { after: monthStart(monthsAgo), before: monthStart(monthsAgo - 1) };
      const query = `groupBy=month,type&by=${by}&after=${period.after}&before=${period.before}`;
      const url = `/api/v1/usage/summary?${query}`;
      const { rows, total } = (await gateway.call<{ rows: object[]; total: object }>(url)).body;
      const csv = await fetch(`${gateway.url}${url}&format=csv`, {
        headers: { authorization: `Bearer ${gateway.caller.key}` },
      });
      reports.push({ rows, total, csv: await csv.text() });
    }
    const flag = by === 'booked' ? ' --booked' : '';
    const shown = await studio(
      `usage --by month,type${flag} --after ${monthStart(2)} --before ${monthStart(1)}`,
      { STUDIO_API_URL: gateway.url, STUDIO_API_KEY: gateway.caller.key },
    );
    expect(shown.status, shown.stderr).toBe(0);
    reports.push({ shown: shown.stdout });
  }
  return reports;
};
const makeBulk = async (body: object) => {
  const { body: accepted } = await gateway.call<{ data: { bulkId: string } }>(
    '/api/v1/studio/bulk',
    { body },
  );
  return accepted.data.bulkId;
};
const readBulk = async (bulkId: string, rest = '') =>
  gateway.call<{ data: { done: boolean } & object[]; error: string }>(
    `/api/v1/studio/bulk/${bulkId}${rest}`,
  );
const rowsOf = async (table: string) =>
  Number(
    (await gateway.database.query<{ count: string }>(`SELECT count(*) FROM ${table}`))[0]?.count,
  );
const yearAgo = new Date(Date.now() - 300 * 86_400_000).toISOString();

let bulkId = '';
let openBulkId = '';

beforeAll(async () => {
  jobIds = await makeJobs(['an old harbour', '[[fail:422]] a wreck', 'a refunded pier']);
  const refund = { ...operatorAction, id: 'part', credits: 1.5 };
  expect((await gateway.admin(`/jobs/${jobIds[2]}/refunds`, refund)).status).toBe(200);
  const chat = await gateway.call<{ id: string }>('/api/v1/chat', {
    body: { model: 'gpt-4o', messages: say('hello') },
  });
  chatId = chat.body.id;
  const item = (prompt: string) => ({ use: 'image/generate', body: { prompt } });
  bulkId = await makeBulk({ items: [item('an old boat'), item('an old buoy')] });
  openBulkId = await makeBulk({ items: [item('a tide'), item('an ebb')] });
  for (const id of [bulkId, openBulkId]) {
    await until(async () => (await readBulk(id)).body.data.done);
    await gateway.api.client.workflow.getHandle(id).result();
  }
  const { query } = gateway.database;
  // The text of a chat that failed or was answered shortly before.
  await query(
    `UPDATE bulk_item SET request = '{"chat": "secret"}', answer = '"secret"' WHERE bulk_id = $1`,
    [bulkId],
  );
  // A bulk job that is paused for months, when the jobs of its first items are archived.
  await query(
    `UPDATE bulk SET status = 'paused', stop_reason = 'PAUSED', completed_at = NULL WHERE id = $1`,
    [openBulkId],
  );
  const { organizationId, keyId } = gateway.caller;
  await query(`INSERT INTO account_notice (id, organization_id, type, body, key_id, period) VALUES
    ('ntc_old', '${organizationId}', 'account.balance.low', '{}', NULL, NULL),
    ('ntc_month', '${organizationId}', 'key.limit.near', '{}', '${keyId}', '2020-01-01 month 5'),
    ('ntc_total', '${organizationId}', 'key.limit.reached', '{}', '${keyId}', '-infinity total 5');
    INSERT INTO webhook (subject_id, organization_id, url, state) SELECT id, organization_id, 'https://example.com', 'delivered'
      FROM account_notice;
    INSERT INTO bulk_action (id, action, request, actor, reason, request_id, status, completed_at)
      VALUES ('act_old', 'cancel', '{}', 'olga', 'test', 'req_x', 'completed', now());
    INSERT INTO bulk_action_job (bulk_action_id, job_id, credits, state) VALUES ('act_old', 'job_x', 0, 'done')`);
  const [first] = await query<{ seconds: string }>(
    `SELECT extract(epoch FROM created_at - $1::timestamptz) AS seconds FROM job WHERE id = $2`,
    [monthStart(2), jobIds[0]],
  );
  // The first job was created in the first instant of a month.
  await age(`${first?.seconds} seconds`);
});

it.each([
  ['2026-01-02', 'must be the first day of a month'],
  ['2026-13-01', 'must be the first day of a month'],
  ['yesterday', 'must be the first day of a month'],
  [7, 'string'],
  [undefined, 'before'],
  ['9999-01-01', `must be at most ${thisMonth}`],
])('rejects the month %j', async (before, message) => {
  const { status, body } = await archiveBefore(before);
  expect([status, body.error]).toEqual([400, 'INVALID_REQUEST']);
  expect(body.message).toContain(message);
});

it('an operator archives ended months; the jobs are gone, and the sums remain', async () => {
  const shown = await money();
  const reports = await monthReports();
  const empty = { rows: [], total: { requests: 0, credits: 0 } };
  // 7 pictures, of which one failed and one was refunded in part, and a chat.
  const full = { total: { requests: 8 } };
  expect(reports).toMatchObject([empty, full, {}, empty, full, {}]);
  const run = await admin(`archive --before ${thisMonth} --actor olga --reason "ticket 7"`);
  expect(run).toMatchObject({ status: 0, stdout: 'archived 8 jobs and chats in 1 segments\n' });
  const again = await admin(
    `archive --before ${thisMonth} --actor olga --reason "ticket 7" --json`,
  );
  expect(JSON.parse(again.stdout)).toEqual({ segments: 0, reservations: 0 });
  expect(await money()).toEqual(shown);
  expect(await monthReports()).toEqual(reports);
  const actions = await gateway.database.query(
    `SELECT actor, reason, subject FROM admin_action WHERE action = 'ledger.archived'`,
  );
  expect(actions).toEqual([1, 2].map(() => ({ ...operatorAction, subject: thisMonth })));
  const other = await gateway.newCaller({ credits: 1 });
  for (const jobId of jobIds) {
    for (const path of ['', '/timeline', '/webhook', '/events']) {
      const url = `/api/v1/studio/jobs/${jobId}${path}`;
      expect([path, (await gateway.call<StudioBody<never>>(url)).body.error]).toEqual([
        path,
        'JOB_ARCHIVED',
      ]);
      expect((await gateway.call<StudioBody<never>>(url, { key: other.key })).body.error).toBe(
        'JOB_NOT_FOUND',
      );
    }
    const canceled = await gateway.call<StudioBody<never>>(`/api/v1/studio/jobs/${jobId}/cancel`, {
      method: 'POST',
    });
    expect(canceled).toMatchObject({ status: 410, body: { error: 'JOB_ARCHIVED' } });
    const refund = { ...operatorAction, id: 'late' };
    expect((await gateway.admin(`/jobs/${jobId}/refunds`, refund)).status).toBe(410);
    expect((await gateway.admin(`/jobs/${jobId}`)).status).toBe(410);
  }
  for (const [key, status, error] of [
    [gateway.caller.key, 410, 'CHAT_ARCHIVED'],
    [other.key, 404, 'NOT_FOUND'],
  ] as const) {
    const chat = await gateway.call<StudioBody<never>>(`/api/v1/chats/${chatId}`, { key });
    expect(chat).toMatchObject({ status, body: { error } });
  }
  const list = await gateway.call<{ data: object[] }>('/api/v1/studio/jobs');
  expect(list.body.data).toEqual([]);
  expect((await gateway.call<{ data: object }>('/api/v1/studio/jobs/count')).body.data).toEqual({
    count: 0,
    complete: true,
  });
  expect((await admin('audit --all')).stdout).toBe('clean\n');
});

it('archives a bulk job with its last job, and says of the items of an open one that they are archived', async () => {
  for (const rest of ['', '/items', '/results']) {
    const read = await readBulk(bulkId, rest);
    expect([rest, read.status, read.body.error]).toEqual([rest, 410, 'JOB_ARCHIVED']);
  }
  expect((await gateway.admin<{ error: string }>(`/bulks/${bulkId}`)).body.error).toBe(
    'JOB_ARCHIVED',
  );
  const other = await gateway.newCaller({ credits: 1 });
  expect((await gateway.call(`/api/v1/studio/bulk/${bulkId}`, { key: other.key })).status).toBe(
    404,
  );
  expect((await readBulk(openBulkId)).status).toBe(200);
  const items = await readBulk(openBulkId, '/items');
  const archived = { state: 'completed', data: null, error: { code: 'JOB_ARCHIVED' } };
  expect(items.body.data).toMatchObject([archived, archived]);
  const [segment] = await gateway.database.query<{ key: string }>(
    'SELECT storage_key AS key FROM archive_segment',
  );
  const path = join(gateway.config.STORAGE_DIR, 'objects', segment?.key ?? '');
  const content = await readFile(path, 'utf8');
  const tables = content
    .split('\n')
    .flatMap((line) => /"table": "(bulk\w*)"/.exec(line)?.[1] ?? []);
  expect(tables).toEqual(['bulk', 'bulk_item', 'bulk_item']);
  expect(content).not.toContain('secret');
  expect([await rowsOf('bulk'), await rowsOf('bulk_item')]).toEqual([1, 2]);
});

it('deletes old account notices and runs of bulk actions, but no notice whose period goes on', async () => {
  expect(await rowsOf('bulk_action')).toBe(0);
  expect(await rowsOf('bulk_action_job')).toBe(0);
  const notices = 'SELECT n.id FROM account_notice n JOIN webhook w ON w.subject_id = n.id';
  expect(await gateway.database.query(notices)).toEqual([{ id: 'ntc_total' }]);
});

it('studio admin archive verify exits with 1 if an object was changed', async () => {
  expect(await admin('archive verify')).toMatchObject({ status: 0, stdout: 'clean: 1 segments\n' });
  const [segment] = await gateway.database.query<{ key: string }>(
    'SELECT storage_key AS key FROM archive_segment',
  );
  await appendFile(join(gateway.config.STORAGE_DIR, 'objects', segment?.key ?? ''), 'x');
  const damaged = await admin('archive verify');
  expect(damaged.status).toBe(1);
  expect(damaged.stdout).toContain(segment?.key);
  expect((await gateway.admin('/archive/check?cursor=x')).status).toBe(400);
});

it('a worker archives what is older than ARCHIVE_AFTER_MONTHS', async () => {
  const [jobId = ''] = await makeJobs(['a harbour of last month']);
  await age('1 month');
  const read = async () => (await gateway.call(`/api/v1/studio/jobs/${jobId}`)).status;
  const { pool, storage } = gateway.api.services;
  const sources = { databaseUrl: gateway.database.url, pool, storage };
  const logger = createLogger('test', 'silent');
  const start = (keptMonths: number) =>
    startArchiver({ sources, logger, keptMonths, intervalMs: 20 });
  const stopNone = start(0);
  const stopOlder = start(2);
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(await read()).toBe(200);
  await stopNone();
  await stopOlder();
  const stop = start(1);
  // The current month minus one whole month: last month's jobs are old enough on its last day only.
  await age('1 month');
  await expect.poll(read, { timeout: 60_000 }).toBe(410);
  await stop();
});

// Last, because no audit has found the segment right that it makes.
it('a refund that meets the archive of its job is rejected, and moves nothing', async () => {
  const [jobId] = await makeJobs(['a harbour that is refunded late']);
  const { organizationId } = gateway.caller;
  const { query } = gateway.database;
  const balance = await gateway.database.balance(organizationId);
  await query('BEGIN');
  await query('SELECT FROM account WHERE organization_id = $1 FOR UPDATE', [organizationId]);
  const refund = gateway.admin(`/jobs/${jobId}/refunds`, { ...operatorAction, id: 'race' });
  // The refund has found its job, and waits for the account.
  await expect
    .poll(() => query('SELECT FROM pg_locks WHERE NOT granted'), { interval: 5 })
    .not.toEqual([]);
  await query(
    `SELECT archive_rows($1, first, last, 'raced',
        encode(sha256(convert_to(archive_content($1, first, last), 'UTF8')), 'hex'))
      FROM (SELECT (SELECT max(s.sequence) + 1 FROM archive_segment s WHERE s.organization_id = $1) AS first,
        sequence AS last FROM account WHERE organization_id = $1) AS bounds`,
    [organizationId],
  );
  await query('COMMIT');
  expect(await refund).toMatchObject({ status: 410, body: { error: 'JOB_ARCHIVED' } });
  expect(await gateway.database.balance(organizationId)).toEqual(balance);
});
