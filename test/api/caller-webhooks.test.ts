/**
 * Caller webhooks: sent at the end of every job, signed, retried and logged, without delaying the
 * job.
 */
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type TestCaller, type TestGateway } from '../harness/gateway.ts';
import { studio } from '../cli/studio.ts';
import { download } from '../harness/media.ts';
import {
  startWebhookReceiver,
  type ReceivedWebhook,
  type WebhookReceiver,
} from '../harness/webhook-receiver.ts';
import { untilHolds } from '../harness/until.ts';

let gateway: TestGateway;
let receiver: WebhookReceiver;
/** A receiver that a test stops. */
let shaky: WebhookReceiver;
beforeAll(async () => {
  [receiver, shaky] = await Promise.all([startWebhookReceiver(), startWebhookReceiver()]);
  // Settings of a worker: retries and timeouts of webhooks.
  gateway = await startGateway({
    admittedOrigins: [receiver.origin, shaky.origin],
    latencyMs: 20,
    sandboxEnv: { SANDBOX_TINY_MEDIA: '1' },
    env: { WEBHOOK_TIMEOUT_MS: '1000', WEBHOOK_RETRY_DELAYS_MS: '100,100' },
  });
});
afterAll(async () => {
  await gateway.close();
  receiver.close();
  shaky.close();
});

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
      durationMs: number;
    }[];
  };
  error: string;
}
interface SecretBody {
  secret: string;
  generation: number;
  replaced: { generation: number; retiresAt: string }[];
}

const imagePath = '/api/v1/studio/image/generate';
const start = async (webhookUrl: string, prompt = 'a tree', caller = gateway.caller) => {
  const accepted = await gateway.call(imagePath, {
    body: { prompt, async: true, webhookUrl },
    key: caller.key,
  });
  expect(accepted.status).toBe(202);
  return accepted.body.data.jobId;
};
const webhookOf = async (jobId: string, caller = gateway.caller) =>
  (await gateway.call<WebhookBody>(`/api/v1/studio/jobs/${jobId}/webhook`, { key: caller.key }))
    .body.data;
const redeliver = (jobId: string) =>
  gateway.call<WebhookBody>(`/api/v1/studio/jobs/${jobId}/webhook/redeliver`, { method: 'POST' });
const untilState = async (jobId: string, state: string) => {
  await untilHolds(async () => expect((await webhookOf(jobId)).state).toBe(state));
  return webhookOf(jobId);
};
const secretOf = async (caller: TestCaller) =>
  (await gateway.call<SecretBody>('/api/v1/webhooks/secret', { key: caller.key })).body;
const verify = (secret: string, { text, headers }: ReceivedWebhook) =>
  new Webhook(secret).verify(text, headers);
const only = (hooks: ReceivedWebhook[]): ReceivedWebhook => {
  const [hook] = hooks;
  if (!hook || hooks.length > 1) throw new Error(`${hooks.length} webhooks, not one`);
  return hook;
};

