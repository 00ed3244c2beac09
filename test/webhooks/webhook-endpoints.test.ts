/**
 * Webhook endpoints: requests without a `webhookUrl` are reported to those that chose the event,
 * signed with their own secrets, with the attempts, the health and the replay of each.
 */
import { Webhook as Signature } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { endpointsMax } from '../../webhooks/endpoints.ts';
import { useGateway } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { untilHolds } from '../harness/until.ts';
import type { ReceivedWebhook } from '../harness/webhook-receiver.ts';
import { createEndpointCalls, path, type Created } from './endpoint-calls.ts';

const gateway = useGateway({ settled: 'last' });
const { at, create, change, read, untilOne, listDeliveries } = createEndpointCalls(gateway);
const verify = (secret: string, { text, headers }: ReceivedWebhook) =>
  new Signature(secret).verify(text, headers);

describe.concurrent('a request without a webhookUrl', () => {
  it('is reported to each endpoint that chose the event, signed with its own secret', async () => {
    const caller = await gateway.newCaller();
    const one = await create(caller, { url: at('/one') });
    const events = ['studio.job.started', 'studio.job.completed'];
    const other = await create(caller, { url: at('/other'), events });
    await create(caller, { url: at('/failures'), events: ['studio.job.failed'] });
    const jobId = await gateway.startImage({ prompt: 'a tree' }, caller.key);
    const hook = await untilOne('/one');
    const [first, second] = await gateway.receiver.untilReceived('/other', 2);
    expect(verify(one.secret, hook)).toMatchObject({
      type: 'studio.job.completed',
      data: { jobId },
    });
    for (const received of [first, second]) {
      if (received) verify(other.secret, received);
    }
    expect([first?.body.type, second?.body.type].toSorted()).toEqual(events.toSorted());
    expect(() => verify(other.secret, hook)).toThrow('No matching signature found');
    const { body: shared } = await gateway.call<{ secret: string }>('/api/v1/webhooks/secret', {
      key: caller.key,
    });
    expect(() => verify(shared.secret, hook)).toThrow('No matching signature found');
    await untilHolds(async () => {
      const listed = await listDeliveries(caller);
      expect(listed.filter(({ state }) => state === 'delivered')).toHaveLength(3);
    });
    expect(await listDeliveries(caller, `?endpointId=${one.endpointId}`)).toMatchObject([
      { jobId, event: 'ended', state: 'delivered', url: at('/one'), endpointId: one.endpointId },
    ]);
    expect(await read(one.endpointId, caller)).toMatchObject({
      delivered: 1,
      failed: 0,
      lastStatus: 204,
      lastDeliveredAt: expect.any(String),
      failingSince: null,
    });
    const again = `/api/v1/studio/jobs/${jobId}/webhook/redeliver`;
    expect((await gateway.call(again, { method: 'POST', key: caller.key })).status).toBe(202);
    const [, repeated] = await gateway.receiver.untilReceived('/one', 2);
    expect(repeated?.headers['webhook-id']).toBe(hook.headers['webhook-id']);
    await gateway.receiver.untilReceived('/other', 3);
    expect(gateway.receiver.received('/failures')).toEqual([]);
  });

  it('is reported when one of its steps awaits an approval, also to an endpoint that chose only that', async () => {
    const caller = await gateway.newCaller();
    const events = ['studio.job.awaiting_approval'];
    const { endpointId, secret } = await create(caller, { url: at('/waits'), events });
    const steps = [
      { id: 'art', use: 'image/generate', body: { prompt: 'a tree' } },
      {
        id: 'cut-out',
        use: 'image/remove-background',
        approve: true,
        body: { imageUrl: { $from: 'art' } },
      },
    ];
    const body = { steps, async: true };
    const started = await gateway.call('/api/v1/studio/pipelines', { key: caller.key, body });
    const { jobId } = started.body.data;
    const hook = await untilOne('/waits');
    expect(verify(secret, hook)).toMatchObject({ type: events[0], data: { jobId } });
    const query = `?step=cut-out&endpointId=${endpointId}`;
    await untilHolds(async () =>
      expect(
        await gateway.call(`/api/v1/studio/jobs/${jobId}/webhook${query}`, { key: caller.key }),
      ).toMatchObject({ body: { data: { step: 'cut-out', endpointId, state: 'delivered' } } }),
    );
    await gateway.cancel(jobId, caller.key);
    await gateway.untilDone(jobId, caller.key);
  });

  it('is one with a webhookUrl only if it has none', async () => {
    const caller = await gateway.newCaller();
    await create(caller, { url: at('/unused') });
    const body = { prompt: 'a tree', webhookUrl: at('/own') };
    const jobId = await gateway.startImage(body, caller.key);
    expect((await untilOne('/own')).body.data.jobId).toBe(jobId);
    const listed = await listDeliveries(caller);
    expect(listed).toMatchObject([{ jobId, url: at('/own'), endpointId: null }]);
    expect(gateway.receiver.received('/unused')).toEqual([]);
  });

  it('and that is rejected leaves no webhook', async () => {
    const poor = await gateway.newCaller({ credits: 0 });
    await create(poor, { url: at('/poor') });
    const answer = await gateway.call('/api/v1/studio/image/generate', {
      body: { prompt: 'a tree' },
      key: poor.key,
    });
    expect(answer).toMatchObject({ status: 402, body: { error: 'INSUFFICIENT_CREDITS' } });
    const rows = 'SELECT 1 FROM webhook WHERE organization_id = $1';
    expect(await gateway.database.query(rows, [poor.organizationId])).toEqual([]);
  });

  it('is also an item of a bulk job, whose end is reported too, and a notice', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const events = ['studio.job.completed', 'studio.bulk.completed', 'account.balance.low'];
    const endpoint = await create(caller, { url: at('/bulk'), events });
    const notices = { url: null, lowBalanceCredits: 100 };
    await gateway.send('/api/v1/webhooks/notices', {
      method: 'PUT',
      key: caller.key,
      body: notices,
    });
    const items = [{ use: 'image/generate', body: { prompt: 'a tree' } }];
    const started = await gateway.call('/api/v1/studio/bulk', { key: caller.key, body: { items } });
    expect(started).toMatchObject({ status: 202, body: { data: { counts: { total: 1 } } } });
    await untilHolds(async () => {
      await sweepOnce(gateway);
      const types = gateway.receiver.received('/bulk').map(({ body }) => body.type);
      expect(types.toSorted()).toEqual(events.toSorted());
    });
    for (const hook of gateway.receiver.received('/bulk')) verify(endpoint.secret, hook);
  });
});

