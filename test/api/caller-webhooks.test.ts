/**
 * Caller webhooks: sent at the end of every job, signed, retried and logged, without delaying the
 * job.
 */
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { studio } from '../cli/studio.ts';
import { download } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { timelineOf, wordsOf } from '../harness/timeline.ts';
import { untilHolds } from '../harness/until.ts';
import type { ReceivedWebhook } from '../harness/webhook-receiver.ts';

const gateway = useGateway({ settled: 'last' });

interface WebhookBody {
  success: boolean;
  data: {
    jobId: string;
    url: string;
    state: string;
    attempts: number;
    nextAttemptAt: string | null;
    deliveries: {
      number: number;
      outcome: string;
      status: number | null;
      error: string | null;
      response: string | null;
    }[];
  };
  error: string;
}
interface SecretBody {
  secret: string;
  generation: number;
  replaced: { generation: number; retiresAt: string }[];
}
type Reply = Parameters<typeof gateway.receiver.at>[1];

const imagePath = '/api/v1/studio/image/generate';
const at = (path: string, reply?: Reply) => gateway.receiver.at(path, reply);
const start = async (webhookUrl: string, prompt = 'a tree', { key } = gateway.caller) => {
  const accepted = await gateway.call(imagePath, {
    body: { prompt, async: true, webhookUrl },
    key,
  });
  expect(accepted.status).toBe(202);
  return accepted.body.data.jobId;
};
const webhookOf = async (jobId: string, { key } = gateway.caller) =>
  (await gateway.call<WebhookBody>(`/api/v1/studio/jobs/${jobId}/webhook`, { key })).body.data;
const redeliver = (jobId: string, key = gateway.caller.key) =>
  gateway.call<WebhookBody>(`/api/v1/studio/jobs/${jobId}/webhook/redeliver`, {
    method: 'POST',
    key,
  });
const untilState = async (jobId: string, state: string, caller = gateway.caller) => {
  await untilHolds(async () => expect((await webhookOf(jobId, caller)).state).toBe(state));
  return webhookOf(jobId, caller);
};
const untilFailedOnce = (jobId: string) =>
  untilHolds(async () => expect((await webhookOf(jobId)).deliveries[0]?.outcome).toBe('failed'));
const secretOf = async ({ key }: TestCaller) =>
  (await gateway.call<SecretBody>('/api/v1/webhooks/secret', { key })).body;
const verify = (secret: string, { text, headers }: ReceivedWebhook) =>
  new Webhook(secret).verify(text, headers);
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
    const { secret } = await secretOf(gateway.caller);
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
      gateway.call<{ data: { outcome: string; body: string }; error: string }>(
        '/api/v1/webhooks/test',
        { body: { url }, key },
      );
    const accepted = await test(
      at('/test', (response) => response.writeHead(200).end('thank you')),
    );
    const hook = await untilOnly('/test');
    const { secret } = await secretOf(gateway.caller);
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
    for (const url of ['http://10.0.0.1/', 'ftp://shop.example/', 'no URL'])
      expect((await test(url)).body.error, url).toBe('INVALID_REQUEST');
    const { key } = await gateway.newCaller({ credits: 1, scopes: ['studio:read'] });
    expect((await test(at('/test'), key)).status).toBe(403);
  });

  it('is sent for a failed job and for a canceled job', async () => {
    await start(at('/failed'), '[[fail:422]] a tree');
    expect((await untilOnly('/failed')).body).toMatchObject({
      type: 'studio.job.failed',
      data: { status: 'failed', done: true, result: null, billing: { state: 'released' } },
    });
    const jobId = await start(at('/canceled'), '[[slow:60s]] a tree');
    await untilHolds(async () => expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1));
    await gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });
    expect((await untilOnly('/canceled')).body).toMatchObject({
      type: 'studio.job.canceled',
      data: { jobId, status: 'canceled', error: { code: 'CANCELED' } },
    });
  });

  it('is sent for a synchronous request too, without delaying its response', async () => {
    const held: (() => void)[] = [];
    const webhookUrl = at('/slow', (response) => {
      held.push(() => response.writeHead(200).end());
    });
    const answer = await gateway.call(imagePath, { body: { prompt: 'a tree', webhookUrl } });
    expect(answer.status).toBe(200);
    await gateway.receiver.untilReceived('/slow');
    for (const release of held) release();
  });

  it('is accepted as a field of a form', async () => {
    const form = new FormData();
    form.set('file', new Blob([await recordTone(1)], { type: 'audio/mpeg' }), 'a.mp3');
    form.set('webhookUrl', at('/form'));
    const answer = await gateway.call('/api/v1/studio/audio/transcribe', { body: form });
    expect([200, 202]).toContain(answer.status);
    expect((await untilOnly('/form')).body).toMatchObject({
      type: 'studio.job.completed',
      data: { done: true },
    });
  });

  it('is part of the request that an Idempotency-Key identifies', async () => {
    const send = (webhookUrl: string) =>
      gateway.call(imagePath, {
        body: { prompt: 'a tree', webhookUrl },
        headers: { 'idempotency-key': 'with-webhook' },
      });
    expect((await send(at('/keyed'))).status).toBe(200);
    expect((await send(at('/other'))).status).toBe(422);
    await untilOnly('/keyed');
  });

  it('adds only the start of the delivery to the history of its job', async () => {
    const rows = wordsOf(await timelineOf(gateway.api.client, await start(at('/history'))));
    expect(rows.at(-1)).toBe('child webhookDelivery');
    expect(rows.filter((row) => row.startsWith('child'))).toHaveLength(1);
  });
});

