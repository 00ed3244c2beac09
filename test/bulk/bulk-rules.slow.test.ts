/** Bulk jobs keep the rules of the requests that they contain: keys, budgets, windows, metadata. */
import { describe, expect, it } from 'vitest';
import type { BulkItemResource, BulkResource } from '../../bulk/bulk-view.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

const gateway = useGateway({ settled: 'last' });
const path = '/api/v1/studio/bulk';
interface Body<Data = BulkResource> {
  data: Data;
  error: string;
  message: string;
}

const art = (prompt: string, fields: object = {}) => ({
  use: 'image/generate',
  body: { prompt, ...fields },
});
const sfx = { use: 'sfx/generate', body: { prompt: 'a door', durationSeconds: 1 } };
const pipeline = { use: 'pipelines', body: { steps: [{ id: 'door', ...sfx }] } };
const post = (at: string, body: object = {}, options: object = {}) =>
  gateway.call<Body>(`${path}${at}`, { body, method: 'POST', ...options });

async function accept(body: object, key?: string): Promise<BulkResource> {
  const answer = await post('', body, key === undefined ? {} : { key });
  expect(answer.status, JSON.stringify(answer.body)).toBe(202);
  return answer.body.data;
}
const read = async (bulkId: string, key?: string): Promise<BulkResource> =>
  (await gateway.call<Body>(`${path}/${bulkId}`, key === undefined ? {} : { key })).body.data;
const untilBulk = (
  bulkId: string,
  test: (bulk: BulkResource) => boolean,
  key?: string,
): Promise<BulkResource> =>
  until(async () => {
    const bulk = await read(bulkId, key);
    return test(bulk) && bulk;
  });
const listItems = async (bulkId: string, key?: string) =>
  (
    await gateway.call<Body<BulkItemResource[]>>(
      `${path}/${bulkId}/items`,
      key === undefined ? {} : { key },
    )
  ).body.data;

describe('a bulk job', () => {
  const step = { id: 'a', use: 'image/generate', body: {} };
  const twentySteps = { use: 'pipelines', body: { steps: Array.from({ length: 20 }, () => step) } };
  it.each([
    ['10,001 items', art('a lamp'), 10_001, 'must contain at most 10000 items'],
    ['40,001 steps', twentySteps, 2001, 'must contain at most 40000 steps'],
  ])('with %s is rejected', async (_, item, count, message) => {
    const lines = `${JSON.stringify(item)}\n`.repeat(count);
    const headers = { 'content-type': 'application/x-ndjson' };
    const { status, body } = await gateway.call<Body>(path, { body: lines, headers });
    expect([status, body.message]).toEqual([400, expect.stringContaining(message)]);
  });
});

describe('a command that starts items', () => {
  it('needs a key that may start them', async () => {
    const items = [art('a lamp'), art('a lamp', { model: 'seedream' }), pipeline];
    // The first item fits into the budget, the next does not.
    const { bulkId } = await accept({ items, maxCredits: 4, concurrency: 1 });
    expect(await untilBulk(bulkId, ({ done }) => done)).toMatchObject({
      stopReason: 'MAX_CREDITS',
    });
    const keys = {
      reader: await gateway.newKey({ scopes: ['studio:read'] }),
      pictures: await gateway.newKey({ scopes: ['studio:read', 'studio:image'] }),
      oneModel: await gateway.newKey({ allowedModels: ['nano-banana'] }),
      limited: await gateway.newKey({ limit: { credits: 1, per: 'month' } }),
      fewJobs: await gateway.newKey({ jobsMax: 1 }),
    };
    const refusals = {
      reader: /scope/,
      pictures: /studio:audio/,
      oneModel: /seedream|sound/,
      limited: /has a limit/,
      fewJobs: /has a limit/,
    };
    for (const [name, { key }] of Object.entries(keys)) {
      for (const command of ['resume', 'retry']) {
        const body = command === 'resume' ? { maxCredits: 1e6 } : {};
        const answer = await post(`/${bulkId}/${command}`, body, { key });
        expect(answer.status, `${name} ${command}`).toBe(403);
        expect(answer.body.error).toBe('FORBIDDEN');
        expect(answer.body.message).toMatch(refusals[name as keyof typeof refusals]);
      }
    }
    expect(await read(bulkId)).toMatchObject({ credits: { maxCredits: 4 }, done: true });
    const { key } = await gateway.newKey({
      scopes: ['studio:read', 'studio:image', 'studio:audio'],
    });
    expect((await post(`/${bulkId}/resume`, { maxCredits: 100 }, { key })).status).toBe(200);
    expect(await untilBulk(bulkId, ({ done }) => done)).toMatchObject({ status: 'completed' });
  });

  it('may come from a limited key whose own bulk job it is, also after a rotation', async () => {
    const limited = await gateway.newKey({ limit: { credits: 50, per: 'month' } });
    const { bulkId } = await accept(
      { items: [art('a'.repeat(3)), art('a lamp')], maxCredits: 4 },
      limited.key,
    );
    await untilBulk(bulkId, ({ done }) => done);
    const rotated = await gateway.call<{ key: string }>(
      `/api/v1/api-keys/${limited.keyId}/rotate`,
      {
        body: { overlapSeconds: 600 },
      },
    );
    expect(rotated.status, JSON.stringify(rotated.body)).toBe(200);
    const { key } = rotated.body;
    const answer = await post(`/${bulkId}/resume`, { maxCredits: 8 }, { key });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    expect(await untilBulk(bulkId, ({ done }) => done)).toMatchObject({ status: 'completed' });
  });
});

