/**
 * What bulk jobs store: limits are checked before the first item is stored, items count in the
 * storage quota, and bodies are deleted when no command can start their items again.
 */
import type { ServerResponse } from 'node:http';
import { expect, it } from 'vitest';
import type { BulkResource } from '../../bulk/bulk-view.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { until, untilHolds } from '../harness/until.ts';

const quota = 12_000;
const gateway = useGateway({
  env: { BULK_OPEN_MAX: '3', BULK_OPEN_ITEMS_MAX: '6', UPLOAD_BYTES_MAX: String(quota) },
});
const path = '/api/v1/studio/bulk';
/** Bytes that count for an item without its body. */
const rowBytes = 256;

interface Body {
  data: BulkResource;
  error: string;
  message: string;
  required: number;
  available: number;
}

const pictures = (count: number, prompt: string) =>
  Array.from({ length: count }, () => ({ use: 'image/generate', body: { prompt } }));
const start = (caller: TestCaller, body: object) =>
  gateway.call<Body>(path, { body, key: caller.key });
const post = (caller: TestCaller, bulkId: string, command: string, body?: object) =>
  gateway.call<Body>(`${path}/${bulkId}/${command}`, {
    method: 'POST',
    key: caller.key,
    ...(body && { body }),
  });

async function accept(caller: TestCaller, body: object): Promise<string> {
  const response = await start(caller, body);
  expect(response.status, JSON.stringify(response.body)).toBe(202);
  return response.body.data.bulkId;
}

async function untilDone(caller: TestCaller, bulkId: string): Promise<BulkResource> {
  return until(async () => {
    const { body } = await gateway.call<Body>(`${path}/${bulkId}?wait=20`, { key: caller.key });
    return body.data.done && body.data;
  });
}

async function readUsedBytes({ key }: TestCaller): Promise<number> {
  const { body } = await gateway.call<{ storage: { used: number } }>('/api/v1/usage', { key });
  return body.storage.used;
}

/** Lets the provider hold pictures with this prompt until `clearFaults`. */
const hold = (prompt: string) =>
  gateway.sandbox.inject({ match: prompt, faults: 'slow:600s', times: 50 });

const countRows = ({ organizationId }: TestCaller) =>
  gateway.database.query(
    `SELECT (SELECT count(*)::integer FROM bulk WHERE organization_id = $1) AS bulks,
      (SELECT count(*)::integer FROM bulk_item i JOIN bulk b ON b.id = i.bulk_id
        WHERE b.organization_id = $1) AS items`,
    [organizationId],
  );
const listBodies = (bulkId: string): Promise<{ state?: string; request?: object }[]> =>
  gateway.database.query('SELECT state, request FROM bulk_item WHERE bulk_id = $1 ORDER BY index', [
    bulkId,
  ]);

it('an organization that cannot pay the first item gets 402, and nothing is stored', async () => {
  const poor = await gateway.newCaller({ credits: 1 });
  const rejected = await start(poor, { items: pictures(2, 'an unpaid lamp') });
  expect(rejected.status).toBe(402);
  expect(rejected.body).toMatchObject({
    error: 'INSUFFICIENT_CREDITS',
    required: 3.9,
    available: 1,
  });
  expect(await countRows(poor)).toEqual([{ bulks: 0, items: 0 }]);
});

it('items count in the storage quota until their bulk job is deleted, with their bodies while they can start', async () => {
  const caller = await gateway.newCaller();
  const prompt = 'a lamp in the quota '.repeat(50);
  await hold(prompt);
  const bulkId = await accept(caller, { items: pictures(2, prompt) });
  const used = await readUsedBytes(caller);
  expect(used).toBeGreaterThan(2 * (prompt.length + rowBytes));
  const refused = await start(caller, { items: pictures(6, 'x'.repeat(1900)) });
  expect([refused.status, refused.body.error]).toEqual([403, 'STORAGE_QUOTA_EXCEEDED']);
  expect(await readUsedBytes(caller)).toBe(used);
  expect(await countRows(caller)).toEqual([{ bulks: 1, items: 2 }]);
  await until(async () => (await gateway.sandbox.submits({ match: prompt })).length === 2);
  await gateway.sandbox.clearFaults();
  expect((await untilDone(caller, bulkId)).counts.completed).toBe(2);
  expect(await readUsedBytes(caller)).toBe(2 * rowBytes);
  expect(await listBodies(bulkId)).toEqual([
    { state: 'completed', request: {} },
    { state: 'completed', request: {} },
  ]);
  await gateway.database.query('DELETE FROM bulk WHERE id = $1', [bulkId]);
  expect(await readUsedBytes(caller)).toBe(0);
});

