/**
 * Caller webhooks: sent at the end of every job, signed, retried and logged, without delaying the
 * job.
 */
import { Webhook as Signature } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import type { webhookSchema } from '../../api/endpoints/caller-webhooks.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { studio } from '../clients/cli/studio.ts';
import { download } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { untilHolds } from '../harness/until.ts';
import { makeForm } from '../harness/uploads.ts';
import type { ReceivedWebhook } from '../harness/webhook-receiver.ts';

const gateway = useGateway({ settled: 'last' });

type Webhook = z.infer<typeof webhookSchema>;
interface SecretBody {
  secret: string;
  generation: number;
  replaced: { generation: number; retiresAt: string }[];
}

const imagePath = '/api/v1/studio/image/generate';
const at = (...args: Parameters<typeof gateway.receiver.at>) => gateway.receiver.at(...args);
const start = (webhookUrl: string, prompt = 'a tree', { key } = gateway.caller) =>
  gateway.startImage({ prompt, webhookUrl }, key);
const webhookPath = (jobId: string) => `/api/v1/studio/jobs/${jobId}/webhook`;
const readWebhook = async (jobId: string, { key } = gateway.caller) =>
  (await gateway.call<{ data: Webhook }>(webhookPath(jobId), { key })).body.data;
const redeliver = (jobId: string, { key }: { key: string } = gateway.caller) =>
  gateway.call(`/api/v1/studio/jobs/${jobId}/webhook/redeliver`, { method: 'POST', key });
const terminate = (workflowId: string) =>
  gateway.api.client.workflow.getHandle(workflowId).terminate('test');
const forbidden = { status: 403, body: { error: 'FORBIDDEN' } };
const untilState = async (jobId: string, state: string, caller = gateway.caller) => {
  await untilHolds(async () => expect((await readWebhook(jobId, caller)).state).toBe(state));
  return readWebhook(jobId, caller);
};
const untilFailedOnce = (jobId: string) =>
  untilHolds(async () => expect((await readWebhook(jobId)).deliveries[0]?.outcome).toBe('failed'));
const readSecret = async ({ key }: TestCaller) =>
  (await gateway.call<SecretBody>('/api/v1/webhooks/secret', { key })).body;
const verify = (secret: string, { text, headers }: ReceivedWebhook) =>
  new Signature(secret).verify(text, headers);
const untilOnly = async (path: string): Promise<ReceivedWebhook> => {
  const [hook, ...others] = await gateway.receiver.untilReceived(path);
  if (!hook || others.length > 0) throw new Error(`${others.length + 1} webhooks, not one`);
  return hook;
};

/** Returns a receiver that fails, with a wait of ten minutes, until it is opened. */
function closedReceiver(path: string) {
  const state = { open: false };
  const url = at(path, (response) => {
    response.writeHead(state.open ? 200 : 503, { 'retry-after': '600' }).end();
  });
  return { url, open: () => (state.open = true) };
}