it('an Idempotency-Key with another maxCredits is rejected', async () => {
  const headers = { 'idempotency-key': 'one-budget' };
  const first = await post('', { items: [sfx], maxCredits: 100 }, { headers });
  expect(first.status).toBe(202);
  const other = await post('', { items: [sfx], maxCredits: 101 }, { headers });
  expect(other).toMatchObject({ status: 422, body: { error: 'IDEMPOTENCY_KEY_REUSED' } });
  const same = await post('', { items: [sfx], maxCredits: 100 }, { headers });
  expect(same.body.data.bulkId).toBe(first.body.data.bulkId);
});

it('an item has its own metadata beside that of the bulk job', async () => {
  const items = [art('a lamp', { metadata: { sku: '1', shop: 'own' } }), art('a lamp')];
  const { bulkId } = await accept({ items, metadata: { shop: 'all', season: 'fall' } });
  await untilBulk(bulkId, ({ done }) => done);
  const jobs = await Promise.all(
    (await listItems(bulkId)).map(({ jobId }) =>
      gateway.call<{ data: { metadata: object } }>(`/api/v1/studio/jobs/${jobId}`),
    ),
  );
  expect(jobs.map(({ body }) => body.data.metadata)).toEqual([
    { shop: 'own', season: 'fall', sku: '1' },
    { shop: 'all', season: 'fall' },
  ]);
});

it('cancel after cancel of all items still cancels the running jobs', async () => {
  const { bulkId } = await accept({ items: [art('[[slow:60s]] a lamp')] });
  const [item] = await until(async () => {
    const items = await listItems(bulkId);
    return items[0]?.jobId != null && items;
  });
  await gateway.untilAccepted(item?.jobId ?? '');
  // In one statement, so that the bulk job cannot end between the commands.
  const { organizationId } = gateway.caller;
  const commands = [true, false].map((all) =>
    JSON.stringify({ command: 'cancel', bulkId, organizationId, all }),
  );
  await gateway.database.query('SELECT bulk_command($1), bulk_command($2)', commands);
  const rows = await gateway.database.query('SELECT cancels_running FROM bulk WHERE id = $1', [
    bulkId,
  ]);
  expect(rows).toEqual([{ cancels_running: true }]);
  expect((await post(`/${bulkId}/cancel`)).status).toBe(200);
  expect(await untilBulk(bulkId, ({ done }) => done)).toMatchObject({
    status: 'canceled',
    counts: { canceled: 1 },
  });
});

it('an item that costs more than a whole window fails alone', async () => {
  const { key } = await gateway.newCaller({ credits: 100, windowCredits: 9 });
  const items = [art('a lamp', { numImages: 3 }), art('a lamp')];
  const { bulkId } = await accept({ items, concurrency: 1 }, key);
  const ended = await untilBulk(bulkId, ({ done }) => done, key);
  expect(ended).toMatchObject({ status: 'completed', counts: { completed: 1, failed: 1 } });
  expect(await listItems(bulkId, key)).toMatchObject([
    { state: 'failed', error: { code: 'WINDOW_LIMIT_EXCEEDED' } },
    { state: 'completed' },
  ]);
});

it('many items that may not start fail in portions, because a statement has a time limit', async () => {
  const items = Array.from({ length: 600 }, (_, index) =>
    art('a lamp', { endUser: `customer-${index % 7}` }),
  );
  const limits = { method: 'PUT', body: { suspended: true } };
  for (const index of Array.from({ length: 7 }).keys())
    await gateway.send(`/api/v1/end-users/customer-${index}`, limits);
  const { bulkId } = await accept({ items });
  const ended = await untilBulk(bulkId, ({ done }) => done);
  expect(ended).toMatchObject({ status: 'completed', counts: { failed: 600 } });
  expect((await listItems(bulkId))[0]).toMatchObject({ error: { code: 'END_USER_SUSPENDED' } });
  const tasks = (await gateway.events(bulkId)).flatMap(
    ({ activityTaskScheduledEventAttributes: task }) => task?.activityType?.name ?? [],
  );
  // A portion of 10,000 such items took minutes, and was repeated without end.
  expect(tasks).toEqual(['advance', 'advance', 'advance']);
});