it('a failed item keeps its body until its bulk job is canceled, or ended a month ago', async () => {
  const caller = await gateway.newCaller();
  const items = pictures(2, '[[fail:400]] a lamp that fails');
  const bulkId = await accept(caller, { items });
  expect((await untilDone(caller, bulkId)).counts.failed).toBe(2);
  const used = await readUsedBytes(caller);
  expect(used).toBeGreaterThan(2 * rowBytes);
  expect((await post(caller, bulkId, 'retry')).status).toBe(200);
  await untilHolds(async () => expect((await untilDone(caller, bulkId)).counts.failed).toBe(2));
  expect(await readUsedBytes(caller)).toBe(used);
  await gateway.database.query(
    `UPDATE bulk SET completed_at = now() - interval '31 days' WHERE id = $1`,
    [bulkId],
  );
  await sweepOnce(gateway);
  expect(await readUsedBytes(caller)).toBe(2 * rowBytes);
  const late = await post(caller, bulkId, 'retry');
  expect([late.status, late.body.error]).toEqual([409, 'BULK_ALREADY_DONE']);
  expect(late.body.message).toContain('have been deleted');

  const [failing] = items;
  await hold('a lamp that is canceled');
  const slow = pictures(1, 'a lamp that is canceled');
  const second = await accept(caller, { items: [failing, ...slow, ...slow], concurrency: 1 });
  await until(async () => {
    const rows = await listBodies(second);
    return rows[0]?.state === 'failed' && rows[1]?.state === 'running';
  });
  expect((await post(caller, second, 'cancel')).status).toBe(200);
  expect(await listBodies(second)).toMatchObject([
    { state: 'failed', request: {} },
    { state: 'running', request: { prompt: expect.any(String) } },
    { state: 'canceled', request: {} },
  ]);
  await gateway.sandbox.clearFaults();
  await untilDone(caller, second);
  expect(await readUsedBytes(caller)).toBe(5 * rowBytes);
});

it('the answer of a chat counts and is kept until a month after the end of its bulk job', async () => {
  // Stopped bulk jobs keep the bodies of their waiting items, and must not keep others from being swept.
  const stopped = await gateway.newCaller();
  const { organizationId, keyId } = stopped;
  await gateway.database.query(
    `INSERT INTO bulk (id, organization_id, key_id, request_id, concurrency, status, stop_reason, total, waiting, completed_at)
      SELECT 'bulk_stopped_' || n, $1, $2, 'req_x', 1, 'stopped', 'KEY_REVOKED', 1, 1, now() - interval '60 days'
      FROM generate_series(1, 100) AS n`,
    [organizationId, keyId],
  );
  await gateway.database.query(
    `INSERT INTO bulk_item (bulk_id, index, type, request, price)
      SELECT id, 0, 'chat', '{"a": 1}', 1 FROM bulk WHERE organization_id = $1`,
    [organizationId],
  );
  const caller = await gateway.newCaller();
  const messages = [{ role: 'user', content: 'ahoy' }];
  const body = { model: 'gpt-5-nano', messages, max_tokens: 20 };
  const bulkId = await accept(caller, { items: [{ use: 'chat', body }] });
  await untilDone(caller, bulkId);
  const [stored] = await gateway.database.query<{ answer: string }>(
    `SELECT answer FROM bulk_item WHERE bulk_id = $1`,
    [bulkId],
  );
  expect(await readUsedBytes(caller)).toBe(rowBytes + Buffer.byteLength(stored?.answer ?? ''));
  const readItem = async () => {
    const { body: page } = await gateway.call<{ data: object[] }>(`${path}/${bulkId}/items`, {
      key: caller.key,
    });
    return page.data[0];
  };
  expect(await readItem()).toMatchObject({ text: 'You said: ahoy', error: null });
  await gateway.database.query(
    `UPDATE bulk SET completed_at = completed_at - interval '31 days' WHERE id = $1`,
    [bulkId],
  );
  await sweepOnce(gateway);
  await gateway.database.query(`DELETE FROM bulk WHERE organization_id = $1`, [organizationId]);
  expect(await readUsedBytes(caller)).toBe(rowBytes);
  expect(await readItem()).toMatchObject({
    state: 'completed',
    text: null,
    data: null,
    error: { code: 'ANSWER_DELETED' },
  });
});

