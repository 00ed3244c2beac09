/**
 * Runbooks for problems while Postgres and Temporal work: each test causes the problem, checks its
 * symptom and its alerts, and solves it with the commands of the page.
 */
import { randomBytes } from 'node:crypto';
import { readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { states } from '../faults/calls.ts';
import { newSecret } from '../harness/sandbox.ts';
import { startWebhookReceiver } from '../harness/webhook-receiver.ts';
import { startRehearsal, studioPath, type Rehearsal } from './rehearsal.ts';

let gateway: Rehearsal;
beforeAll(async () => {
  gateway = await startRehearsal({
    // Videos miss their deadline, images do not.
    VIDEO_DEADLINE_MS: '1000',
    OUTCOME_WAIT_MS: '15000',
    FIRST_CHECK_MAX_MS: '600000',
    RESERVATION_TTL_MS: '120000',
    CHAT_CHECKPOINT_MS: '300',
    CHAT_RESERVATION_TTL_MS: '3000',
    WEBHOOK_RETRY_DELAYS_MS: '200,200',
  });
});
afterAll(() => gateway.stack.close());

/** Starts a job whose provider sends no notification; returns its id once its call is accepted. */
async function startUnnotified(prompt: string): Promise<string> {
  const jobId = await gateway.start(`[[no-webhook]] [[slow:300ms]] ${prompt}`);
  await gateway.untilAccepted(jobId);
  return jobId;
}
/** Starts the API and the worker again, with other settings. */
async function restartWith(env: Record<string, string>): Promise<void> {
  gateway.stack.configure(env);
  await Promise.all((['api', 'worker'] as const).map((part) => gateway.restart(part)));
}

describe('audit-row.md', () => {
  it('sets an account that was written by hand to the sum of its entries', async () => {
    const { stack, scrape, request } = gateway;
    const since = await scrape();
    const caller = await stack.newCaller(100);
    const org = { 'org_…': caller.organizationId };
    const image = { key: caller.key, body: { prompt: 'a counted hen', async: true } };
    const running = await request(studioPath, { ...image, body: { prompt: '[[slow:6s]] a hen' } });
    const damage = 'UPDATE account SET posted = posted + 1000000 WHERE organization_id = $1';
    await stack.query(damage, [caller.organizationId]);
    await gateway.untilFiring(since, 'LedgerBroken');
    expect(stack.readLog('worker')).toContain('ledger.broken');

    await gateway.follow('audit-row', async (page) => {
      const found = await page.admin('audit', {}, 1);
      expect(found).toContain('the totals of an account differ from its ledger entries');
      expect(found).toContain(caller.organizationId);
      await page.admin('org suspend', org);
      const error = async () => (await request(studioPath, image)).body.error;
      await expect.poll(error).toBe('ORGANIZATION_SUSPENDED');
      const entries = await page.admin('ledger', org);
      expect(entries).toContain('reserve');
      // Running jobs of a suspended organization are settled.
      await gateway.untilState(running.body.data.jobId, states.paid);
      const [, , [counted] = [], , broken] = await page.sql<{ max: string; count: string }>(
        'BEGIN;\nSELECT posted',
        org,
      );
      // Otherwise entries are missing, and the page says to restore a backup.
      expect(counted?.max).toBe(counted?.count);
      // The job was settled while the row was wrong.
      expect(broken).toMatchObject([
        { finding: 'the totals of a ledger entry do not follow from the previous entry' },
      ]);
      await page.sql('BEGIN;\nALTER TABLE', org);
      expect(await stack.query('SELECT * FROM ledger_audit')).toEqual([]);
      const moves = { grant: 'granted', 'take-back': 'taken back' };
      for (const [move, done] of Object.entries(moves)) {
        expect(await page.admin(move, org)).toMatch(`${done} `);
        expect(await page.admin(move, org)).toMatch(/already applied/);
      }
      await page.admin('org activate', org);
      await expect.poll(async () => (await request(studioPath, image)).status).toBe(202);
      await gateway.expectInOrder();
      expect(await page.admin('audit')).toBe('clean\n');
    });
    await gateway.untilQuiet(since, 'LedgerBroken');
  });

  it('LedgerNotAudited: the log says why the ledger could not be read', async () => {
    const { stack, scrape } = gateway;
    await stack.query('ALTER FUNCTION audit_open() RENAME TO audit_open_away');
    await expect.poll(() => stack.readLog('worker')).toContain('ledger.not_audited');
    await gateway.untilFiring(await scrape(), 'LedgerNotAudited');
    await stack.query('ALTER FUNCTION audit_open_away() RENAME TO audit_open');
    await gateway.untilQuiet(await scrape(), 'LedgerNotAudited');
  });
});

it('provider-down.md: jobs wait while the provider is paused, and continue afterwards', async () => {
  const alerts = ['ProviderFails', 'JobsFail', 'OutcomeUnknown', 'FirstTokenSlow'];
  const { stack, scrape, request, start } = gateway;
  const since = await scrape();
  const film = await start('[[ignore-cancel]] [[slow:20s]] a film of an otter', 'video');
  await gateway.untilAccepted(film);
  await gateway.breakProvider({ match: 'fal-ai', faults: 'submit:503' });
  const chatted = gateway.stream(stack.caller.key, '[[slow:11s]] tell me', 20);
  const failing = await start('an otter whose call is rejected');
  await gateway.untilCall(failing, 'not_accepted');
  expect(await chatted).toContain('[DONE]');

  await gateway.follow('provider-down', async (page) => {
    await gateway.untilState(failing, states.failed('PROVIDER_ERROR'));
    const { error } = (await request(`/api/v1/studio/jobs/${failing}`)).body.data;
    const message = 'the provider did not accept the call (503)';
    expect(error).toMatchObject({ code: 'PROVIDER_ERROR', message });
    await gateway.untilFiring(since, ...alerts);
    const retried = await start('an otter that is submitted again');

    await page.untilAdmin('stuck', /call 1 was not accepted by fal .* and will be sent again/);
    expect(await page.admin('providers')).toMatch(/fal .* [1-9]/);

    await page.admin('pause fal');
    const waiting = await start('an otter that waits');
    await gateway.untilPhase(waiting, 'waiting_for_provider');
    // A synchronous request returns 202 after SYNC_WAIT_MS.
    const patient = await request(studioPath, { body: { prompt: 'a patient otter' } });
    expect(patient.status).toBe(202);
    expect(await page.admin('stuck')).toMatch(/fal was paused .* by .*: fal answers 503/);
    const elsewhere = { prompt: 'an otter elsewhere', model: 'alpha-image-2' };
    expect((await request(studioPath, { body: elsewhere })).status).toBe(200);

    await gateway.mendProvider();
    await page.admin('resume fal');
    await gateway.untilState(waiting, states.paid);
    await gateway.untilState(patient.body.data.jobId, states.paid);
    // The job was submitted again after the resume, or failed before it.
    const status = async () => (await gateway.readState(retried))?.status;
    await expect.poll(status).toMatch(/completed|failed/);
    expect(await page.admin('providers')).not.toContain('fal answers 503');

    await gateway.untilState(film, states.failed('OUTCOME_UNKNOWN'));
    expect(await page.admin('unknown')).toMatch(new RegExp(`${film} .*fal: `));
  });
  const healed = await scrape();
  await gateway.untilState(await start('an otter after the outage'), states.paid);
  await gateway.untilQuiet(healed, ...alerts);
});

it('storage.md: jobs wait until the storage accepts objects again', async () => {
  const providers = ['fal', 'elevenlabs', 'openai'];
  const { stack, scrape, start } = gateway;
  const since = await scrape();
  const objects = join(stack.directory, 'storage', 'objects');
  await gateway.untilState(await start('a heron before'), states.paid);
  await rename(objects, `${objects}.aside`);
  // A file instead of the directory, so that no user can write an object.
  await writeFile(objects, '');
  await gateway.follow('storage', async (page) => {
    const failing = await start('a heron that cannot be stored');
    const retried = /activity store failed .*last error: the object could not be stored/;
    await page.untilAdmin('stuck', new RegExp(`${failing} .*${retried.source}`));
    await gateway.untilFiring(since, 'StorageFails');
    expect((await fetch(`${stack.url}/readyz`)).status).toBe(200);
    expect(await page.run('temporal workflow list')).not.toContain(failing);

    for (const name of providers) await page.admin(`pause ${name}`);
    const waiting = await start('a heron that waits for all providers');
    await gateway.untilPhase(waiting, 'waiting_for_provider');
    await rm(objects);
    await rename(`${objects}.aside`, objects);
    for (const name of providers) await page.admin(`resume ${name}`);
    for (const jobId of [failing, waiting]) await gateway.untilState(jobId, states.paid);
    expect(await page.admin('providers')).not.toContain('storage full');
    const audit = 'npm run audit -- --results';
    await page.run(audit);
    const [kept = ''] = await readdir(objects, { recursive: true }).then((all) =>
      all.filter((name) => name.includes(waiting) && /\.\w+$/.test(name)),
    );
    await rename(join(objects, kept), `${objects}.aside`);
    expect(await page.run(audit, { status: 1 })).toContain(waiting);
    await rename(`${objects}.aside`, join(objects, kept));
  });
});

describe('stuck-reservation.md', () => {
  it('each stuck reservation ends by the step for its finding', async () => {
    const { scrape, start } = gateway;
    const since = await scrape();
    const [silent, orphaned, canceled, overdue] = [
      await start('[[no-webhook]] [[slow:300ms]] an owl whose notification is lost'),
      await start('[[no-webhook]] [[slow:300ms]] an owl whose workflow is gone'),
      await start('[[no-webhook]] [[slow:60s]] an owl that is canceled'),
      await start('[[no-webhook]] [[ignore-cancel]] [[slow:900s]] an endless owl', 'video'),
    ];
    await Promise.all([silent, orphaned, canceled, overdue].map(gateway.untilAccepted));
    await gateway.terminate(orphaned);
    const age = `UPDATE job SET deadline_at = deadline_at - interval '3 hours' WHERE status = 'open'`;
    await gateway.stack.query(age);
    await gateway.untilFiring(since, 'JobsOverdue', 'ReservationStuck');
    await gateway.ageReservations('3 hours');
    await gateway.follow('stuck-reservation', async (page) => {
      const stdout = await page.admin('stuck');
      expect(stdout).toMatch(new RegExp(`${silent} .*call 1 was submitted to fal .*ago`));
      const terminated = 'workflow ended \\(TERMINATED\\) without settling the reservation';
      expect(stdout).toMatch(new RegExp(`${orphaned} .*${terminated}`));
      const pollers = await page.run('temporal task-queue describe');
      expect(pollers).toMatch(/Pollers:[^]*workflow/);

      const reverified = await page.admin('reverify', { 'job_…': silent });
      expect(reverified).toContain('succeeded');
      await gateway.untilState(silent, states.paid);
      await page.admin('cancel', { 'job_…': canceled });
      await gateway.untilState(canceled, { ...states.failed('CANCELED'), status: 'canceled' });
      const settled = await page.admin('resettle', { 'job_…': orphaned });
      expect(settled).toContain('taken_up');
      await gateway.untilReverified(page, orphaned);
      expect(await gateway.countAccepted(orphaned)).toBe(1);
      await gateway.untilState(overdue, states.failed('OUTCOME_UNKNOWN'));
      expect(await page.admin('stuck')).not.toContain('job_');
    });
    await gateway.untilQuiet(await scrape(), 'JobsOverdue', 'ReservationStuck');
  });

  it('the sweeper settles a chat whose API stopped, when it can run again', async () => {
    const { stack, scrape } = gateway;
    await stack.query('ALTER FUNCTION chat_sweep(integer) RENAME TO chat_sweep_away');
    await expect.poll(() => stack.readLog('worker')).toContain('sweeper.step_failed');
    const caller = await stack.newCaller(100);
    const prompt = '[[words:500]] [[slow-chunks:100ms]] tell me';
    const chat = gateway.stream(caller.key, prompt, 1000);
    const cut = expect(chat).rejects.toThrow();
    const of = [caller.organizationId];
    const checkpointed = `SELECT id FROM reservation
      WHERE organization_id = $1 AND state = 'reserved' AND checkpoint_micro > 0`;
    const open = () => stack.query(checkpointed, of);
    await expect.poll(open).toHaveLength(1);
    await stack.kill('api');
    await cut;
    await stack.start('api');
    await gateway.untilFiring(await scrape(), 'ChatReservationStuck', 'SweeperStopped');
    await gateway.ageReservations('1 hour');
    const page = await gateway.openPage('stuck-reservation');

    expect(await page.admin('stuck')).toContain('an open chat: it is settled when it ends');

    await stack.query('ALTER FUNCTION chat_sweep_away(integer) RENAME TO chat_sweep');
    await expect.poll(open).toEqual([]);
    const ended = 'SELECT state, charged > 0 AS paid FROM reservation WHERE organization_id = $1';
    expect(await stack.query(ended, of)).toEqual([{ state: 'charged', paid: true }]);
    expect(await page.admin('stuck')).not.toContain('a chat');
    await gateway.expectInOrder();
    await gateway.untilQuiet(await scrape(), 'ChatReservationStuck', 'SweeperStopped');
  });
});

describe('bulk-jobs.md', () => {
  const bulkPath = '/api/v1/studio/bulk';
  interface Accepted {
    data: { bulkId: string; jobId: string; status: string; counts: { running: number } };
  }
  const accept = async (path: string, key: string, body: object): Promise<Accepted['data']> => {
    const answer = await gateway.request(path, { key, body });
    return (answer.body as unknown as Accepted).data;
  };
  const readBulk = async (bulkId: string, key: string) =>
    (await gateway.request(`${bulkPath}/${bulkId}`, { key })).body
      .data as unknown as Accepted['data'];
  const picture = (prompt: string) => ({ use: 'image/generate', body: { prompt } });

  it('paused and hanging bulk jobs are explained and continued, and the step that hangs is named', async () => {
    const { stack, scrape } = gateway;
    const since = await scrape();
    const [poor, rich] = await Promise.all([stack.newCaller(5), stack.newCaller(1000)]);
    const slow = '[[no-webhook]] [[slow:900s]] a caught trout';
    const [paused, hanging] = await Promise.all([
      accept(bulkPath, poor.key, { items: ['a trout', 'an eel'].map(picture) }),
      accept(bulkPath, rich.key, { items: [slow, slow].map(picture), concurrency: 2 }),
    ]);
    const pipeline = await accept('/api/v1/studio/pipelines', rich.key, {
      steps: [
        { id: 'art', ...picture('a river') },
        {
          id: 'film',
          use: 'image/remove-background',
          body: { imageUrl: { $from: 'art' } },
        },
      ],
      async: true,
    });
    await gateway.breakProvider({ match: 'birefnet', faults: 'no-webhook' });
    await expect
      .poll(async () => (await readBulk(hanging.bulkId, rich.key)).counts.running)
      .toBe(2);
    await expect.poll(async () => (await readBulk(paused.bulkId, poor.key)).status).toBe('paused');
    await gateway.terminate(hanging.bulkId);
    const found = `UPDATE bulk SET missing_at = now() + interval '1 hour' WHERE id = $1`;
    await stack.query(found, [hanging.bulkId]);
    await gateway.untilFiring(since, 'BulkJobHangs');

    await gateway.follow('bulk-jobs', async (page) => {
      const listed = await page.admin('bulks');
      expect(listed).toMatch(
        new RegExp(`${paused.bulkId} .*Paused .* ago \\(INSUFFICIENT_CREDITS\\)`),
      );
      expect(await page.admin('why', { 'bulk_…': hanging.bulkId })).toMatch(
        /It hangs: its workflow ended \(TERMINATED\)/,
      );
      const stuck = await page.admin('stuck');
      expect(stuck).toContain(`it is an item of ${hanging.bulkId}`);
      await page.admin('grant', { 'org_…': poor.organizationId });
      await expect
        .poll(async () => (await readBulk(paused.bulkId, poor.key)).status)
        .toBe('completed');
      const items = { 'bulk_…': hanging.bulkId };
      expect(await page.admin('bulk-action start cancel --bulk', items)).toMatch(/^jobs +2$/m);
      expect(await page.admin('bulk-action start cancel --run', items)).toMatch(/act_\w+/);
      await page.admin('reverify', { 'job_…': pipeline.jobId });
    });
    await stack.query(`UPDATE bulk SET missing_at = now() - interval '1 hour' WHERE id = $1`, [
      hanging.bulkId,
    ]);
    await expect
      .poll(async () => (await readBulk(hanging.bulkId, rich.key)).status)
      .toBe('stopped');
    await gateway.mendProvider();
    await gateway.untilQuiet(await scrape(), 'BulkJobHangs');
  });
});

it('pepper-rotation.md: keys move to the new pepper when they are used, also while APIs have different settings', async () => {
  const { stack, request } = gateway;
  const newCaller = () => stack.newCaller(1);
  const [used, behind, idle] = await Promise.all([newCaller(), newCaller(), newCaller()]);
  await stack.start('api2');
  const apis = ['api', 'api2'] as const;
  const readStatuses = async ({ key }: { key: string }, path = '/api/v1/usage') => {
    const statuses: number[] = [];
    for (const part of apis) {
      statuses.push((await request(path, { key, base: stack.getUrl(part) })).status);
    }
    return statuses;
  };
  const operator = (await gateway.requestAdmin('/operators', { name: 'olga' })).body.data;
  const operatorPath = '/api/admin/v1/providers';
  const older = stack.env['KEY_PEPPER'] ?? '';
  const newer = newSecret();
  /**
   * Gives both APIs these peppers, one after the other. Both accept every key while their
   * peppers differ; the key `behind` is used last by the API with the older peppers.
   */
  async function step(pepper: string, previous: string): Promise<void> {
    stack.configure({ KEY_PEPPER: pepper, KEY_PEPPER_PREVIOUS: previous });
    await gateway.restart('api');
    expect(await readStatuses(behind)).toEqual([200, 200]);
    await gateway.restart('api2');
  }
  await gateway.follow('pepper-rotation', async (page) => {
    await step(older, newer);
    await step(newer, older);
    const [at] = await stack.query<{ now: Date }>('SELECT clock_timestamp() AS now');
    const put = { '2026-11-21T12:15Z': at?.now.toISOString() ?? '' };
    const count = () => page.sql('SELECT count(*)', put);
    const [[before] = []] = (await count()) as { moved: string; not_yet: string }[][];
    expect(before).toMatchObject({ moved: '0' });
    expect(await readStatuses(used)).toEqual([200, 200]);
    expect(await readStatuses(operator, operatorPath)).toEqual([200, 200]);
    expect(await count()).toEqual([[{ moved: '2', not_yet: String(Number(before?.not_yet) - 2) }]]);

    const restartWithPrevious = async (pepper: string) => {
      stack.configure({ KEY_PEPPER_PREVIOUS: pepper });
      await Promise.all(apis.map((part) => gateway.restart(part)));
    };
    await restartWithPrevious('');
    expect(await readStatuses(used)).toEqual([200, 200]);
    expect(await readStatuses(operator, operatorPath)).toEqual([200, 200]);
    for (const one of [behind, idle]) expect(await readStatuses(one)).toEqual([401, 401]);
    await restartWithPrevious(older);
    for (const one of [behind, idle]) expect(await readStatuses(one)).toEqual([200, 200]);
    await stack.end('api2');
  });
});

it('webhook-secrets.md: a job with rejected provider notifications ends by polling, and receivers get the new secret', async () => {
  const { stack, scrape, request, start } = gateway;
  const receiver = await startWebhookReceiver();
  const origins = stack.env['ALLOW_PRIVATE_NETWORK_ORIGINS'] ?? '';
  const onSchedule = await startUnnotified('a stork on schedule');
  await restartWith({
    WEBHOOK_SECRET: newSecret(),
    WEBHOOK_SECRET_PREVIOUS: stack.env['WEBHOOK_SECRET'] ?? '',
  });
  expect(await gateway.notify(onSchedule)).toBe(200);
  await gateway.untilState(onSchedule, states.paid);
  const before = await startUnnotified('a stork under way');
  await restartWith({
    WEBHOOK_SECRET: newSecret(),
    WEBHOOK_SECRET_PREVIOUS: '',
    ALLOW_PRIVATE_NETWORK_ORIGINS: `${origins},${receiver.origin}`,
  });
  const since = await scrape();
  await gateway.follow('webhook-secrets', async (page) => {
    expect(await gateway.notify(before)).toBe(404);
    await page.admin('reverify', { 'job_…': before });
    await gateway.untilState(before, states.paid);
    await gateway.untilFiring(since, 'NotificationsLost');

    const forged = await start('[[no-webhook]] [[slow:60s]] a stork with forged notifications');
    await gateway.untilAccepted(forged);
    for (let sent = 0; sent < 12; sent += 1) {
      expect(await gateway.notify(forged, 'bad')).toBe(401);
    }
    await gateway.untilFiring(since, 'NotificationsRejected');
    expect(stack.readLog('api')).toMatch(/notification\.rejected/);
    await request(`/api/v1/studio/jobs/${forged}/cancel`, { body: {} });

    const readSecret = async (path = '') =>
      (await request(`/api/v1/webhooks/secret${path}`, path === '' ? {} : { body: {} })).body
        .secret;
    // The receiver of a caller, which accepts webhooks that are signed with this secret.
    let secret = await readSecret();
    const verify = (): number => {
      const hook = receiver.received('/jobs').at(-1);
      try {
        new Webhook(secret).verify(hook?.text ?? '', hook?.headers ?? {});
        return 204;
      } catch {
        return 401;
      }
    };
    const webhookUrl = receiver.at('/jobs', (response) => response.writeHead(verify()).end());
    const startNotified = async (prompt: string): Promise<string> => {
      const { body } = await request(studioPath, { body: { prompt, webhookUrl, async: true } });
      return body.data.jobId;
    };
    const readDelivery = (jobId: string) =>
      stack.query('SELECT state FROM webhook WHERE subject_id = $1', [jobId]);
    secret = await readSecret('/rotate');
    const delivered = await startNotified('a stork with a webhook');
    await expect.poll(() => readDelivery(delivered)).toEqual([{ state: 'delivered' }]);

    await restartWith({ WEBHOOK_SIGNING_SECRET: newSecret() });
    const undelivered = await startNotified('a stork with a failed webhook');
    await expect.poll(() => readDelivery(undelivered)).toEqual([{ state: 'failed' }]);
    const failing = await page.admin('webhooks');
    expect(failing).toMatch(new RegExp(`${undelivered} .*failed .*401`));
    secret = await readSecret();
    await page.admin('redeliver-webhook', { 'job_…': undelivered });
    await expect.poll(() => readDelivery(undelivered)).toEqual([{ state: 'delivered' }]);
  });
  const healed = await scrape();
  await gateway.untilState(await start('a stork after the change'), states.paid);
  await gateway.untilQuiet(healed, 'NotificationsLost', 'NotificationsRejected');
  receiver.close();
});

it('secrets.md: jobs survive new payload keys, passwords and provider keys, and old values are rejected', async () => {
  const { stack, request, start, notify } = gateway;
  const payloadKey = (id: string) => `${id}:${randomBytes(32).toString('base64')}`;
  const [first, second] = [payloadKey('first'), payloadKey('second')];
  const makeUrl = (user: string, password: string): string =>
    Object.assign(new URL(stack.databaseUrl), { username: user, password }).href;
  const canConnect = async (connectionString: string): Promise<boolean> => {
    const client = new Client({ connectionString });
    const connected = await client.connect().then(
      () => true,
      () => false,
    );
    await client.end();
    return connected;
  };
  const fetchFile = async (jobId: string): Promise<number> => {
    const { body } = await request(`/api/v1/studio/jobs/${jobId}`);
    return (await fetch(body.data.result.images[0]?.url ?? '')).status;
  };
  const readStatus = async (key: string) =>
    (await request('/api/admin/v1/providers', { key })).status;

  await gateway.follow('secrets', async (page) => {
    // A leaked provider key, a new password of Postgres, and new payload encryption.
    await page.admin('pause fal');
    await stack.end('sandbox');
    const falKey = newSecret();
    stack.configure({ SANDBOX_FAL_KEY: falKey });
    await stack.start('sandbox');
    const paused = await start('a newt that waits for a key');
    await gateway.untilPhase(paused, 'waiting_for_provider');
    const [initial, password] = [stack.databaseUrl, newSecret()];
    const put = { 'ROLE gateway': 'ROLE postgres', 'new-password': password };
    await page.sql('ALTER ROLE gateway PASSWORD', put);
    const renewed = makeUrl('postgres', password);
    await restartWith({ FAL_KEY: falKey, DATABASE_URL: renewed, PAYLOAD_KEYS: first });
    await page.admin('resume fal');
    await gateway.untilState(paused, states.paid);
    expect([await canConnect(initial), await canConnect(renewed)]).toEqual([false, true]);

    const underFirst = await startUnnotified('a newt under the first key');
    const [adminKey, before] = [stack.env['ADMIN_API_KEY'] ?? '', await fetchFile(paused)];
    const signed = (await request(`/api/v1/studio/jobs/${paused}`)).body.data.result.images[0]?.url;
    await page.sql('CREATE ROLE gateway_2', {
      'ROLE gateway;': 'ROLE postgres;',
      'new-password': password,
    });
    await restartWith({
      PAYLOAD_KEYS: `${first},${second}`,
      DATABASE_URL: makeUrl('gateway_2', password),
      ADMIN_API_KEY: newSecret(),
      STORAGE_SECRET: newSecret(),
    });
    await page.sql('ALTER ROLE gateway NOLOGIN', { 'ROLE gateway': 'ROLE postgres' });
    expect(await canConnect(renewed)).toBe(false);
    expect(await readStatus(adminKey)).toBe(401);
    expect(await readStatus(stack.env['ADMIN_API_KEY'] ?? '')).toBe(200);
    const statuses = [before, (await fetch(signed ?? '')).status, await fetchFile(paused)];
    expect(statuses).toEqual([200, 404, 200]);

    await restartWith({ PAYLOAD_KEYS: `${second},${first}` });
    const underSecond = await startUnnotified('a newt under the second key');
    expect(await notify(underFirst)).toBe(200);
    await gateway.untilState(underFirst, states.paid);
    await restartWith({ PAYLOAD_KEYS: second });
    expect(await notify(underSecond)).toBe(200);
    await gateway.untilState(underSecond, states.paid);
    expect(await page.admin('providers')).not.toContain('key leaked');
    expect(await page.admin('stuck')).toBe('(none)\n');
  });
});