it.each([
  ['is suspended', { suspended: true }, 'END_USER_SUSPENDED'],
  ['has used its limit', { limit: { credits: 1, per: 'total' } }, 'END_USER_LIMIT_EXCEEDED'],
])('items of an end user who %s fail while those of others run', async (name, body, code) => {
  const blocked = `blocked ${name}`;
  await gateway.send(`/api/v1/end-users/${encodeURIComponent(blocked)}`, { method: 'PUT', body });
  const long = '[[slow:900s]] a lamp of another end user';
  const items = [
    art(long, { endUser: 'other' }),
    art('a lamp', { endUser: blocked }),
    art('a lamp', { endUser: 'other' }),
    art('a lamp', { endUser: blocked }),
  ];
  const { bulkId } = await accept({ items, concurrency: 2 });
  await untilBulk(bulkId, ({ counts }) => counts.completed === 1 && counts.failed === 2);
  expect(await read(bulkId)).toMatchObject({ counts: { running: 1, waiting: 0 } });
  const [, first, , second] = await listItems(bulkId);
  expect([first?.error?.code, second?.error?.code]).toEqual([code, code]);
  await gateway.sandbox.clearFaults();
  await untilBulk(bulkId, ({ done }) => done);
});

it('a bulk job whose key was rotated pauses at the budget that both keys share', async () => {
  const limited = await gateway.newKey({ limit: { credits: 5, per: 'month' } });
  const items = [art('[[slow:3s]] a lamp'), art('a lamp')];
  const { bulkId } = await accept({ items, concurrency: 1 }, limited.key);
  const rotated = await gateway.call(`/api/v1/api-keys/${limited.keyId}/rotate`, {
    body: { overlapSeconds: 0 },
  });
  expect(rotated.status, JSON.stringify(rotated.body)).toBe(200);
  const paused = await untilBulk(bulkId, ({ status }) => status !== 'in_progress');
  expect(paused).toMatchObject({
    status: 'paused',
    stopReason: 'KEY_LIMIT_EXCEEDED',
    counts: { completed: 1, waiting: 1 },
  });
  await gateway.send(`${path}/${bulkId}/cancel`, { method: 'POST' });
  await untilBulk(bulkId, ({ done }) => done);
});

describe('a number that is lowered below what is used', () => {
  it('of a bulk job stops starts, and no count', async () => {
    const items = ['10s', '900s', '900s', '900s', '900s'].map((time) =>
      art(`[[slow:${time}]] a lamp`),
    );
    const { bulkId } = await accept({ items, concurrency: 4 });
    await untilBulk(bulkId, ({ counts }) => counts.running === 4);
    expect((await post(`/${bulkId}/resume`, { concurrency: 1 })).status).toBe(200);
    const counted = await untilBulk(bulkId, ({ counts }) => counts.completed === 1);
    expect(counted).toMatchObject({ counts: { running: 3, waiting: 1 }, concurrency: 1 });
    const lowered = { maxCredits: 0.1, maxFailedPercent: 0 };
    expect((await post(`/${bulkId}/resume`, lowered)).status).toBe(200);
    expect(await read(bulkId)).toMatchObject({ credits: { maxCredits: 0.1 } });
    await gateway.send(`${path}/${bulkId}/cancel`, { body: { items: 'all' } });
    await untilBulk(bulkId, ({ done }) => done);
  });

  it('of a key or an organization refuses what is new', async () => {
    const caller: TestCaller = await gateway.newCaller({ credits: 50 });
    const { key, organizationId } = caller;
    const limited = await gateway.newKey({ limit: { credits: 20, per: 'total' }, jobsMax: 5 }, key);
    const running = await gateway.startImage({ prompt: '[[slow:60s]] a lamp' }, limited.key);
    const set = (body: object) =>
      gateway.call(`/api/v1/api-keys/${limited.keyId}/limit`, { method: 'PUT', body, key });
    const picture = (sender: string) =>
      gateway.call<Body>('/api/v1/studio/image/generate', {
        body: { prompt: 'a lamp' },
        key: sender,
      });
    expect((await set({ limit: { credits: 0.5, per: 'total' } })).status).toBe(200);
    expect(await picture(limited.key)).toMatchObject({ status: 402 });
    expect((await set({ limit: null, jobsMax: 0 })).status).toBeLessThan(500);
    expect((await set({ limit: null, jobsMax: 1 })).status).toBe(200);
    expect(await picture(limited.key)).toMatchObject({ status: 429 });
    expect((await set({ jobsMax: null, rateLimit: 1 })).status).toBe(200);
    expect(await picture(limited.key)).toMatchObject({ status: 429 });
    const window = await gateway.admin(
      `/organizations/${organizationId}/window-allowance`,
      { credits: 1, actor: 'test', reason: 'lowered' },
      'PUT',
    );
    expect(window.status, JSON.stringify(window.body)).toBe(200);
    expect(await picture(key)).toMatchObject({
      status: 402,
      body: { error: 'WINDOW_LIMIT_EXCEEDED' },
    });
    const usage = await gateway.call('/api/v1/usage', { key });
    expect(usage.body).toMatchObject({ window: { limit: 1, remaining: 0 } });
    await gateway.cancel(running, key);
    await gateway.untilDone(running, key);
  });
});