it('large answers are read a few at a time, so that a read needs little memory', async () => {
  const caller = await gateway.newCaller();
  const messages = [{ role: 'user', content: 'ahoy' }];
  const item = { use: 'chat', body: { model: 'gpt-5-nano', messages, max_tokens: 20 } };
  const bulkId = await accept(caller, { items: [item, item, item] });
  await untilDone(caller, bulkId);
  await gateway.database.query(
    `UPDATE bulk_item SET answer = '{"content":"' || repeat('a', 1500000) || '"}', stored_bytes = 1500000 WHERE bulk_id = $1`,
    [bulkId],
  );
  const pages: number[][] = [];
  const readPage = async (rest: string): Promise<string | null> => {
    const url = `${path}/${bulkId}/items?limit=3${rest}`;
    const { body } = await gateway.call<{ data: { index: number }[]; nextCursor: string | null }>(
      url,
      { key: caller.key },
    );
    pages.push(body.data.map(({ index }) => index));
    return body.nextCursor;
  };
  const cursor = await readPage('');
  expect(await readPage(`&cursor=${cursor}`)).toBe(null);
  expect(pages).toEqual([[0, 1], [2]]);
  const results = await fetch(`${gateway.url}${path}/${bulkId}/results`, {
    headers: { authorization: `Bearer ${caller.key}` },
  });
  const lines = (await results.text()).split('\n').filter(Boolean);
  expect(lines.map((line) => (JSON.parse(line) as { text: string }).text.length)).toEqual([
    1_500_000, 1_500_000, 1_500_000,
  ]);
  await gateway.database.query('DELETE FROM bulk WHERE id = $1', [bulkId]);
});

it('bulk jobs that are being received count as open', async () => {
  const caller = await gateway.newCaller();
  const silent: ServerResponse[] = [];
  const imageUrl = gateway.media.serve('/silent-bulk', (response) => silent.push(response));
  const held = [1, 2, 3].map(() =>
    start(caller, { items: [{ use: 'image/upscale', body: { imageUrl } }] }),
  );
  await until(() => Promise.resolve(silent.length === 3));
  const refused = await start(caller, { items: pictures(1, 'one too many') });
  expect([refused.status, refused.body.error]).toEqual([429, 'BULK_LIMIT_REACHED']);
  expect(await countRows(caller)).toEqual([{ bulks: 3, items: 0 }]);
  for (const response of silent) response.destroy();
  for (const { status } of await Promise.all(held)) expect(status).toBe(400);
  expect(await countRows(caller)).toEqual([{ bulks: 0, items: 0 }]);
});

it('new, resumed and retried items count toward the open items of an organization', async () => {
  const caller = await gateway.newCaller();
  const tooMany = await start(caller, { items: pictures(7, 'seven lamps') });
  expect([tooMany.status, tooMany.body.error]).toEqual([429, 'BULK_LIMIT_REACHED']);
  expect(await countRows(caller)).toEqual([{ bulks: 0, items: 0 }]);
  const failed = await accept(caller, { items: pictures(3, '[[fail:400]] three lamps') });
  await untilDone(caller, failed);
  const stopped = await accept(caller, { items: pictures(3, 'stopped lamps'), maxCredits: 4 });
  expect((await untilDone(caller, stopped)).counts.waiting).toBe(2);
  await hold('open lamps');
  const open = await accept(caller, { items: pictures(4, 'open lamps') });
  const retried = await post(caller, failed, 'retry');
  expect([retried.status, retried.body.error]).toEqual([429, 'BULK_LIMIT_REACHED']);
  expect(retried.body.message).toContain('with 4 open items; allowed are 3 bulk jobs with 6 items');
  const resumed = await post(caller, stopped, 'resume', { maxCredits: 100 });
  expect(resumed.status, JSON.stringify(resumed.body)).toBe(200);
  await untilDone(caller, stopped);
  const further = await start(caller, { items: pictures(3, 'a seventh lamp') });
  expect([further.status, further.body.error]).toEqual([429, 'BULK_LIMIT_REACHED']);
  await gateway.sandbox.clearFaults();
  await untilDone(caller, open);
  expect((await post(caller, failed, 'retry')).status).toBe(200);
  await untilHolds(async () => expect((await untilDone(caller, failed)).counts.failed).toBe(3));
});