describe.concurrent('a receiver that', () => {
  it('fails is called again with the same id and a new signature until it accepts the webhook', async () => {
    const webhookUrl = at('/flaky', (response, count) => {
      response.writeHead(count < 3 ? 500 : 200).end(`answer ${count}\0`);
    });
    const jobId = await start(webhookUrl);
    const hooks = await gateway.receiver.untilReceived('/flaky', 3);
    expect(new Set(hooks.map((hook) => hook.headers['webhook-id'])).size).toBe(1);
    const { secret } = await secretOf(gateway.caller);
    for (const hook of hooks) verify(secret, hook);
    expect((await untilState(jobId, 'delivered')).deliveries).toMatchObject([
      { number: 3, outcome: 'delivered', status: 200, response: 'answer 3' },
      { number: 2, outcome: 'failed', status: 500, response: 'answer 2' },
      { number: 1, outcome: 'failed', status: 500, response: 'answer 1' },
    ]);
  });

  it('redirects is not followed', async () => {
    const location = at('/elsewhere');
    const webhookUrl = at('/redirects', (response) => response.writeHead(307, { location }).end());
    const webhook = await untilState(await start(webhookUrl), 'failed');
    expect(webhook.deliveries.map(({ status }) => status)).toEqual([307, 307, 307, 307]);
    expect(gateway.receiver.received('/elsewhere')).toEqual([]);
  });

  it('returns 410 is never called again', async () => {
    const jobId = await start(at('/gone', (response) => response.writeHead(410).end()));
    const webhook = await untilState(jobId, 'gone');
    expect(webhook.deliveries).toMatchObject([{ outcome: 'gone', status: 410 }]);
  });

  it('never responds times out, while the job has already completed', async () => {
    const jobId = await start(at('/silent', () => {}));
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('completed');
    await gateway.receiver.untilReceived('/silent', 2);
    expect((await webhookOf(jobId)).deliveries.at(-1)).toMatchObject({
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
    expect([answer.status, answer.body.error]).toEqual([400, 'INVALID_REQUEST']);
    expect(answer.body.details).toMatchObject([{ path: 'webhookUrl' }]);
  });

  it('resolves to a private address at delivery is not called', async () => {
    const jobId = await start(at('/rebound'), '[[slow:500ms]] a tree');
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
    const answer = await gateway.call(imagePath, {
      body: { prompt: 'a tree', webhookUrl: at('/poor') },
      key: poor.key,
    });
    expect(answer.status).toBe(402);
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
    const reader = await gateway.call<{ key: string }>('/api/v1/api-keys', {
      body: { name: 'reader', scopes: ['studio:read'] },
    });
    const rejected = await redeliver(jobId, reader.body.key);
    expect([rejected.status, rejected.body.error]).toEqual([403, 'FORBIDDEN']);
    expect((await webhookOf(jobId)).attempts).toBe(1);

    const redelivery = await redeliver(jobId);
    expect([redelivery.status, redelivery.body.data.state]).toEqual([202, 'delivering']);
    const [first, second] = await gateway.receiver.untilReceived('/again', 2);
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
    expect(second?.body.type).toBe(first?.body.type);
    expect((await untilState(jobId, 'delivered')).attempts).toBe(2);
  });

  it('sends a webhook at once that waits for its next attempt', async () => {
    const receiver = closedReceiver('/hurried');
    const jobId = await start(receiver.url);
    await untilFailedOnce(jobId);
    const waitMs = Date.parse((await webhookOf(jobId)).nextAttemptAt ?? '') - Date.now();
    expect(waitMs).toBeGreaterThan(500_000);
    receiver.open();
    await redeliver(jobId);
    await untilState(jobId, 'delivered');
  });

  it('gives a failed webhook the same number of attempts again', async () => {
    const jobId = await start(at('/twice', (response) => response.writeHead(500).end()));
    const { attempts } = await untilState(jobId, 'failed');
    await redeliver(jobId);
    await untilHolds(async () =>
      expect(await webhookOf(jobId)).toMatchObject({ state: 'failed', attempts: 2 * attempts }),
    );
  });

  it('is rejected for a running job, a job without a webhook, and a job of another organization', async () => {
    const jobId = await start(at('/running'), '[[slow:60s]] a tree');
    expect((await redeliver(jobId)).body.error).toBe('JOB_NOT_DONE');
    await gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });
    await gateway.receiver.untilReceived('/running');
    const stranger = await gateway.newCaller({ credits: 100 });
    const without = await gateway.call(imagePath, {
      key: stranger.key,
      body: { prompt: 'a tree' },
      headers: { prefer: 'respond-async' },
    });
    await gateway.untilDone(without.body.data.jobId, stranger.key);
    for (const [id, error] of [
      [jobId, 'JOB_NOT_FOUND'],
      [without.body.data.jobId, 'NOT_FOUND'],
    ] as const) {
      const read = await gateway.call(`/api/v1/studio/jobs/${id}/webhook`, { key: stranger.key });
      expect([read.status, read.body.error]).toEqual([404, error]);
      const sent = await redeliver(id, stranger.key);
      expect([sent.status, sent.body.error]).toEqual([404, error]);
    }
  });
});