// The tests run concurrently, because they mostly wait.
describe.concurrent('a caller webhook', () => {
  it('contains the job as GET returns it, signed, with readable URLs', async () => {
    const jobId = await start(at('/completed'));
    const hook = await untilOnly('/completed');
    const { secret } = await readSecret(gateway.caller);
    expect(verify(secret, hook)).toEqual(hook.body);
    for (const changed of [
      { ...hook, text: hook.text.replace('completed', 'failed') },
      { ...hook, headers: { ...hook.headers, 'webhook-id': 'msg_other' } },
    ]) {
      expect(() => verify(secret, changed)).toThrow('No matching signature found');
    }
    expect(hook.headers['content-type']).toBe('application/json');
    const job = await gateway.call(`/api/v1/studio/jobs/${jobId}`);
    // The webhook has newly signed URLs with another expiry.
    const signed = { url: expect.any(String), expiresAt: expect.any(String) };
    const images = [{ ...job.body.data.result.images[0], ...signed }];
    expect(hook.body).toEqual({
      type: 'studio.job.completed',
      timestamp: expect.any(String),
      data: { ...job.body.data, result: { ...job.body.data.result, images } },
    });
    expect(await download(hook.body.data.result?.images[0]?.url ?? '')).not.toHaveLength(0);
    expect(await untilState(jobId, 'delivered')).toMatchObject({
      jobId,
      url: at('/completed'),
      attempts: 1,
      nextAttemptAt: null,
      deliveries: [{ number: 1, outcome: 'delivered', status: 204, error: null, response: '' }],
    });
  });

  it("is sent as a test on request, once, and the response shows the request and the receiver's response", async () => {
    const test = (url: string, key = gateway.caller.key) =>
      gateway.call('/api/v1/webhooks/test', { body: { url }, key });
    const url = at('/test', (response) => response.writeHead(200).end('thank you'));
    const accepted = await test(url);
    const hook = await untilOnly('/test');
    const { secret } = await readSecret(gateway.caller);
    expect(verify(secret, hook)).toMatchObject({ type: 'webhook.test' });
    expect(accepted.body.data).toEqual({
      outcome: 'delivered',
      status: 200,
      error: null,
      response: 'thank you',
      durationMs: expect.any(Number),
      headers: expect.objectContaining({ 'webhook-id': hook.headers['webhook-id'] }),
      body: hook.text,
    });
    const failed = await test(at('/broken', (response) => response.writeHead(500).end()));
    expect(failed.body.data).toMatchObject({ outcome: 'failed', status: 500 });
    expect(gateway.receiver.received('/broken')).toHaveLength(1);
    for (const wrong of ['http://10.0.0.1/', 'ftp://shop.example/', 'no URL'])
      expect((await test(wrong)).body.error, wrong).toBe('INVALID_REQUEST');
    const { key } = await gateway.newCaller({ credits: 1, scopes: ['studio:read'] });
    expect(await test(url, key)).toMatchObject(forbidden);
  });

  it('is sent for a synchronous request too, without delaying its response, and is part of the request that an Idempotency-Key identifies', async () => {
    const held: (() => void)[] = [];
    const slow = at('/slow', (response) => held.push(() => response.writeHead(200).end()));
    const send = (webhookUrl: string, more: object = {}) =>
      gateway.call(imagePath, {
        body: { prompt: 'a tree', webhookUrl, ...more },
        headers: { 'idempotency-key': 'with-webhook' },
      });
    expect((await send(slow)).status).toBe(200);
    expect((await send(at('/other'))).status).toBe(422);
    expect((await send(slow, { webhookEvents: ['started'] })).status).toBe(422);
    await gateway.receiver.untilReceived('/slow');
    for (const release of held) release();
  });

  it('is accepted as a field of a form', async () => {
    const file = new File([await recordTone(1)], 'a.mp3');
    const body = makeForm({ file, webhookUrl: at('/form') });
    await gateway.send('/api/v1/studio/audio/transcribe', { body });
    expect((await untilOnly('/form')).body).toMatchObject({
      type: 'studio.job.completed',
      data: { done: true },
    });
  });
});

