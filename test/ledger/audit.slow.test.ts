/** The audit finds a violation of each invariant. */
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { claimDailyAudit, runAudit, type AuditReport } from '../../ledger/audit.ts';
import { invariantNames, type AuditScope } from '../../ledger/invariants.ts';
import { hasRunningWorkflow } from '../../executions/workflow-state.ts';
import { createLogger } from '../../platform/logger.ts';
import { createMetrics, createStateGauges } from '../../platform/metrics.ts';
import { startAuditor } from '../../worker/daily-passes.ts';
import { useOwnGateway } from '../harness/gateway.ts';
import { runProgram } from '../harness/programs.ts';

// The tests violate invariants in its database.
const gateway = useOwnGateway({}, 'never');
/** Connection without triggers and foreign keys, which would reject the violations. */
let vandal: Client;
let jobId = '';
let storageKey = '';

const tables =
  'account reservation budget_spend ledger_entry job artifact usage_day usage_closed_day booked_account browser_token'.split(
    ' ',
  );

beforeAll(async () => {
  jobId = await gateway.startImage({ prompt: 'a ledger' });
  await gateway.untilDone(jobId);
  await gateway.untilDone(await gateway.startImage({ prompt: '[[fail:422]] a broken ledger' }));
  const artifacts = 'SELECT storage_key AS key FROM artifact';
  [{ key: storageKey = '' } = {}] = await gateway.database.query<{ key?: string }>(artifacts);
  vandal = new Client({ connectionString: gateway.database.url });
  await vandal.connect();
  await vandal.query(`SET session_replication_role = 'replica'`);
  for (const table of tables) await vandal.query(`CREATE TABLE kept_${table} AS TABLE ${table}`);
});
afterEach(async () => {
  for (const table of tables) {
    await vandal.query(`DELETE FROM ${table}`);
    await vandal.query(`INSERT INTO ${table} SELECT * FROM kept_${table}`);
  }
  expect((await audit()).clean).toBe(true);
});
afterAll(() => vandal.end());

const sources = () => ({
  databaseUrl: gateway.database.url,
  pool: gateway.api.services.pool,
  hasRunningWorkflow: (id: string) => hasRunningWorkflow(gateway.api.client, id),
});
const audit = (scope: AuditScope = 'all'): Promise<AuditReport> => runAudit(sources(), { scope });
const found = ({ checks }: AuditReport): string[] =>
  checks.filter(({ subjects }) => subjects.length > 0).map(({ name }) => name);

/** A Studio reservation without a job or workflow. */
const openReservation = (expires: string) => `
  WITH a AS (SELECT organization_id FROM account LIMIT 1), r AS (
    INSERT INTO reservation (id, organization_id, kind, amount, expires_at, created_at)
      SELECT 'job_${'e'.repeat(32)}', organization_id, 'studio', 0, ${expires}, now() FROM a
      RETURNING id, organization_id)
  INSERT INTO ledger_entry (organization_id, sequence, idempotency_key, kind, reservation_id,
      posted_change, reserved_change, posted_after, reserved_after, created_at)
    SELECT r.organization_id, a.sequence + 1, 'reserve:' || r.id, 'reserve', r.id, 0, 0,
      a.posted, a.reserved, now() FROM r JOIN account a USING (organization_id)`;