describe('the webhook secret', () => {
  it('is different for each organization, and readable only with a key that may create keys', async () => {
    const other = await gateway.newCaller({ credits: 1 });
    const { secret } = await secretOf(gateway.caller);
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect((await secretOf(other)).secret).not.toBe(secret);
    const narrow = await gateway.newCaller({ credits: 1, scopes: ['studio:read', 'keys:read'] });
    const rejected = await gateway.call('/api/v1/webhooks/secret', { key: narrow.key });
    expect([rejected.status, rejected.body.error]).toEqual([403, 'FORBIDDEN']);
  });

  it('is rotated: both secrets sign during the overlap, and only the new one afterwards or without an overlap', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const before = await secretOf(caller);
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
    const both = await untilOnly('/overlap');
    for (const { secret } of [before, after.body]) verify(secret, both);
    const stranger = await secretOf(gateway.caller);
    expect(() => verify(stranger.secret, both)).toThrow('No matching signature found');

    const last = (await rotate({ overlapSeconds: 0 })).body;
    expect(last).toMatchObject({ generation: 3, replaced: [] });
    await start(at('/at-once'), 'a tree', caller);
    const one = await untilOnly('/at-once');
    verify(last.secret, one);
    for (const { secret } of [before, after.body]) {
      expect(() => verify(secret, one)).toThrow('No matching signature found');
    }
  });
});

describe.concurrent('operators', () => {
  it('list failing webhooks, and deliver them again', async () => {
    let open = false;
    const caller = await gateway.newCaller({ credits: 100 });
    const webhookUrl = at('/operators', (response) => response.writeHead(open ? 200 : 500).end());
    const jobId = await start(webhookUrl, 'a tree', caller);
    await untilState(jobId, 'failed', caller);
    const ofCaller = async (path: string) =>
      (await gateway.admin(`${path}?organizationId=${caller.organizationId}`)).body.data;
    const list = () => ofCaller('/webhooks');
    expect(await list()).toMatchObject([
      { jobId, state: 'failed', attempts: 4, lastStatus: 500, lastError: null },
    ]);
    open = true;
    const redelivery = await gateway.admin(`/jobs/${jobId}/webhook/redeliver`, {});
    expect(redelivery.status).toBe(202);
    await untilState(jobId, 'delivered', caller);
    expect(await list()).toEqual([]);
    expect(await ofCaller('/actions')).toMatchObject([
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
    const again = await studio(['jobs', 'redeliver', jobId], env);
    expect(again.stderr).toBe('');
    await untilState(jobId, 'delivered');
  });
});

describe('a webhook without a delivery workflow', () => {
  it('is delivered by the sweeper, for a job that the sweeper settled and for a lost workflow', async () => {
    const { workflow } = gateway.api.client;
    const lost = await start(at('/lost'), '[[slow:60s]] a tree');
    await untilHolds(async () =>
      expect(await gateway.sandbox.submits({ jobId: lost })).toHaveLength(1),
    );
    await workflow.getHandle(lost).terminate('test');
    const receiver = closedReceiver('/wiped');
    const wiped = await start(receiver.url);
    await untilFailedOnce(wiped);
    await workflow.getHandle(`${wiped}-webhook`).terminate('test');
    receiver.open();
    await gateway.database.query(
      `UPDATE webhook SET overdue_at = now() WHERE subject_id = '${wiped}'`,
    );
    await gateway.database.query(
      `UPDATE reservation SET expires_at = now() WHERE id = '${lost}' AND state = 'reserved'`,
    );
    await sweepOnce(gateway);
    await untilState(wiped, 'delivered');
    // The workflow of a job has five seconds for the start of its delivery.
    await gateway.database.query(
      `UPDATE job SET completed_at = completed_at - interval '6 seconds' WHERE id = '${lost}'`,
    );
    await sweepOnce(gateway);
    expect((await untilOnly('/lost')).body).toMatchObject({
      type: 'studio.job.failed',
      data: { jobId: lost, error: { code: 'JOB_LOST' } },
    });
  });
});
