/**
 * Account notices for low balances and key limits: each is sent once, signed, retried, and only to
 * its own organization.
 */
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { untilHolds } from '../harness/until.ts';

const path = '/api/v1/webhooks/notices';
const imagePrice = 3.9;
const gateway = useGateway({ settled: 'last' });

const readNotices = async ({ key }: TestCaller) =>
  (await gateway.call<{ notices: { state: string }[] }>(path, { key })).body.notices;
const set = ({ key }: TestCaller, body: object) => gateway.call(path, { method: 'PUT', key, body });
const draw = async (key: string) =>
  (await gateway.call('/api/v1/studio/image/generate', { key, body: { prompt: 'a boat' } })).status;
const newLimitedKey = ({ key }: TestCaller, credits: number, per = 'month') =>
  gateway.newKey({ name: 'limited', limit: { credits, per } }, key);
/** Lets the sweeper send notices until this many have arrived at a path, and returns them. */
const untilReceived = async (at: string, count = 1) => {
  await sweepOnce(gateway);
  return gateway.receiver.untilReceived(at, count);
};
/** Expects exactly `count` delivered notices after two passes of the sweeper. */
const expectNotices = async (caller: TestCaller, count: number) => {
  for (let pass = 0; pass < 2; pass += 1) await sweepOnce(gateway);
  await untilHolds(async () =>
    expect((await readNotices(caller)).map(({ state }) => state)).toEqual(
      Array.from({ length: count }, () => 'delivered'),
    ),
  );
};
const targetAt = (at: string, more: object = {}) => ({ url: gateway.receiver.at(at), ...more });

describe.concurrent('a low-balance notice', () => {
  it('is sent once, signed, and sent again only after the balance was above the threshold', async () => {
    const caller = await gateway.newCaller({ credits: 12 });
    const saved = await set(caller, targetAt('/low', { lowBalanceCredits: 8.5 }));
    expect(saved.body).toEqual({
      url: gateway.receiver.at('/low'),
      lowBalanceCredits: 8.5,
      notices: [],
    });
    await expectNotices(caller, 0);
    expect(await draw(caller.key)).toBe(200);
    const [hook] = await untilReceived('/low');
    const { body } = await gateway.call<{ secret: string }>('/api/v1/webhooks/secret', caller);
    expect(new Webhook(body.secret).verify(hook?.text ?? '', hook?.headers ?? {})).toEqual({
      type: 'account.balance.low',
      timestamp: expect.any(String),
      data: { noticeId: expect.stringMatching(/^ntc_/), credits: 8.1, threshold: 8.5 },
    });
    expect(await draw(caller.key)).toBe(200);
    // An unchanged threshold sends no second notice.
    await set(caller, targetAt('/low', { lowBalanceCredits: 8.5 }));
    await expectNotices(caller, 1);
    await gateway.operate(`/organizations/${caller.organizationId}/grants`, {
      id: 'g',
      credits: 5,
    });
    await expectNotices(caller, 1);
    expect(await draw(caller.key)).toBe(200);
    const [first, second] = await untilReceived('/low', 2);
    expect(second?.body.data).toMatchObject({ credits: 5.3, threshold: 8.5 });
    expect(second?.headers['webhook-id']).not.toBe(first?.headers['webhook-id']);
    await expectNotices(caller, 2);
    expect(gateway.receiver.received('/low')).toHaveLength(2);
    const jobWebhooks = `/webhooks?status=delivered&organizationId=${caller.organizationId}`;
    expect((await gateway.admin(jobWebhooks)).body.data).toEqual([]);
  });

  it('is delivered by another worker after the first worker stops', async () => {
    const caller = await gateway.newCaller({ credits: 1 });
    let open = false;
    const url = gateway.receiver.at('/wiped', (response) => {
      response.writeHead(open ? 204 : 503, { 'retry-after': '600' }).end();
    });
    await set(caller, { url, lowBalanceCredits: 1 });
    const [hook] = await untilReceived('/wiped');
    const noticeId = /ntc_[0-9a-f]{32}/.exec(hook?.text ?? '')?.[0] ?? '';
    await untilHolds(async () =>
      expect(await readNotices(caller)).toMatchObject([{ lastStatus: 503 }]),
    );
    await gateway.api.client.workflow.getHandle(`${noticeId}-webhook`).terminate('test');
    open = true;
    await gateway.database.query(
      `UPDATE webhook SET overdue_at = now() WHERE subject_id = '${noticeId}'`,
    );
    await expectNotices(caller, 1);
    expect(gateway.receiver.received('/wiped')[1]?.text).toBe(hook?.text);
  });

  it('is not sent without a URL, nor for other organizations', async () => {
    const silent = await gateway.newCaller({ credits: 1 });
    const other = await gateway.newCaller({ credits: 1 });
    await set(silent, { url: null, lowBalanceCredits: 5 });
    const { body } = await set(other, targetAt('/others', { lowBalanceCredits: 0 }));
    expect(body).toMatchObject({ lowBalanceCredits: 0 });
    await expectNotices(silent, 0);
    await expectNotices(other, 0);
    expect(gateway.receiver.received('/others')).toEqual([]);
    // A new URL gets a notice for a balance that is already low.
    await set(silent, targetAt('/late', { lowBalanceCredits: 5 }));
    await untilReceived('/late');
    await expectNotices(silent, 1);
  });
});