/** Statements that cause a violation, by its finding. */
const damage: Record<string, string> = {
  'the totals of an account differ from its ledger entries':
    'UPDATE account SET posted = posted + 1',
  'the reserved credits of an account differ from its open reservations':
    'UPDATE account SET reserved = 1',
  'a reservation differs from its charge or release entry': `UPDATE reservation SET charged = charged - 1
    WHERE state = 'charged'`,
  'the refunds of a reservation differ from its refund entries': `UPDATE reservation SET refunded = 1
    WHERE state = 'charged'`,
  'the totals of a ledger entry do not follow from the previous entry':
    'UPDATE ledger_entry SET posted_after = posted_after + 1 WHERE sequence = 2',
  'something other than a charge made a balance negative': `ALTER TABLE ledger_entry DROP CONSTRAINT ledger_entry_check;
    UPDATE ledger_entry SET posted_after = reserved_after - 1, posted_change = reserved_change - 1
    WHERE kind = 'reserve'`,
  'the use of a six-hour window differs from its reservations':
    'UPDATE account SET window_used = window_used + 1',
  'the spending of a budget differs from its reservations and charges':
    'UPDATE budget_spend SET spent = spent + 1',
  'the spending of a browser token differs from its reservations': `INSERT INTO browser_token
    (id, organization_id, end_user, key_id, mac, scopes, spent_micro, expires_at)
    SELECT 'tok_1', organization_id, 'ann', id, mac, scopes, 1, now() FROM api_key LIMIT 1`,
  'a job or chat is counted in other budgets than those of its API key and end user': `UPDATE reservation
    SET budget_id = 'another'`,
  'a charge has another price than its reservation': `UPDATE ledger_entry SET price_rows = '{price_1}'
    WHERE kind = 'charge'`,
  'a charge differs from its quantity and its price': `UPDATE job
    SET outputs = jsonb_set(outputs, '{0,line,quantity}', '7') WHERE status = 'completed'`,
  'the status of a job contradicts its reservation': `UPDATE job SET status = 'failed', outputs = NULL, error = '{}'
    WHERE status = 'completed'`,
  'a completed job has no artifact': 'DELETE FROM artifact',
  'a reservation does not have exactly one reserve entry': `DELETE FROM ledger_entry WHERE kind = 'reserve'`,
  'a reservation was settled more than once': `INSERT INTO ledger_entry
    SELECT organization_id, sequence + 100, idempotency_key || ':again', kind, reservation_id,
      posted_change, reserved_change, posted_after, reserved_after, actor, reason, created_at
    FROM ledger_entry WHERE kind = 'charge'`,
  'an open Studio reservation has no open job': openReservation(`now() + interval '1 hour'`),
  'an open reservation has waited too long for the sweeper':
    openReservation(`now() - interval '1 hour'`),
  'the outputs of a job differ from its artifacts': `UPDATE artifact SET sha256 = 'another'`,
  'a job that was not charged has artifacts': `UPDATE artifact
    SET job_id = (SELECT id FROM job WHERE status = 'failed')`,
  'a ledger entry has no reservation': `DELETE FROM reservation WHERE state = 'charged'`,
  'the sums of archived jobs and chats differ from the archive': `INSERT INTO usage_day
    SELECT organization_id, '2026-01-01', 'chat', NULL, 'key_1', 'charged', NULL, 1, 1, 0, 0, true FROM account`,
  'the sums of a closed day differ from its jobs and chats': `INSERT INTO usage_closed_day
    SELECT organization_id, (now() AT TIME ZONE 'UTC')::date, false, true FROM account`,
  'the sums of booked days differ from the ledger entries':
    'INSERT INTO booked_account SELECT organization_id, 2, 1 FROM account',
  'an open reservation has no running workflow': openReservation(`now() + interval '1 hour'`),
};

/** Other violations of the same kinds. */
const moreDamage: [string, string][] = [
  ['a ledger entry has no reservation', 'DELETE FROM reservation'],
  [
    'a ledger entry has no reservation',
    `INSERT INTO ledger_entry SELECT organization_id, sequence + 100, 'refund:none', 'refund', 'job_none', 0, 0,
      posted_after, reserved_after, actor, reason, created_at FROM ledger_entry WHERE kind = 'charge'`,
  ],
  [
    'a ledger entry has no reservation',
    `INSERT INTO ledger_entry SELECT organization_id, sequence + 100, 'settle:zzz', 'release', 'zzz', 0, 0,
      posted_after, reserved_after, actor, reason, created_at FROM ledger_entry WHERE kind = 'charge'`,
  ],
  [
    'a reservation differs from its charge or release entry',
    `UPDATE ledger_entry SET organization_id = 'another' WHERE kind = 'charge'`,
  ],
  [
    'a reservation does not have exactly one reserve entry',
    `UPDATE ledger_entry SET organization_id = 'another' WHERE kind = 'reserve'`,
  ],
  [
    'a reservation does not have exactly one reserve entry',
    `UPDATE ledger_entry SET reserved_change = reserved_change + 1 WHERE kind = 'reserve'`,
  ],
  [
    'the outputs of a job differ from its artifacts',
    `UPDATE job SET outputs = outputs || outputs WHERE outputs IS NOT NULL`,
  ],
  [
    'the outputs of a job differ from its artifacts',
    `UPDATE job SET outputs = '[]' WHERE outputs IS NOT NULL`,
  ],
  [
    'the spending of a budget differs from its reservations and charges',
    `INSERT INTO budget_spend VALUES ('another', '2020-01-01', 1)`,
  ],
  [
    'the spending of a budget differs from its reservations and charges',
    `INSERT INTO budget_spend SELECT id, '2020-01-01', 1 FROM api_key`,
  ],
  [
    'the spending of a budget differs from its reservations and charges',
    `UPDATE reservation SET created_at = created_at - interval '40 days'`,
  ],
  [
    'the sums of a closed day differ from its jobs and chats',
    `WITH day AS (INSERT INTO usage_closed_day SELECT organization_id, '2020-01-01', false, true FROM account RETURNING *)
      INSERT INTO usage_day SELECT organization_id, day, 'chat', NULL, 'key_1', 'charged', NULL, 1, 1, 0, 0, false FROM day`,
  ],
];