describe.concurrent('an endpoint', () => {
  it('that is paused receives its webhooks when it is resumed', async () => {
    const caller = await gateway.newCaller();
    const { endpointId } = await create(caller, { url: at('/paused'), paused: true });
    const jobId = await gateway.startImage({ prompt: 'a tree' }, caller.key);
    await gateway.untilDone(jobId, caller.key);
    const delivery = `${jobId}.${endpointId}-webhook`;
    await untilHolds(() => gateway.api.client.workflow.getHandle(delivery).result());
    await sweepOnce(gateway);
    expect(gateway.receiver.received('/paused')).toEqual([]);
    expect(await listDeliveries(caller)).toMatchObject([{ jobId, state: 'waiting' }]);
    const resumed = await change(endpointId, caller, { paused: false, description: 'the shop' });
    expect(resumed.body.data).toMatchObject({ paused: false, description: 'the shop' });
    await untilHolds(async () => {
      await sweepOnce(gateway);
      expect(gateway.receiver.received('/paused')).toHaveLength(1);
    });
  });

  it('that fails shows since when, and receives its webhooks again at its new URL', async () => {
    const caller = await gateway.newCaller();
    const broken = at('/broken', (response) => {
      response.writeHead(503, { 'retry-after': '600' }).end();
    });
    const { endpointId } = await create(caller, { url: broken });
    const before = new Date(Date.now() - 3_600_000).toISOString();
    const jobId = await gateway.startImage({ prompt: 'a tree' }, caller.key);
    await untilHolds(async () =>
      expect(await read(endpointId, caller)).toMatchObject({
        delivered: 0,
        failed: 1,
        lastStatus: 503,
        failingSince: expect.any(String),
      }),
    );
    const replay = (since: string) =>
      gateway.call(`${path}/${endpointId}/replay`, { key: caller.key, body: { since } });
    const later = new Date(Date.now() + 3_600_000).toISOString();
    expect((await replay(later)).body).toEqual({ success: true, data: { replayed: 0 } });
    expect((await replay('yesterday')).body).toMatchObject({
      error: 'INVALID_REQUEST',
      details: [{ path: 'since' }],
    });
    await change(endpointId, caller, { url: at('/mended') });
    expect(await replay(before)).toMatchObject({ status: 202, body: { data: { replayed: 1 } } });
    await untilHolds(async () => {
      await sweepOnce(gateway);
      expect(gateway.receiver.received('/mended')).toHaveLength(1);
    });
    const [hook] = gateway.receiver.received('/mended');
    const [failed] = gateway.receiver.received('/broken');
    expect(hook?.headers['webhook-id']).toBe(failed?.headers['webhook-id']);
    await untilHolds(async () =>
      expect(await read(endpointId, caller)).toMatchObject({ delivered: 1, failingSince: null }),
    );
    expect(await listDeliveries(caller)).toMatchObject([
      { jobId, state: 'delivered', attempts: 2, url: at('/mended') },
    ]);
  });

  it('that is deleted receives nothing more', async () => {
    const caller = await gateway.newCaller();
    const closed = at('/deleted', (response) => {
      response.writeHead(503, { 'retry-after': '600' }).end();
    });
    const { endpointId } = await create(caller, { url: closed });
    const jobId = await gateway.startImage({ prompt: 'a tree' }, caller.key);
    await gateway.receiver.untilReceived('/deleted');
    const remove = () =>
      gateway.call(`${path}/${endpointId}`, { method: 'DELETE', key: caller.key });
    expect((await remove()).body).toEqual({ success: true, endpointId });
    expect(await remove()).toMatchObject({ status: 404, body: { error: 'NOT_FOUND' } });
    await untilHolds(async () =>
      expect(await listDeliveries(caller)).toMatchObject([{ jobId, state: 'failed' }]),
    );
    await gateway.untilDone(await gateway.startImage({ prompt: 'a tree' }, caller.key), caller.key);
    await sweepOnce(gateway);
    expect(await listDeliveries(caller)).toHaveLength(1);
    expect(gateway.receiver.received('/deleted')).toHaveLength(1);
  });

  it('is tested with its own secret, and rotates it with an overlap', async () => {
    const caller = await gateway.newCaller();
    const { endpointId, secret } = await create(caller, { url: at('/tested') });
    const post = (action: string, body: object = {}) =>
      gateway.call<{ secret: string; generation: number; replaced: object[] }>(
        `${path}/${endpointId}/${action}`,
        { method: 'POST', key: caller.key, body },
      );
    const test = () =>
      gateway.call(`${path}/${endpointId}/test`, { method: 'POST', key: caller.key });
    expect((await test()).body.data).toMatchObject({ outcome: 'delivered', status: 204 });
    expect(verify(secret, await untilOne('/tested'))).toMatchObject({ type: 'webhook.test' });
    const { body: second } = await post('rotate');
    expect(second).toMatchObject({ generation: 2, replaced: [{ generation: 1 }] });
    await test();
    const [, both] = gateway.receiver.received('/tested');
    if (both) for (const active of [secret, second.secret]) verify(active, both);
    const { body: third } = await post('rotate', { overlapSeconds: 0 });
    expect(third).toMatchObject({ generation: 3, replaced: [] });
    await test();
    const last = gateway.receiver.received('/tested')[2];
    expect(last && verify(third.secret, last)).toMatchObject({ type: 'webhook.test' });
    expect(() => last && verify(second.secret, last)).toThrow('No matching signature found');
    // A test changes no health.
    expect(await read(endpointId, caller)).toMatchObject({ delivered: 0, failed: 0 });
  });

  it('is created once for an Idempotency-Key, shows its secret once, and an organization has at most 20', async () => {
    const caller = await gateway.newCaller();
    const body = { url: at('/many'), events: ['studio.job.completed'] };
    const send = (headers = {}) => gateway.call<Created>(path, { key: caller.key, body, headers });
    const first = await send({ 'idempotency-key': 'an-endpoint' });
    expect(first.body.data.secret).toMatch(/^whsec_/);
    expect(first.headers.get('cache-control')).toContain('no-store');
    expect((await send({ 'idempotency-key': 'an-endpoint' })).body).toEqual(first.body);
    const others = await Promise.all(Array.from({ length: endpointsMax }, () => send()));
    expect(others.filter(({ status }) => status === 200)).toHaveLength(endpointsMax - 1);
    expect(others.find(({ status }) => status !== 200)).toMatchObject({
      status: 400,
      body: { error: 'WEBHOOK_ENDPOINT_QUOTA_REACHED' },
    });
    const { body: listed } = await gateway.call(path, { key: caller.key });
    expect(listed.data).toHaveLength(endpointsMax);
    expect(JSON.stringify(listed)).not.toContain('whsec_');
  });

  it('with a wrong field is neither created nor changed', async () => {
    const caller = await gateway.newCaller();
    const valid = { url: at('/valid'), events: ['studio.job.failed'] };
    const { endpointId } = await create(caller, valid);
    for (const [wrong, field] of [
      [{ url: 'https://10.0.0.1/' }, 'url'],
      [{ url: 'ftp://shop.example/' }, 'url'],
      [{ events: [] }, 'events'],
      [{ events: ['studio.job.paid'] }, 'events.0'],
      [{ events: ['studio.job.failed', 'studio.job.failed'] }, 'events'],
      [{ description: 'x'.repeat(201) }, 'description'],
      [{ paused: 'yes' }, 'paused'],
    ] as const) {
      const rejected = {
        status: 400,
        body: { error: 'INVALID_REQUEST', details: [{ path: field }] },
      };
      const body = { ...valid, ...wrong };
      expect(await gateway.call(path, { key: caller.key, body })).toMatchObject(rejected);
      expect(await change(endpointId, caller, wrong)).toMatchObject(rejected);
    }
    expect(await change(endpointId, caller, {})).toMatchObject({
      status: 400,
      body: { details: [{ path: '(body)' }] },
    });
    expect(await read(endpointId, caller)).toMatchObject(valid);
  });
});