describe.concurrent('a receiver that', () => {
  it('fails is called again with the same id and a new signature until it accepts the webhook', async () => {
    const webhookUrl = at('/flaky', (response, count) => {
      response.writeHead(count < 3 ? 500 : 200, { 'retry-after': '0' }).end(`\0answer ${count}\0`);
    });
    const jobId = await start(webhookUrl);
    const hooks = await gateway.receiver.untilReceived('/flaky', 3);
    expect(new Set(hooks.map((hook) => hook.headers['webhook-id'])).size).toBe(1);
    const { secret } = await readSecret(gateway.caller);
    for (const hook of hooks) verify(secret, hook);
    const { deliveries } = await untilState(jobId, 'delivered');
    // A Retry-After of 0 does not shorten the two configured waits of 200 ms.
    const times = deliveries.map(({ startedAt }) => Date.parse(startedAt));
    expect(Math.max(...times) - Math.min(...times)).toBeGreaterThanOrEqual(300);
    expect(deliveries).toMatchObject([
      { number: 3, outcome: 'delivered', status: 200, response: 'answer 3' },
      { number: 2, outcome: 'failed', status: 500, response: 'answer 2' },
      { number: 1, outcome: 'failed', status: 500, response: 'answer 1' },
    ]);
  });

  it('redirects is not followed, and the attempts and the test name the target', async () => {
    const location = `${at('/elsewhere')}?token=hidden`;
    const webhookUrl = at('/redirects', (response) => response.writeHead(307, { location }).end());
    const webhook = await untilState(await start(webhookUrl), 'failed');
    expect(webhook.deliveries.map(({ status }) => status)).toEqual([307, 307, 307, 307]);
    const error = `The receiver redirects to ${at('/elsewhere')}. Redirects are not followed: use this address.`;
    expect(webhook.deliveries[0]).toMatchObject({ error });
    const body = { url: webhookUrl };
    const tested = await gateway.call('/api/v1/webhooks/test', { body });
    expect(tested.body.data).toMatchObject({ outcome: 'failed', status: 307, error });
    expect(gateway.receiver.received('/elsewhere')).toEqual([]);
  });

  it('returns 410 is never called again', async () => {
    const jobId = await start(at('/gone', (response) => response.writeHead(410).end()));
    expect(await untilState(jobId, 'gone')).toMatchObject({
      deliveries: [{ outcome: 'gone', status: 410 }],
    });
  });

  it('never responds times out, while the job has already completed', async () => {
    const jobId = await start(at('/silent', () => {}));
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('completed');
    await gateway.receiver.untilReceived('/silent', 2);
    expect((await readWebhook(jobId)).deliveries.at(-1)).toMatchObject({
      outcome: 'failed',
      status: null,
      error: 'unreachable: no response within 2000 ms',
    });
  });

  it('breaks the connection receives the webhook later, and an endless response is cut off', async () => {
    const webhookUrl = at('/up-again', (response, count) => {
      if (count === 1) {
        response.destroy();
        return;
      }
      response.writeHead(200);
      const more = setInterval(() => response.write('x'.repeat(4096)), 5);
      response.once('close', () => clearInterval(more));
    });
    const webhook = await untilState(await start(webhookUrl), 'delivered');
    expect(webhook.deliveries.at(-1)?.error).toBe('unreachable: the URL could not be reached');
    expect(webhook.deliveries[0]?.response).toBe('x'.repeat(1024));
  });
});

describe.concurrent('a webhookUrl that', () => {
  it.each([
    ['is no text', 17],
    ['is no URL', 'receiver'],
    ['is too long', `https://example.com/${'x'.repeat(2048)}`],
  ])('%s is rejected before any credits are reserved', async (_why, webhookUrl) => {
    const answer = await gateway.call(imagePath, { body: { prompt: 'a tree', webhookUrl } });
    const body = { error: 'INVALID_REQUEST', details: [{ path: 'webhookUrl' }] };
    expect(answer).toMatchObject({ status: 400, body });
  });

  it('resolves to a private address at delivery is not called', async () => {
    const jobId = await start(at('/rebound'), '[[slow:5s]] a tree');
    // Like a host name that now resolves to another address.
    await gateway.database.query(
      `UPDATE webhook SET url = 'https://127.0.0.1/hook' WHERE subject_id = '${jobId}'`,
    );
    const webhook = await untilState(jobId, 'failed');
    expect(new Set(webhook.deliveries.map(({ error }) => error))).toEqual(
      new Set(['blocked: the host does not have a public address']),
    );
  });

  it('belongs to a rejected job leaves no row', async () => {
    const poor = await gateway.newCaller({ credits: 0 });
    const body = { prompt: 'a tree', webhookUrl: at('/poor') };
    expect((await gateway.call(imagePath, { body, key: poor.key })).status).toBe(402);
    const rows = await gateway.database.query('SELECT 1 FROM webhook WHERE organization_id = $1', [
      poor.organizationId,
    ]);
    expect(rows).toEqual([]);
  });
});

