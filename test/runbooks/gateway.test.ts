/**
 * The runbooks about a gateway whose servers work: each test causes the problem, checks its symptom
 * and its alerts, and solves it with the page’s own commands.
 */
import { randomBytes } from 'node:crypto';
import { readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startWebhookReceiver } from '../harness/webhook-receiver.ts';
import { ends, startRehearsal, type Rehearsal } from './rehearsal.ts';

let gateway: Rehearsal;
beforeAll(async () => {
  gateway = await startRehearsal({
    // Films are what is late here.
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

const newSecret = (): string => randomBytes(32).toString('hex');
/** Starts the API and the worker again, with other settings. */
async function restartWith(env: Record<string, string>): Promise<void> {
  gateway.stack.configure(env);
  await Promise.all((['api', 'worker'] as const).map((part) => gateway.restart(part)));
}
const studioPath = '/api/v1/studio/image/generate';

describe('audit-row.md', () => {
  it('sets an account that was written by hand to the sum of its entries', async () => {
    const { stack, scrape, ask } = gateway;
    const since = await scrape();
    const caller = await stack.newCaller(100);
    const org = { 'org_…': caller.organizationId };
    const request = { key: caller.key, body: { prompt: 'a counted hen', async: true } };
    const running = await ask(studioPath, { ...request, body: { prompt: '[[slow:6s]] a hen' } });
    await stack.query('UPDATE account SET posted = posted + 1000000 WHERE organization_id = $1', [
      caller.organizationId,
    ]);
    await gateway.untilFiring(since, 'LedgerBroken');
    expect(stack.logOf('worker')).toContain('ledger.broken');

    await gateway.follow('audit-row', async (page) => {
      const found = await page.run('npm run studio -- admin audit', { status: 1 });
      expect(found.stdout).toContain('account differs from the sum of its entries');
      expect(found.stdout).toContain(caller.organizationId);
      await page.run('npm run studio -- admin org suspend', { put: org });
      await expect
        .poll(async () => (await ask(studioPath, request)).body.error)
        .toBe('ORGANIZATION_SUSPENDED');
      const entries = await page.run('npm run studio -- admin ledger', { put: org });
      expect(entries.stdout).toContain('reserve');
      // What runs is settled all the same.
      await gateway.untilEnded(running.body.data.jobId, ends.paid);
      const [, , [counted] = [], , broken] = await page.sql<{ max: string; count: string }>(
        'BEGIN;\nSELECT posted',
        org,
      );
      // Unequal would be a reason to restore.
      expect(counted?.max).toBe(counted?.count);
      // The job was settled while the row was wrong.
      expect(broken).toMatchObject([
        { finding: 'an entry does not continue the totals of the previous entry' },
      ]);
      await page.sql('BEGIN;\nALTER TABLE', org);
      expect(await stack.query('SELECT * FROM ledger_audit')).toEqual([]);
      for (const [move, done] of [
        ['grant', 'granted'],
        ['take-back', 'taken back'],
      ]) {
        const command = `npm run studio -- admin ${move}`;
        expect((await page.run(command, { put: org })).stdout).toMatch(`${done} `);
        expect((await page.run(command, { put: org })).stdout).toMatch(/already applied/);
      }
      await page.run('npm run studio -- admin org activate', { put: org });
      await expect.poll(async () => (await ask(studioPath, request)).status).toBe(202);
      await gateway.expectInOrder();
      expect((await page.run('npm run studio -- admin audit')).stdout).toBe('clean\n');
    });
    await gateway.untilQuiet(since, 'LedgerBroken');
  });

  it('LedgerNotAudited: the log says why the ledger could not be read', async () => {
    const { stack, scrape } = gateway;
    await stack.query('ALTER VIEW ledger_audit RENAME TO ledger_audit_away');
    await expect.poll(() => stack.logOf('worker')).toContain('ledger.not_audited');
    await gateway.untilFiring(await scrape(), 'LedgerNotAudited');
    await stack.query('ALTER VIEW ledger_audit_away RENAME TO ledger_audit');
    await gateway.untilQuiet(await scrape(), 'LedgerNotAudited');
  });
});

describe('provider-down.md', () => {
  const alerts = ['ProviderFails', 'JobsFail', 'OutcomeUnknown', 'FirstTokenSlow'];

  it('jobs wait while the provider is paused, and continue afterwards', async () => {
    const { stack, scrape, ask, start } = gateway;
    const since = await scrape();
    const film = await start('[[ignore-cancel]] [[slow:20s]] a film of an otter', 'video');
    await gateway.untilTaken(film);
    await gateway.breakProvider({ match: 'fal-ai', faults: 'submit:503' });
    const [chatted, failing] = await Promise.all([
      fetch(`${stack.url}/api/v1/chat`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${stack.caller.key}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({
          model: 'gpt-4o',
          messages: [{ role: 'user', content: '[[slow:11s]] tell me' }],
          stream: true,
          max_tokens: 20,
        }),
      }).then((answer) => answer.text()),
      (async () => {
        const jobId = await start('an otter that nobody takes');
        const refused = () =>
          stack.query('SELECT state FROM provider_call WHERE job_id = $1', [jobId]);
        await expect.poll(refused).toEqual([{ state: 'refused' }]);
        return jobId;
      })(),
    ]);
    expect(chatted).toContain('[DONE]');

    await gateway.follow('provider-down', async (page) => {
      await gateway.untilEnded(failing, ends.failed('PROVIDER_ERROR'));
      const told = await ask(`/api/v1/studio/jobs/${failing}`);
      expect(told.body.data.error).toMatchObject({
        code: 'PROVIDER_ERROR',
        message: 'the provider refused the call (503)',
      });
      await gateway.untilFiring(since, ...alerts);
      const retried = await start('an otter that is tried again and again');
      const providers = 'npm run studio -- admin providers';
      const stuck = 'npm run studio -- admin stuck';
      await expect
        .poll(async () => (await page.run(stuck)).stdout)
        .toMatch(/call 1 was refused by fal .* and will be tried again/);
      expect((await page.run(providers)).stdout).toMatch(/fal .* [1-9]/);

      await page.run('npm run studio -- admin pause fal');
      const waiting = await start('an otter that waits');
      await gateway.untilPhase(waiting, 'waiting_for_provider');
      // A synchronous one too, once it has waited for its answer long enough.
      const patient = await ask(studioPath, { body: { prompt: 'a patient otter' } });
      expect(patient.status).toBe(202);
      expect((await page.run(stuck)).stdout).toMatch(/fal was paused .* by .*: fal answers 503/);
      const elsewhere = { prompt: 'an otter elsewhere', model: 'alpha-image-2' };
      expect((await ask(studioPath, { body: elsewhere })).status).toBe(200);

      await gateway.mendProvider();
      await page.run('npm run studio -- admin resume fal');
      await gateway.untilEnded(waiting, ends.paid);
      await gateway.untilEnded(patient.body.data.jobId, ends.paid);
      // It was waiting to be tried again, or had given up by then.
      await expect
        .poll(async () => (await gateway.stateOf(retried))?.status)
        .toMatch(/completed|failed/);
      expect((await page.run(providers)).stdout).not.toContain('fal answers 503');

      await gateway.untilEnded(film, ends.failed('OUTCOME_UNKNOWN'));
      expect((await page.run('npm run studio -- admin unknown')).stdout).toMatch(
        new RegExp(`${film} .*fal: `),
      );
    });
    const healed = await scrape();
    await gateway.untilEnded(await start('an otter as always'), ends.paid);
    await gateway.untilQuiet(healed, ...alerts);
  });
});

describe('storage.md', () => {
  const providers = ['fal', 'elevenlabs', 'openai'];

  it('jobs wait until the storage accepts objects again', async () => {
    const { stack, scrape, start } = gateway;
    const since = await scrape();
    const objects = join(stack.directory, 'storage', 'objects');
    await gateway.untilEnded(await start('a heron before'), ends.paid);
    await rename(objects, `${objects}.aside`);
    // A file where the directory should be: no object can be made, whoever runs this.
    await writeFile(objects, '');
    await gateway.follow('storage', async (page) => {
      const failing = await start('a heron without a wall');
      await expect
        .poll(async () => (await page.run('npm run studio -- admin stuck')).stdout)
        .toMatch(new RegExp(`${failing} .*call 1 is waiting for fal`));
      await gateway.untilFiring(since, 'StorageFails');
      expect((await fetch(`${stack.url}/readyz`)).status).toBe(200);
      expect((await page.run('temporal workflow list')).stdout).not.toContain(failing);

      for (const name of providers) await page.run(`npm run studio -- admin pause ${name}`);
      const waiting = await start('a heron that waits for all walls');
      await gateway.untilPhase(waiting, 'waiting_for_provider');
      await rm(objects);
      await rename(`${objects}.aside`, objects);
      for (const name of providers) await page.run(`npm run studio -- admin resume ${name}`);
      for (const job of [failing, waiting]) await gateway.untilEnded(job, ends.paid);
      expect((await page.run('npm run studio -- admin providers')).stdout).not.toContain(
        'storage full',
      );
      const audit = 'npm run audit -- --results';
      await page.run(audit);
      const [kept = ''] = await readdir(objects, { recursive: true }).then((all) =>
        all.filter((name) => name.includes(waiting) && /\.\w+$/.test(name)),
      );
      await rename(join(objects, kept), `${objects}.aside`);
      expect((await page.run(audit, { status: 1 })).stdout).toContain(waiting);
      await rename(`${objects}.aside`, join(objects, kept));
    });
  });
});

describe('stuck-reservation.md', () => {
  it('each stuck reservation ends by the step for its finding', async () => {
    const { scrape, start } = gateway;
    const since = await scrape();
    const [silent, orphaned, unwanted, overdue] = [
      await start('[[no-webhook]] [[slow:300ms]] an owl whose notification is lost'),
      await start('[[no-webhook]] [[slow:300ms]] an owl whose workflow is gone'),
      await start('[[no-webhook]] [[slow:60s]] an owl that nobody wants'),
      await start('[[no-webhook]] [[ignore-cancel]] [[slow:900s]] an owl for ever', 'video'),
    ];
    await Promise.all([silent, orphaned, unwanted, overdue].map(gateway.untilTaken));
    await gateway.terminate(orphaned);
    await gateway.untilFiring(since, 'JobsOverdue', 'ReservationStuck');
    // Hours later.
    await gateway.ageReservations('3 hours');
    await gateway.follow('stuck-reservation', async (page) => {
      const stuck = 'npm run studio -- admin stuck';
      const { stdout } = await page.run(stuck);
      expect(stdout).toMatch(new RegExp(`${silent} .*call 1 is waiting for fal .*, submitted`));
      expect(stdout).toMatch(
        new RegExp(`${orphaned} .*workflow ended \\(TERMINATED\\) without settling`),
      );
      const pollers = await page.run('temporal task-queue describe');
      expect(pollers.stdout).toMatch(/Pollers:[^]*workflow/);

      const asked = await page.run('npm run studio -- admin reverify', {
        put: { 'job_…': silent },
      });
      expect(asked.stdout).toContain('succeeded');
      await gateway.untilEnded(silent, ends.paid);
      await page.run('npm run studio -- admin cancel', { put: { 'job_…': unwanted } });
      await gateway.untilEnded(unwanted, {
        status: 'canceled',
        code: 'CANCELED',
        entries: ['reserve', 'release'],
      });
      const settled = await page.run('npm run studio -- admin resettle', {
        put: { 'job_…': orphaned },
      });
      expect(settled.stdout).toContain('taken_up');
      await gateway.untilReverified(page, orphaned);
      expect(await gateway.acceptedOf(orphaned)).toBe(1);
      await gateway.untilEnded(overdue, ends.failed('OUTCOME_UNKNOWN'));
      expect((await page.run(stuck)).stdout).not.toContain('job_');
    });
    await gateway.untilQuiet(await scrape(), 'JobsOverdue', 'ReservationStuck');
  });

  it('the sweeper settles a chat whose API stopped, when it can run again', async () => {
    const { stack, scrape } = gateway;
    await stack.query('ALTER FUNCTION chat_sweep(integer) RENAME TO chat_sweep_away');
    await expect.poll(() => stack.logOf('worker')).toContain('sweeper.step_failed');
    const caller = await stack.newCaller(100);
    const chat = fetch(`${stack.url}/api/v1/chat`, {
      method: 'POST',
      headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'gpt-4o',
        messages: [{ role: 'user', content: '[[words:500]] [[slow-chunks:100ms]] tell me' }],
        stream: true,
        max_tokens: 1000,
      }),
    }).then((answer) => answer.text());
    const cut = expect(chat).rejects.toThrow();
    const open = () =>
      stack.query(
        `SELECT id FROM reservation
          WHERE organization_id = $1 AND state = 'reserved' AND checkpoint_micro > 0`,
        [caller.organizationId],
      );
    await expect.poll(open).toHaveLength(1);
    await stack.kill('api');
    await cut;
    await stack.start('api');
    await gateway.untilFiring(await scrape(), 'ChatReservationStuck', 'SweeperStopped');
    await gateway.ageReservations('1 hour');
    const page = await gateway.openPage('stuck-reservation');
    const stuck = 'npm run studio -- admin stuck';
    expect((await page.run(stuck)).stdout).toContain('a chat: it is settled when it ends');

    await stack.query('ALTER FUNCTION chat_sweep_away(integer) RENAME TO chat_sweep');
    await expect.poll(open).toEqual([]);
    const ended = await stack.query(
      'SELECT state, charged > 0 AS paid FROM reservation WHERE organization_id = $1',
      [caller.organizationId],
    );
    expect(ended).toEqual([{ state: 'charged', paid: true }]);
    expect((await page.run(stuck)).stdout).not.toContain('a chat');
    await gateway.expectInOrder();
    await gateway.untilQuiet(await scrape(), 'ChatReservationStuck', 'SweeperStopped');
  });
});

describe('pepper-rotation.md', () => {
  it('keys move to the new pepper when they are used, also while APIs have different settings', async () => {
    const { stack, ask } = gateway;
    const [used, behind, idle] = [
      await stack.newCaller(1),
      await stack.newCaller(1),
      await stack.newCaller(1),
    ];
    await stack.start('api2');
    const apis = ['api', 'api2'] as const;
    const statusesOf = async ({ key }: { key: string }, path = '/api/v1/usage') => {
      const statuses: number[] = [];
      for (const part of apis) {
        statuses.push((await ask(path, { key, base: stack.urlOf(part) })).status);
      }
      return statuses;
    };
    const made = await ask('/api/admin/v1/operators', {
      key: stack.env['ADMIN_API_KEY'] ?? '',
      body: { name: 'olga', actor: 'olga', reason: 'rehearsal' },
    });
    const operator = made.body.data;
    const operatorPath = '/api/admin/v1/providers';
    const older = stack.env['KEY_PEPPER'] ?? '';
    const newer = newSecret();
    /**
     * A step: each API takes every key, whichever of them is ahead; the last to use this one is
     * behind.
     */
    async function step(pepper: string, previous: string): Promise<void> {
      stack.configure({ KEY_PEPPER: pepper, KEY_PEPPER_PREVIOUS: previous });
      await gateway.restart('api');
      expect(await statusesOf(behind)).toEqual([200, 200]);
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
      expect(await statusesOf(used)).toEqual([200, 200]);
      expect(await statusesOf(operator, operatorPath)).toEqual([200, 200]);
      expect(await count()).toEqual([
        [{ moved: '2', not_yet: String(Number(before?.not_yet) - 2) }],
      ]);

      stack.configure({ KEY_PEPPER_PREVIOUS: '' });
      for (const part of apis) await gateway.restart(part);
      expect(await statusesOf(used)).toEqual([200, 200]);
      expect(await statusesOf(operator, operatorPath)).toEqual([200, 200]);
      for (const one of [behind, idle]) expect(await statusesOf(one)).toEqual([401, 401]);
      stack.configure({ KEY_PEPPER_PREVIOUS: older });
      for (const part of apis) await gateway.restart(part);
      for (const one of [behind, idle]) expect(await statusesOf(one)).toEqual([200, 200]);
      await stack.end('api2');
    });
  });
});