describe.concurrent('a key-limit notice', () => {
  it('is sent at 80 % and at 100 % of the limit, once per period, and again after the limit changes', async () => {
    const caller = await gateway.newCaller();
    await set(caller, targetAt('/limit'));
    const { key, keyId } = await newLimitedKey(caller, 9.75);
    expect(await draw(key)).toBe(200);
    await expectNotices(caller, 0);
    expect(await draw(key)).toBe(200);
    const [near] = await untilReceived('/limit');
    const next = new Date();
    const nextMonth = Date.UTC(next.getUTCFullYear(), next.getUTCMonth() + 1);
    const resetsAt = new Date(nextMonth).toISOString();
    const noticeId = expect.any(String);
    const data = {
      noticeId,
      keyId,
      name: 'limited',
      limit: 9.75,
      per: 'month',
      used: 7.8,
      resetsAt,
    };
    expect(near?.body).toMatchObject({ type: 'key.limit.near', data });
    // Rejected with 1.95 credits left, which is less than the price of an image.
    for (let time = 0; time < 2; time += 1) expect(await draw(key)).toBe(402);
    const [, reached] = await untilReceived('/limit', 2);
    expect(reached?.body).toMatchObject({ type: 'key.limit.reached', data });
    await expectNotices(caller, 2);
    await gateway.send(`/api/v1/api-keys/${keyId}/limit`, {
      method: 'PUT',
      key: caller.key,
      body: { limit: { credits: 9, per: 'month' } },
    });
    await untilReceived('/limit', 3);
    await expectNotices(caller, 3);
    expect(gateway.receiver.received('/limit').map(({ body }) => body.type)).toEqual([
      'key.limit.near',
      'key.limit.reached',
      'key.limit.near',
    ]);
  });

  it('is sent only for 100 % when one charge uses the whole limit, and never for limit 0 or a revoked key', async () => {
    const caller = await gateway.newCaller();
    const used = await newLimitedKey(caller, imagePrice, 'total');
    const zero = await newLimitedKey(caller, 0);
    const gone = await newLimitedKey(caller, imagePrice);
    expect(await Promise.all([used, zero, gone].map(({ key }) => draw(key)))).toEqual([
      200, 402, 200,
    ]);
    await gateway.send(`/api/v1/api-keys/${gone.keyId}`, { method: 'DELETE', key: caller.key });
    await set(caller, targetAt('/used'));
    const [reached] = await untilReceived('/used');
    expect(reached?.body).toMatchObject({
      type: 'key.limit.reached',
      data: { keyId: used.keyId, used: imagePrice, resetsAt: null },
    });
    await expectNotices(caller, 1);
  });
});

describe('the URL for account notices', () => {
  it.each([
    [{ url: 'http://shop.example/hook' }, 'url'],
    [{ url: 'https://10.0.0.1/hook' }, 'url'],
    [{ url: 'nowhere' }, 'url'],
    [{ url: `https://shop.example/${'a'.repeat(2048)}` }, 'url'],
    [{ url: 7 }, 'url'],
    [{}, 'url'],
    [{ url: null, lowBalanceCredits: -1 }, 'lowBalanceCredits'],
    [{ url: null, lowBalanceCredits: 'few' }, 'lowBalanceCredits'],
  ])('rejects %j, names the field, and changes nothing', async (body, field) => {
    expect(await set(gateway.caller, body)).toMatchObject({
      status: 400,
      body: { error: 'INVALID_REQUEST', details: [{ path: field }] },
    });
    const { body: kept } = await gateway.call(path);
    expect(kept).toEqual({ url: null, lowBalanceCredits: null, notices: [] });
  });
});