describe.concurrent('webhook redelivery', () => {
  it('sends the same message again, and requires the scope that started the job', async () => {
    const jobId = await start(at('/again'));
    await untilState(jobId, 'delivered');
    const reader = await gateway.newKey({ scopes: ['studio:read'] });
    expect(await redeliver(jobId, reader)).toMatchObject(forbidden);
    expect((await readWebhook(jobId)).attempts).toBe(1);

    const delivering = { status: 202, body: { data: { state: 'delivering' } } };
    expect(await redeliver(jobId)).toMatchObject(delivering);
    const [first, second] = await gateway.receiver.untilReceived('/again', 2);
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
    expect(second?.body.type).toBe(first?.body.type);
    expect((await untilState(jobId, 'delivered')).attempts).toBe(2);
  });

  it('sends a webhook at once that waits for its next attempt', async () => {
    const receiver = closedReceiver('/hurried');
    const jobId = await start(receiver.url);
    await untilFailedOnce(jobId);
    const waitMs = Date.parse((await readWebhook(jobId)).nextAttemptAt ?? '') - Date.now();
    expect(waitMs).toBeGreaterThan(500_000);
    receiver.open();
    expect((await redeliver(jobId)).status).toBe(202);
    await untilState(jobId, 'delivered');
  });

  it('is rejected for a running job, a job without a webhook, and a job of another organization', async () => {
    const jobId = await start(at('/running'), '[[slow:60s]] a tree');
    expect((await redeliver(jobId)).body.error).toBe('JOB_NOT_DONE');
    await gateway.cancel(jobId);
    const data = { jobId, status: 'canceled', error: { code: 'CANCELED' } };
    expect((await untilOnly('/running')).body).toMatchObject({ type: 'studio.job.canceled', data });
    const stranger = await gateway.newCaller();
    const otherJobId = await gateway.startImage({ prompt: 'a tree' }, stranger.key);
    await gateway.untilDone(otherJobId, stranger.key);
    for (const [id = '', error] of [
      [jobId, 'JOB_NOT_FOUND'],
      [otherJobId, 'NOT_FOUND'],
    ]) {
      const notFound = { status: 404, body: { error } };
      expect(await gateway.call(webhookPath(id), { key: stranger.key })).toMatchObject(notFound);
      expect(await redeliver(id, stranger)).toMatchObject(notFound);
    }
  });
});

describe('the webhook secret', () => {
  it('is different for each organization, and readable only with a key that may create keys', async () => {
    const other = await gateway.newCaller();
    const { secret } = await readSecret(gateway.caller);
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect((await readSecret(other)).secret).not.toBe(secret);
    const { key } = await gateway.newKey({ scopes: ['studio:read', 'keys:read'] });
    expect(await gateway.call('/api/v1/webhooks/secret', { key })).toMatchObject(forbidden);
  });

  it('is rotated: both secrets sign during the overlap, and only the new one afterwards or without an overlap', async () => {
    const caller = await gateway.newCaller();
    const before = await readSecret(caller);
    const rotate = (body?: object) =>
      gateway.call<SecretBody>('/api/v1/webhooks/secret/rotate', {
        key: caller.key,
        method: 'POST',
        ...(body && { body }),
        headers: { 'idempotency-key': `rotate-${JSON.stringify(body ?? null)}` },
      });
    const after = await rotate();
    expect(after.status).toBe(200);
    expect(after.headers.get('cache-control')).toContain('no-store');
    expect(after.body).toMatchObject({ generation: 2, replaced: [{ generation: 1 }] });
    const endsInMs = Date.parse(after.body.replaced[0]?.retiresAt ?? '') - Date.now();
    expect(Math.abs(endsInMs - 86_400_000)).toBeLessThan(60_000);
    const again = await rotate();
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(again.body).toEqual(after.body);

    await start(at('/overlap'), 'a tree', caller);
    const overlapHook = await untilOnly('/overlap');
    for (const { secret } of [before, after.body]) verify(secret, overlapHook);
    const stranger = await readSecret(gateway.caller);
    expect(() => verify(stranger.secret, overlapHook)).toThrow('No matching signature found');

    // A longer overlap does not prolong that of earlier secrets.
    const sooner = (await rotate({ overlapSeconds: 600 })).body;
    const later = (await rotate({ overlapSeconds: 6000 })).body;
    expect(later.replaced).toEqual(expect.arrayContaining(sooner.replaced));

    const last = (await rotate({ overlapSeconds: 0 })).body;
    expect(last).toMatchObject({ generation: 5, replaced: [] });
    await start(at('/at-once'), 'a tree', caller);
    const lastHook = await untilOnly('/at-once');
    verify(last.secret, lastHook);
    for (const { secret } of [before, after.body]) {
      expect(() => verify(secret, lastHook)).toThrow('No matching signature found');
    }
  });
});