describe('the audit', () => {
  it('has a test case for every invariant in its list', () => {
    expect(invariantNames.filter((name) => !(name in damage))).toEqual([]);
  });

  it.each([...Object.entries(damage), ...moreDamage])('finds: %s', async (finding, statement) => {
    await vandal.query(statement);
    const report = await audit();
    expect(report.clean).toBe(false);
    expect(found(report)).toContain(finding);
  });

  it('finds a missing entry in a sequence', async () => {
    // The two entries of the failed job cancel each other out, so only their sequence numbers are
    // missing.
    await vandal.query(`DELETE FROM ledger_entry WHERE reservation_id =
      (SELECT id FROM job WHERE status = 'failed') AND kind IN ('reserve', 'release')`);
    expect(found(await audit())).toContain(
      'the totals of an account differ from its ledger entries',
    );
  });

  it('reads results, and finds one with changed bytes', async () => {
    const { storage } = gateway.api.services;
    const whole = await runAudit({ ...sources(), storage }, { scope: 'all' });
    expect(whole.clean).toBe(true);
    expect(whole.checks.find(({ name }) => name.startsWith('a charged result'))?.examined).toBe(1);
    await appendFile(join(gateway.config.STORAGE_DIR, 'objects', storageKey), 'x');
    const report = await runAudit({ ...sources(), storage }, { scope: 'all' });
    expect(found(report)).toEqual([
      'a charged result is missing, or its hash is not the recorded one',
    ]);
    await storage.remove(storageKey);
    expect((await runAudit({ ...sources(), storage }, { scope: 'all' })).clean).toBe(false);
  });

  it('finds a call that the provider accepted twice', async () => {
    const acceptedCalls = async () =>
      (await gateway.sandbox.submits({})).map((submit) => ({ ...submit, idempotencyKey: null }));
    expect((await runAudit({ ...sources(), acceptedCalls }, { scope: 'all' })).clean).toBe(true);
    const [first] = await gateway.sandbox.submits({ jobId });
    const again = new URL(`${gateway.env['FAL_QUEUE_URL']}/${first?.endpoint}`);
    again.searchParams.set('fal_webhook', first?.webhookUrl ?? '');
    const authorization = `Key ${gateway.env['FAL_KEY']}`;
    const headers = { authorization, 'content-type': 'application/json' };
    const body = JSON.stringify(first?.body);
    expect((await fetch(again, { method: 'POST', headers, body })).status).toBe(200);
    const report = await runAudit({ ...sources(), acceptedCalls }, { scope: 'all' });
    expect(report.checks.at(-1)?.subjects).toEqual([`${jobId}:0`]);
  });
});

describe('the audit of the changes', () => {
  const covered = async () => {
    const { entries, reservations, clean } = await audit('changes');
    return { entries, reservations, clean };
  };

  it('checks the entries since the last audit without violations, and their reservations', async () => {
    expect(await covered()).toEqual({ entries: 0, reservations: 0, clean: true });
    await gateway.untilDone(await gateway.startImage({ prompt: 'a change' }));
    expect(await covered()).toEqual({ entries: 2, reservations: 1, clean: true });
    expect(await covered()).toEqual({ entries: 0, reservations: 0, clean: true });
  });

  it('finds a violation in changed rows until it is repaired, and one in old rows not at all', async () => {
    const spend = (credits: number) =>
      vandal.query(`UPDATE budget_spend SET spent = spent + ${credits}`);
    await spend(1);
    expect(await covered()).toMatchObject({ clean: true });
    await gateway.untilDone(await gateway.startImage({ prompt: 'another change' }));
    for (const attempt of [1, 2]) {
      const report = await audit('changes');
      expect([attempt, found(report), report.entries]).toEqual([
        attempt,
        ['the spending of a budget differs from its reservations and charges'],
        2,
      ]);
    }
    await spend(-1);
    expect(await covered()).toEqual({ entries: 2, reservations: 1, clean: true });
    expect(await covered()).toMatchObject({ entries: 0 });
  });

  it('finds a changed balance without entries, and an entry removed behind the last audit', async () => {
    await vandal.query('UPDATE account SET posted = posted + 1');
    expect(found(await audit('changes'))).toEqual([
      'the totals of an account differ from its ledger entries',
    ]);
    await vandal.query('UPDATE account SET posted = posted - 1');
    await vandal.query(
      'DELETE FROM ledger_entry WHERE sequence = (SELECT max(sequence) FROM ledger_entry)',
    );
    await vandal.query('UPDATE account SET sequence = sequence - 1');
    expect(found(await audit('changes'))).toContain(
      'the totals of an account differ from its ledger entries',
    );
  });
});