describe('webhook-secrets.md', () => {
  it('a job with rejected provider notifications ends by polling, and receivers get the new secret', async () => {
    const { stack, scrape, ask, start } = gateway;
    const receiver = await startWebhookReceiver();
    const origins = stack.env['ALLOW_PRIVATE_NETWORK_ORIGINS'] ?? '';
    const onSchedule = await start('[[no-webhook]] [[slow:300ms]] a stork on schedule');
    await gateway.untilTaken(onSchedule);
    await restartWith({
      WEBHOOK_SECRET: newSecret(),
      WEBHOOK_SECRET_PREVIOUS: stack.env['WEBHOOK_SECRET'] ?? '',
    });
    expect(await gateway.notify(onSchedule)).toBe(200);
    await gateway.untilEnded(onSchedule, ends.paid);
    const before = await start('[[no-webhook]] [[slow:300ms]] a stork under way');
    await gateway.untilTaken(before);
    await restartWith({
      WEBHOOK_SECRET: newSecret(),
      WEBHOOK_SECRET_PREVIOUS: '',
      ALLOW_PRIVATE_NETWORK_ORIGINS: `${origins},${receiver.origin}`,
    });
    const since = await scrape();
    await gateway.follow('webhook-secrets', async (page) => {
      expect(await gateway.notify(before)).toBe(404);
      await page.run('npm run studio -- admin reverify', { put: { 'job_…': before } });
      await gateway.untilEnded(before, ends.paid);
      await gateway.untilFiring(since, 'NotificationsLost');

      const forged = await start('[[no-webhook]] [[slow:60s]] a stork that somebody forges');
      await gateway.untilTaken(forged);
      for (let sent = 0; sent < 12; sent += 1) {
        expect(await gateway.notify(forged, 'bad')).toBe(401);
      }
      await gateway.untilFiring(since, 'NotificationsRefused');
      expect(stack.logOf('api')).toMatch(/notification\.refused/);
      await ask(`/api/v1/studio/jobs/${forged}/cancel`, { body: {} });

      const readSecret = async (path = '') =>
        (await ask(`/api/v1/webhooks/secret${path}`, path === '' ? {} : { body: {} })).body.secret;
      // The receiver of a caller: it takes what its secret signs.
      let secret = await readSecret();
      const verdict = (): number => {
        const hook = receiver.received('/jobs').at(-1);
        try {
          new Webhook(secret).verify(hook?.text ?? '', hook?.headers ?? {});
          return 204;
        } catch {
          return 401;
        }
      };
      const webhookUrl = receiver.at('/jobs', (response) => response.writeHead(verdict()).end());
      const sendTo = async (prompt: string): Promise<string> => {
        const { body } = await ask(studioPath, { body: { prompt, webhookUrl, async: true } });
        return body.data.jobId;
      };
      const deliveryOf = (jobId: string) =>
        stack.query('SELECT state FROM webhook WHERE subject_id = $1', [jobId]);
      secret = await readSecret('/rotate');
      const told = await sendTo('a stork that is told of');
      await expect.poll(() => deliveryOf(told)).toEqual([{ state: 'delivered' }]);

      await restartWith({ WEBHOOK_SIGNING_SECRET: newSecret() });
      const untold = await sendTo('a stork that nobody is told of');
      await expect.poll(() => deliveryOf(untold)).toEqual([{ state: 'failed' }]);
      const failing = await page.run('npm run studio -- admin webhooks');
      expect(failing.stdout).toMatch(new RegExp(`${untold} .*failed .*401`));
      secret = await readSecret();
      await page.run('npm run studio -- admin redeliver-webhook', { put: { 'job_…': untold } });
      await expect.poll(() => deliveryOf(untold)).toEqual([{ state: 'delivered' }]);
    });
    const healed = await scrape();
    await gateway.untilEnded(await start('a stork as always'), ends.paid);
    await gateway.untilQuiet(healed, 'NotificationsLost', 'NotificationsRefused');
    receiver.close();
  });
});