describe.concurrent('operators', () => {
  it('list a webhook that failed, also after its caller redelivered it with as many attempts again, and deliver it', async () => {
    let status = 500;
    const caller = await gateway.newCaller();
    const webhookUrl = at('/operators', (response) => response.writeHead(status).end());
    const jobId = await start(webhookUrl, 'a tree', caller);
    expect((await untilState(jobId, 'failed', caller)).attempts).toBe(4);
    expect((await redeliver(jobId, caller)).status).toBe(202);
    await untilHolds(async () =>
      expect(await readWebhook(jobId, caller)).toMatchObject({ state: 'failed', attempts: 8 }),
    );
    const readOfCaller = async (path: string) =>
      (await gateway.admin(`${path}?organizationId=${caller.organizationId}`)).body.data;
    const list = () => readOfCaller('/webhooks');
    expect(await list()).toMatchObject([
      { jobId, state: 'failed', attempts: 8, lastStatus: 500, lastError: null },
    ]);
    status = 200;
    expect((await gateway.admin(`/jobs/${jobId}/webhook/redeliver`, {})).status).toBe(202);
    await untilState(jobId, 'delivered', caller);
    expect(await list()).toEqual([]);
    expect(await readOfCaller('/actions')).toMatchObject([
      { action: 'webhook.redelivery_requested', subject: jobId },
    ]);
  });

  it('stop a delivery by canceling its workflow', async () => {
    const jobId = await start(closedReceiver('/stopped').url);
    await gateway.receiver.untilReceived('/stopped');
    await gateway.api.client.workflow.getHandle(`${jobId}-webhook`).cancel();
    await untilState(jobId, 'failed');
  });
});

describe('the command line', () => {
  it('shows a webhook with its attempts, lists failing webhooks, and redelivers', async () => {
    let open = false;
    const webhookUrl = at('/terminal', (response) => {
      response.writeHead(open ? 200 : 500).end('not\u001b[2J now');
    });
    const jobId = await start(webhookUrl);
    await untilState(jobId, 'failed');
    const env = {
      STUDIO_API_URL: gateway.url,
      STUDIO_API_KEY: gateway.caller.key,
      STUDIO_ADMIN_KEY: gateway.config.ADMIN_API_KEY,
    };
    const [shown, listed] = await Promise.all([
      studio(['jobs', 'deliveries', jobId], env),
      studio(['admin', 'webhooks', '--status', 'failed'], env),
    ]);
    expect(shown.stdout).toMatch(/state +failed\nattempts +4\n/);
    // A response of the receiver cannot send control characters to the terminal.
    expect(shown.stdout).toMatch(/failed +500 +\d+ +not \[2J now\n/);
    expect(listed.stdout).toContain(jobId);
    open = true;
    expect((await studio(['jobs', 'redeliver', jobId], env)).stderr).toBe('');
    await untilState(jobId, 'delivered');
  });
});

describe('a webhook without a delivery workflow', () => {
  it('is delivered by the sweeper, for a job that the sweeper settled and for a lost workflow', async () => {
    const lostJobId = await start(at('/lost'), '[[slow:60s]] a tree');
    await gateway.untilAccepted(lostJobId);
    await terminate(lostJobId);
    const receiver = closedReceiver('/wiped');
    const wipedJobId = await start(receiver.url);
    await untilFailedOnce(wipedJobId);
    await terminate(`${wipedJobId}-webhook`);
    receiver.open();
    await gateway.database.query(
      `UPDATE webhook SET overdue_at = now() WHERE subject_id = '${wipedJobId}'`,
    );
    await gateway.database.query(
      `UPDATE reservation SET expires_at = now() WHERE id = '${lostJobId}' AND state = 'reserved'`,
    );
    await sweepOnce(gateway);
    await untilState(wipedJobId, 'delivered');
    // The workflow of a job has five seconds for the start of its delivery.
    await gateway.database.query(
      `UPDATE job SET completed_at = completed_at - interval '6 seconds' WHERE id = '${lostJobId}'`,
    );
    await sweepOnce(gateway);
    expect((await untilOnly('/lost')).body).toMatchObject({
      type: 'studio.job.failed',
      data: { jobId: lostJobId, error: { code: 'JOB_LOST' }, billing: { state: 'released' } },
    });
  });
});
