/** The archive as operators and callers see it: endpoints, commands, and the setting of a worker. */
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { createLogger } from '../../platform/logger.ts';
import { startArchiver } from '../../worker/daily-passes.ts';
import { say } from '../chat/chat-clients.ts';
import { studio } from '../clients/cli/studio.ts';
import { operatorAction, useOwnGateway, type StudioBody } from '../harness/gateway.ts';

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
/** Moves everything to the past; the triggers of the ledger would reject this. */
const age = async (months: number) => {
  const changes = [
    ['reservation', 'created_at', 'settled_at'],
    ['ledger_entry', 'created_at'],
    ['job', 'created_at', 'completed_at'],
    ['metadata_pair', 'created_at'],
    ['organization', 'created_at'],
  ].map(
    ([table, ...columns]) =>
      `UPDATE ${table} SET ${columns.map((one) => `${one} = ${one} - interval '${months} months'`).join()}`,
  );
  await gateway.database.query(`SET session_replication_role = replica; ${changes.join('; ')};
    UPDATE account SET window_started_at = window_started_at - interval '${months} months';
    UPDATE reservation SET window_started_at = window_started_at - interval '${months} months';
    UPDATE budget_spend SET day = day - interval '${months} months'; RESET session_replication_role`);
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
const yearAgo = new Date(Date.now() - 300 * 86_400_000).toISOString();

beforeAll(async () => {
  jobIds = await makeJobs(['an old harbour', '[[fail:422]] a wreck']);
  const chat = await gateway.call<{ id: string }>('/api/v1/chat', {
    body: { model: 'gpt-4o', messages: say('hello') },
  });
  chatId = chat.body.id;
  await age(2);
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
  const run = await admin(`archive --before ${thisMonth} --actor olga --reason "ticket 7"`);
  expect(run).toMatchObject({ status: 0, stdout: 'archived 3 jobs and chats in 1 segments\n' });
  const again = await admin(
    `archive --before ${thisMonth} --actor olga --reason "ticket 7" --json`,
  );
  expect(JSON.parse(again.stdout)).toEqual({ segments: 0, reservations: 0 });
  expect(await money()).toEqual(shown);
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
  await age(1);
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
  await age(1);
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