describe('secrets.md', () => {
  it('jobs survive new payload keys, passwords and provider keys, and old values are refused', async () => {
    const { stack, ask, start, notify } = gateway;
    const payloadKey = (id: string) => `${id}:${randomBytes(32).toString('base64')}`;
    const [first, second] = [payloadKey('first'), payloadKey('second')];
    const login = (user: string, password: string): string =>
      Object.assign(new URL(stack.databaseUrl), { username: user, password }).href;
    const connects = async (connectionString: string): Promise<boolean> => {
      const client = new Client({ connectionString });
      const connected = await client.connect().then(
        () => true,
        () => false,
      );
      await client.end();
      return connected;
    };
    const waiting = async (prompt: string): Promise<string> => {
      const jobId = await start(`[[no-webhook]] [[slow:300ms]] ${prompt}`);
      await gateway.untilTaken(jobId);
      return jobId;
    };
    const fileOf = async (jobId: string): Promise<number> => {
      const { body } = await ask(`/api/v1/studio/jobs/${jobId}`);
      return (await fetch(body.data.result.images[0]?.url ?? '')).status;
    };
    const operators = (key: string) => ask('/api/admin/v1/providers', { key });

    await gateway.follow('secrets', async (page) => {
      // The provider's key leaked; Postgres' password and payload encryption change too.
      await page.run('npm run studio -- admin pause fal');
      await stack.end('sandbox');
      const falKey = newSecret();
      stack.configure({ SANDBOX_FAL_KEY: falKey });
      await stack.start('sandbox');
      const paused = await start('a newt that waits for a key');
      await gateway.untilPhase(paused, 'waiting_for_provider');
      const [initial, password] = [stack.databaseUrl, newSecret()];
      await page.sql('ALTER ROLE gateway PASSWORD', {
        'ROLE gateway': 'ROLE postgres',
        'new-password': password,
      });
      const renewed = login('postgres', password);
      await restartWith({ FAL_KEY: falKey, DATABASE_URL: renewed, PAYLOAD_KEYS: first });
      await page.run('npm run studio -- admin resume fal');
      await gateway.untilEnded(paused, ends.paid);
      expect([await connects(initial), await connects(renewed)]).toEqual([false, true]);

      const underFirst = await waiting('a newt under the first key');
      const [adminKey, before] = [stack.env['ADMIN_API_KEY'] ?? '', await fileOf(paused)];
      const signed = (await ask(`/api/v1/studio/jobs/${paused}`)).body.data.result.images[0]?.url;
      await page.sql('CREATE ROLE gateway_2', {
        'ROLE gateway;': 'ROLE postgres;',
        'new-password': password,
      });
      await restartWith({
        PAYLOAD_KEYS: `${first},${second}`,
        DATABASE_URL: login('gateway_2', password),
        ADMIN_API_KEY: newSecret(),
        STORAGE_SECRET: newSecret(),
      });
      await page.sql('ALTER ROLE gateway NOLOGIN', { 'ROLE gateway': 'ROLE postgres' });
      expect(await connects(renewed)).toBe(false);
      expect((await operators(adminKey)).status).toBe(401);
      expect((await operators(stack.env['ADMIN_API_KEY'] ?? '')).status).toBe(200);
      expect([before, (await fetch(signed ?? '')).status, await fileOf(paused)]).toEqual([
        200, 404, 200,
      ]);

      await restartWith({ PAYLOAD_KEYS: `${second},${first}` });
      const underSecond = await waiting('a newt under the second key');
      expect(await notify(underFirst)).toBe(200);
      await gateway.untilEnded(underFirst, ends.paid);
      await restartWith({ PAYLOAD_KEYS: second });
      expect(await notify(underSecond)).toBe(200);
      await gateway.untilEnded(underSecond, ends.paid);
      expect((await page.run('npm run studio -- admin providers')).stdout).not.toContain(
        'key leaked',
      );
      expect((await page.run('npm run studio -- admin stuck')).stdout).toBe('(none)\n');
    });
  });
});