// The tests run concurrently, because they mostly wait.
describe.concurrent('a caller webhook', () => {
  it('contains the job as GET returns it, signed, with readable URLs', async () => {
    const jobId = await start(receiver.at('/completed'));
    const hook = only(await receiver.untilReceived('/completed'));
    const { secret } = await secretOf(gateway.caller);
    expect(verify(secret, hook)).toEqual(hook.body);
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
    const webhook = await untilState(jobId, 'delivered');
    expect(webhook).toMatchObject({
      jobId,
      url: receiver.at('/completed'),
      attempts: 1,
      nextAttemptAt: null,
      deliveries: [{ number: 1, outcome: 'delivered', status: 204, error: null, response: '' }],
    });
  });

  it("is sent as a test on request, once, and the response shows the request and the receiver's response", async () => {
    const test = (url: string) =>
      gateway.call<{ data: { outcome: string; body: string }; error: string }>(
        '/api/v1/webhooks/test',
        { body: { url } },
      );
    const accepted = await test(
      receiver.at('/test', (response) => response.writeHead(200).end('thank you')),
    );
    const hook = only(receiver.received('/test'));
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
    const failed = await test(receiver.at('/broken', (response) => response.writeHead(500).end()));
    expect(failed.body.data).toMatchObject({ outcome: 'failed', status: 500 });
    expect(receiver.received('/broken')).toHaveLength(1);
    for (const url of ['http://10.0.0.1/', 'ftp://shop.example/', 'no URL'])
      expect((await test(url)).body.error, url).toBe('INVALID_REQUEST');
    const { key } = await gateway.newCaller({ credits: 1, scopes: ['studio:read'] });
    const refused = await gateway.call('/api/v1/webhooks/test', {
      key,
      body: { url: receiver.at('/test') },
    });
    expect(refused.status).toBe(403);
  });

  it('is sent for a failed job and for a canceled job', async () => {
    await start(receiver.at('/failed'), '[[fail:422]] a tree');
    const failed = only(await receiver.untilReceived('/failed'));
    expect(failed.body).toMatchObject({
      type: 'studio.job.failed',
      data: { status: 'failed', done: true, result: null, billing: { state: 'released' } },
    });
    const jobId = await start(receiver.at('/canceled'), '[[slow:60s]] a tree');
    await untilHolds(async () => expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1));
    await gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });
    const canceled = only(await receiver.untilReceived('/canceled'));
    expect(canceled.body).toMatchObject({
      type: 'studio.job.canceled',
      data: { jobId, status: 'canceled', error: { code: 'CANCELED' } },
    });
  });

  it('is sent for a synchronous request too, without delaying its response', async () => {
    const held: (() => void)[] = [];
    const webhookUrl = receiver.at('/slow', (response) => {
      held.push(() => response.writeHead(200).end());
    });
    const answer = await gateway.call(imagePath, { body: { prompt: 'a tree', webhookUrl } });
    expect(answer.status).toBe(200);
    await receiver.untilReceived('/slow');
    for (const release of held) release();
  });

  it('is accepted as a field of a form', async () => {
    const spoken = await gateway.call('/api/v1/studio/voiceover/generate', {
      body: { text: 'Hear me', title: 'Title' },
    });
    const form = new FormData();
    form.set(
      'file',
      new Blob([await download(spoken.body.data.url)], { type: 'audio/mpeg' }),
      'a.mp3',
    );
    form.set('webhookUrl', receiver.at('/form'));
    const answer = await fetch(`${gateway.url}/api/v1/studio/audio/transcribe`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.caller.key}` },
      body: form,
    });
    expect([200, 202]).toContain(answer.status);
    const hook = only(await receiver.untilReceived('/form'));
    expect(hook.body).toMatchObject({ type: 'studio.job.completed', data: { done: true } });
  });

  it('is part of the request that an Idempotency-Key identifies', async () => {
    const headers = { 'idempotency-key': 'with-webhook' };
    const body = { prompt: 'a tree', webhookUrl: receiver.at('/keyed') };
    expect((await gateway.call(imagePath, { body, headers })).status).toBe(200);
    const again = await gateway.call(imagePath, { body, headers });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const other = { ...body, webhookUrl: receiver.at('/other') };
    expect((await gateway.call(imagePath, { body: other, headers })).status).toBe(422);
    only(await receiver.untilReceived('/keyed'));
  });

  it('adds no row and no history event to a job without a webhookUrl', async () => {
    const answer = await gateway.call(imagePath, {
      body: { prompt: 'a tree' },
      headers: { prefer: 'respond-async' },
    });
    const { jobId } = answer.body.data;
    await gateway.untilDone(jobId);
    const handle = gateway.api.client.workflow.getHandle(jobId);
    await handle.result();
    const { events } = await handle.fetchHistory();
    expect(events?.some((event) => event.startChildWorkflowExecutionInitiatedEventAttributes)).toBe(
      false,
    );
    const missing = await gateway.call(`/api/v1/studio/jobs/${jobId}/webhook`);
    expect([missing.status, missing.body.error]).toEqual([404, 'NOT_FOUND']);
  });

  it('adds only the start of the delivery to the history of its job', async () => {
    const jobId = await start(receiver.at('/history'));
    await receiver.untilReceived('/history');
    const handle = gateway.api.client.workflow.getHandle(jobId);
    await handle.result();
    const { events } = await handle.fetchHistory();
    const settled = events?.findIndex(
      (event) => event.startChildWorkflowExecutionInitiatedEventAttributes,
    );
    const kinds = events?.slice(settled).map((event) => {
      return Object.keys(event).find((name) => name.endsWith('EventAttributes'));
    });
    // Of tasks there is one, or another where a busy machine lost it.
    expect(kinds?.filter((kind) => !kind?.startsWith('workflowTask'))).toEqual([
      'startChildWorkflowExecutionInitiatedEventAttributes',
      'childWorkflowExecutionStartedEventAttributes',
      'upsertWorkflowSearchAttributesEventAttributes',
      'workflowExecutionCompletedEventAttributes',
    ]);
  });
});

describe.concurrent('a receiver that', () => {
  it('fails is called again with the same id and a new signature until it accepts the webhook', async () => {
    const webhookUrl = receiver.at('/flaky', (response, count) => {
      response.writeHead(count < 3 ? 500 : 200).end(`answer ${count}\0`);
    });
    const jobId = await start(webhookUrl);
    const hooks = await receiver.untilReceived('/flaky', 3);
    expect(new Set(hooks.map((hook) => hook.headers['webhook-id'])).size).toBe(1);
    const { secret } = await secretOf(gateway.caller);
    for (const hook of hooks) verify(secret, hook);
    const webhook = await untilState(jobId, 'delivered');
    expect(
      webhook.deliveries.map(({ number, outcome, status, response }) => [
        number,
        outcome,
        status,
        response,
      ]),
    ).toEqual([
      [3, 'delivered', 200, 'answer 3'],
      [2, 'failed', 500, 'answer 2'],
      [1, 'failed', 500, 'answer 1'],
    ]);
  });

  it('redirects is not followed', async () => {
    const elsewhere = receiver.at('/elsewhere');
    const webhookUrl = receiver.at('/redirects', (response) => {
      response.writeHead(307, { location: elsewhere }).end();
    });
    const jobId = await start(webhookUrl);
    const webhook = await untilState(jobId, 'failed');
    expect(webhook.deliveries.map(({ status }) => status)).toEqual([307, 307, 307]);
    expect(receiver.received('/elsewhere')).toEqual([]);
  });

  it('returns 410 is never called again', async () => {
    const webhookUrl = receiver.at('/gone', (response) => response.writeHead(410).end());
    const jobId = await start(webhookUrl);
    const webhook = await untilState(jobId, 'gone');
    expect(webhook.deliveries).toMatchObject([{ outcome: 'gone', status: 410 }]);
  });

  it('never responds times out, while the job has already completed', async () => {
    const webhookUrl = receiver.at('/silent', () => {});
    const jobId = await start(webhookUrl);
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('completed');
    await receiver.untilReceived('/silent', 2);
    const webhook = await webhookOf(jobId);
    expect(webhook.deliveries.at(-1)).toMatchObject({
      outcome: 'failed',
      status: null,
      error: 'unreachable: no response within 1000 ms',
    });
  });

  it('is down receives the webhook after it is up, and an endless response is cut off', async () => {
    const webhookUrl = shaky.at('/up-again', (response) => {
      response.writeHead(200);
      const more = setInterval(() => response.write('x'.repeat(4096)), 5);
      response.once('close', () => clearInterval(more));
    });
    await shaky.down();
    const jobId = await start(webhookUrl);
    await untilHolds(async () =>
      expect((await webhookOf(jobId)).deliveries.at(-1)?.error).toBe(
        'unreachable: the URL could not be reached',
      ),
    );
    await shaky.up();
    await redeliver(jobId);
    await shaky.untilReceived('/up-again');
    const webhook = await untilState(jobId, 'delivered');
    expect(webhook.deliveries[0]?.response).toBe('x'.repeat(1024));
  });
});

describe.concurrent('a webhookUrl that', () => {
  it.each([
    ['is no text', 17],
    ['is no URL', 'receiver'],
    ['is not https', 'http://example.com/hook'],
    ['is another scheme', 'ftp://example.com/hook'],
    ['is a private address', 'https://10.0.0.1/hook'],
    ['is the loopback in disguise', 'https://0x7f000001/hook'],
    ['is a mapped address', 'https://[::ffff:127.0.0.1]/hook'],
    ['is a private name', 'https://metadata.internal/hook'],
    ['carries credentials', 'https://me:secret@example.com/hook'],
    ['is too long', `https://example.com/${'x'.repeat(2048)}`],
  ])('%s is rejected before any credits are reserved', async (_why, webhookUrl) => {
    const answer = await gateway.call(imagePath, { body: { prompt: 'a tree', webhookUrl } });
    expect([answer.status, answer.body.error]).toEqual([400, 'INVALID_REQUEST']);
    expect(answer.body.details).toMatchObject([{ path: 'webhookUrl' }]);
  });

  it('resolves to a private address at delivery is not called', async () => {
    const jobId = await start(receiver.at('/rebound'), '[[slow:500ms]] a tree');
    // Like a host name that now resolves to another address.
    await gateway.database.query(
      `UPDATE webhook SET url = 'https://127.0.0.1/hook' WHERE subject_id = '${jobId}'`,
    );
    const webhook = await untilState(jobId, 'failed');
    expect(webhook.deliveries.map(({ error }) => error)).toEqual(
      Array.from({ length: 3 }, () => 'refused: the host does not have a public address'),
    );
  });

  it('belongs to a rejected job leaves no row', async () => {
    const poor = await gateway.newCaller({ credits: 0 });
    const answer = await gateway.call(imagePath, {
      body: { prompt: 'a tree', webhookUrl: receiver.at('/poor') },
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
  it('sends the same message again with newly signed URLs', async () => {
    const jobId = await start(receiver.at('/again'));
    await untilState(jobId, 'delivered');
    const redelivery = await redeliver(jobId);
    expect([redelivery.status, redelivery.body.data.state]).toEqual([202, 'delivering']);
    const [first, second] = await receiver.untilReceived('/again', 2);
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
    expect(second?.body.type).toBe(first?.body.type);
    expect((await untilState(jobId, 'delivered')).attempts).toBe(2);
  });

  it('requires the scope that started the job', async () => {
    const jobId = await start(receiver.at('/scoped'));
    await untilState(jobId, 'delivered');
    const reader = await gateway.call<{ key: string }>('/api/v1/api-keys', {
      body: { name: 'reader', scopes: ['studio:read'] },
    });
    const path = `/api/v1/studio/jobs/${jobId}/webhook/redeliver`;
    const answer = await gateway.call(path, { method: 'POST', key: reader.body.key });
    expect([answer.status, answer.body.error]).toEqual([403, 'FORBIDDEN']);
    expect((await webhookOf(jobId)).attempts).toBe(1);
  });

  it('sends a webhook at once that waits for its next attempt', async () => {
    let open = false;
    const webhookUrl = receiver.at('/hurried', (response) => {
      response.writeHead(open ? 200 : 503, { 'retry-after': '600' }).end();
    });
    const jobId = await start(webhookUrl);
    await untilHolds(async () =>
      expect((await webhookOf(jobId)).deliveries[0]?.outcome).toBe('failed'),
    );
    expect(Date.parse((await webhookOf(jobId)).nextAttemptAt ?? '') - Date.now()).toBeGreaterThan(
      500_000,
    );
    open = true;
    await redeliver(jobId);
    await untilState(jobId, 'delivered');
  });

  it('gives a failed webhook the same number of attempts again', async () => {
    const webhookUrl = receiver.at('/twice', (response) => response.writeHead(500).end());
    const jobId = await start(webhookUrl);
    const failed = await untilState(jobId, 'failed');
    await redeliver(jobId);
    await untilHolds(async () =>
      expect(await webhookOf(jobId)).toMatchObject({
        state: 'failed',
        attempts: 2 * failed.attempts,
      }),
    );
  });

  it('is rejected for a running job, a job without a webhook, and a job of another organization', async () => {
    const jobId = await start(receiver.at('/running'), '[[slow:60s]] a tree');
    expect((await redeliver(jobId)).body.error).toBe('JOB_NOT_DONE');
    await gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });
    await receiver.untilReceived('/running');
    const stranger = await gateway.newCaller({ credits: 1 });
    for (const [path, method] of [
      [`/api/v1/studio/jobs/${jobId}/webhook`, 'GET'],
      [`/api/v1/studio/jobs/${jobId}/webhook/redeliver`, 'POST'],
    ] as const) {
      const foreign = await gateway.call(path, { key: stranger.key, method });
      expect([foreign.status, foreign.body.error]).toEqual([404, 'JOB_NOT_FOUND']);
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
    const refused = await gateway.call('/api/v1/webhooks/secret', { key: narrow.key });
    expect([refused.status, refused.body.error]).toEqual([403, 'FORBIDDEN']);
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

    await start(receiver.at('/overlap'), 'a tree', caller);
    const both = only(await receiver.untilReceived('/overlap'));
    for (const { secret } of [before, after.body]) verify(secret, both);
    const stranger = await secretOf(gateway.caller);
    expect(() => verify(stranger.secret, both)).toThrow('No matching signature found');

    const last = (await rotate({ overlapSeconds: 0 })).body;
    expect(last).toMatchObject({ generation: 3, replaced: [] });
    await start(receiver.at('/at-once'), 'a tree', caller);
    const one = only(await receiver.untilReceived('/at-once'));
    verify(last.secret, one);
    for (const { secret } of [before, after.body]) {
      expect(() => verify(secret, one)).toThrow('No matching signature found');
    }
  });

  it('does not verify a message that was changed', async () => {
    const { secret } = await secretOf(gateway.caller);
    const hook = receiver.received('/completed')[0];
    if (!hook) throw new Error('a webhook arrived');
    const text = hook.text.replace('completed', 'failed');
    expect(() => verify(secret, { ...hook, text })).toThrow('No matching signature found');
    const headers = { ...hook.headers, 'webhook-id': 'msg_other' };
    expect(() => verify(secret, { ...hook, headers })).toThrow('No matching signature found');
  });
});

describe.concurrent('operators', () => {
  it('list failing webhooks, and deliver them again', async () => {
    let open = false;
    const webhookUrl = receiver.at('/operators', (response) => {
      response.writeHead(open ? 200 : 500).end();
    });
    const caller = await gateway.newCaller({ credits: 100 });
    const jobId = await start(webhookUrl, 'a tree', caller);
    await untilHolds(async () => expect((await webhookOf(jobId, caller)).state).toBe('failed'));
    const key = gateway.config.ADMIN_API_KEY;
    const list = async () =>
      (
        await gateway.call<{ data: { jobId: string }[] }>(
          `/api/admin/v1/webhooks?organizationId=${caller.organizationId}`,
          { key },
        )
      ).body.data;
    expect(await list()).toMatchObject([
      { jobId, state: 'failed', attempts: 3, lastStatus: 500, lastError: null },
    ]);
    open = true;
    const redelivery = await gateway.call(`/api/admin/v1/jobs/${jobId}/webhook/redeliver`, {
      key,
      body: { actor: 'olga', reason: 'ticket 9' },
    });
    expect(redelivery.status).toBe(202);
    await untilHolds(async () => expect((await webhookOf(jobId, caller)).state).toBe('delivered'));
    expect(await list()).toEqual([]);
    const actions = await gateway.call<{ data: { action: string; subject: string }[] }>(
      `/api/admin/v1/actions?organizationId=${caller.organizationId}`,
      { key },
    );
    expect(actions.body.data).toMatchObject([
      { action: 'webhook.redelivery_requested', subject: jobId },
    ]);
  });

  it('stop a delivery by canceling its workflow', async () => {
    const webhookUrl = receiver.at('/stopped', (response) => {
      response.writeHead(503, { 'retry-after': '600' }).end();
    });
    const jobId = await start(webhookUrl);
    await receiver.untilReceived('/stopped');
    await gateway.api.client.workflow.getHandle(`${jobId}-webhook`).cancel();
    await untilState(jobId, 'failed');
  });
});

describe('the command line', () => {
  it('shows a webhook with its attempts, redelivers it, and lists failing webhooks', async () => {
    let open = false;
    const webhookUrl = receiver.at('/terminal', (response) => {
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
    expect(shown.stdout).toMatch(/state +failed\nattempts +3\n/);
    // A response of the receiver cannot send control characters to the terminal.
    expect(shown.stdout).toMatch(/failed +500 +\d+ +not \[2J now\n/);
    expect(listed.stdout).toContain(jobId);
    open = true;
    const again = await studio(['jobs', 'redeliver', jobId], env);
    expect(again.stderr).toBe('');
    await untilState(jobId, 'delivered');
    const reason = ['--reason', 'ticket 9'];
    const byOperator = await studio(['admin', 'redeliver-webhook', jobId, ...reason], env);
    expect(byOperator.status).toBe(0);
    await untilHolds(async () => expect((await webhookOf(jobId)).attempts).toBe(5));
  });
});

describe('a webhook without a delivery workflow', () => {
  it('is delivered by the sweeper, for a job that the sweeper settled and for a lost workflow', async () => {
    const lost = await start(receiver.at('/lost'), '[[slow:60s]] a tree');
    await untilHolds(async () =>
      expect(await gateway.sandbox.submits({ jobId: lost })).toHaveLength(1),
    );
    await gateway.api.client.workflow.getHandle(lost).terminate('test');
    let open = false;
    const webhookUrl = receiver.at('/wiped', (response) => {
      response.writeHead(open ? 200 : 503, { 'retry-after': '600' }).end();
    });
    const wiped = await start(webhookUrl);
    await untilHolds(async () =>
      expect((await webhookOf(wiped)).deliveries[0]?.outcome).toBe('failed'),
    );
    await gateway.api.client.workflow.getHandle(`${wiped}-webhook`).terminate('test');
    open = true;
    await gateway.database.query(
      `UPDATE webhook SET overdue_at = now() WHERE subject_id = '${wiped}'`,
    );
    await gateway.spawn('worker', { SWEEP_INTERVAL_MS: '300', RESERVATION_TTL_MS: '1000' });
    await gateway.database.query(
      `UPDATE reservation SET expires_at = now() WHERE id = '${lost}' AND state = 'reserved'`,
    );
    await untilState(wiped, 'delivered');
    await untilHolds(async () => expect(receiver.received('/lost').length).toBe(1));
    expect(only(receiver.received('/lost')).body).toMatchObject({
      type: 'studio.job.failed',
      data: { jobId: lost, error: { code: 'JOB_LOST' } },
    });
  });
});

it('the ledger is clean after all of these deliveries', () => gateway.expectSettled());