it('only one of two workers audits all rows in 24 hours', async () => {
  await vandal.query(
    `UPDATE last_audit SET started_at = now() - interval '25 hours' WHERE scope = 'all'`,
  );
  const { pool } = gateway.api.services;
  const claims = await Promise.all([claimDailyAudit(pool), claimDailyAudit(pool)]);
  expect(claims.toSorted()).toEqual([false, true]);
});

it('npm run audit prints its checks, and exits with 1 if there is a violation', async () => {
  const audited = (options: string[], env: Record<string, string> = {}) =>
    runProgram('dev/stack/audit.ts', options, { ...gateway.env, ...env });
  const [submits, json, table, away] = await Promise.all([
    audited(['--submits', gateway.sandbox.url]),
    audited(['--json']),
    audited(['--no-owners']),
    audited(['--no-owners'], { DATABASE_URL: 'postgres://x:y@127.0.0.1:1/none' }),
  ]);
  // The submit that was repeated above stays in the sandbox's log.
  expect(submits).toMatchObject({ status: 1, stderr: '' });
  expect(json.status).toBe(0);
  expect(JSON.parse(json.stdout)).toMatchObject({ clean: true });
  for (const name of invariantNames) expect(table.stdout).toContain(name);
  expect(away.status).toBe(2);
});

const finding = 'a reservation does not have exactly one reserve entry';

// The audit of all rows reads 10,000 of them at a time.
it('an audit of 10,001 forged rows counts them and lists at most 100 of a kind, with the counts first', async () => {
  await vandal.query(`
      INSERT INTO reservation (id, organization_id, kind, amount, expires_at, created_at, key_id)
        SELECT 'chat_' || lpad(n::text, 32, '0'), organization_id, 'chat', 0, now(), now(),
          (SELECT id FROM api_key LIMIT 1)
        FROM account, generate_series(1, 10001) n`);
  const { stdout } = await runProgram('worker/audit-command.ts', [], gateway.env);
  expect(stdout).toMatch(new RegExp(`${finding} +all +10001`));
  const lines = stdout.split('\n');
  expect(lines.filter((line) => line.startsWith('    chat_')).length % 100).toBe(0);
  expect(lines.length).toBeLessThan(invariantNames.length + 10 + 3 * 102);
  expect(lines.indexOf(`${finding}: the first 100`)).toBeGreaterThan(invariantNames.length);

  const { body } = await gateway.admin<{ findings: { finding: string }[]; checks: object[] }>(
    '/audit',
  );
  expect(body.findings.filter((one) => one.finding === finding)).toHaveLength(100);
  const otherBudget =
    'a job or chat is counted in other budgets than those of its API key and end user';
  for (const name of [finding, otherBudget])
    expect(body.checks).toContainEqual({ name, examined: null, found: 10_001 });
});

it('the auditor of a worker counts and logs its findings, and does not run with an interval of 0', async () => {
  const metrics = createMetrics();
  const state = createStateGauges(metrics);
  const logger = createLogger('test', 'silent');
  await startAuditor({ sources: sources(), intervalMs: 0, logger, state })();
  expect((await state.auditedAt.get()).values).toEqual([]);
  const stop = startAuditor({ sources: sources(), intervalMs: 50, logger, state });
  const rows = async () =>
    (await state.auditRows.get()).values.find(({ labels }) => labels.scope === 'changes')?.value;
  await expect.poll(rows).toBe(0);
  await vandal.query('UPDATE account SET posted = posted + 1');
  await expect.poll(rows).toBeGreaterThan(0);
  await stop();
});
