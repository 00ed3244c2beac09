import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { BulkItemResource, BulkResource } from '../../bulk/bulk-view.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import { until } from '../harness/until.ts';
import { uploadFile } from '../harness/uploads.ts';
import { createBulkCalls, item, path, type Body } from './bulk-calls.ts';

const gateway = useGateway({ settled: 'last' });
/** Endpoints below a bulk job that read it, and those that change it. */
const reads = ['/studio/bulk/x/items', '/studio/bulk/x/results', '/studio/bulk/x/events'];
const commands = [
  '/studio/bulk/x/cancel',
  '/studio/bulk/x/pause',
  '/studio/bulk/x/resume',
  '/studio/bulk/x/retry',
];
const pictures = (count: number, word = 'a lamp') =>
  Array.from({ length: count }, (_, index) => item(`${word} ${index}`, { id: `n${index}` }));
const { start, post, accept, read, untilDone, readResults } = createBulkCalls(gateway);
const send = (body: string, headers: Record<string, string> = {}) =>
  gateway.call<Body>(path, {
    body,
    headers: { 'content-type': 'application/x-ndjson', ...headers },
  });
describe('a bulk job', () => {
  it('runs each item once as an ordinary job, and returns their results', async () => {
    const { bulkId, ...accepted } = await accept({ items: pictures(12), metadata: { shop: 'x' } });
    expect(accepted).toMatchObject({ done: false, counts: { total: 12 }, metadata: { shop: 'x' } });
    const ended = await untilDone(bulkId);
    expect(ended).toMatchObject({
      status: 'completed',
      counts: { total: 12, waiting: 0, running: 0, completed: 12, failed: 0, canceled: 0 },
      credits: { reserved: 0, charged: accepted.credits.estimated },
    });
    const results = (await readResults(bulkId)).toSorted((one, two) => one.index - two.index);
    expect(results.map(({ id, index }) => [id, index])).toEqual(
      Array.from({ length: 12 }, (_, index) => [`n${index}`, index]),
    );
    expect(new Set(results.map(({ jobId }) => jobId)).size).toBe(12);
    for (const { status, data, error } of results) {
      expect({ status, error }).toEqual({ status: 'completed', error: null });
      expect(data?.['images']).toHaveLength(1);
    }
    const jobId = results[0]?.jobId ?? '';
    const job = await gateway.call(`/api/v1/studio/jobs/${jobId}`);
    expect(job.body.data).toMatchObject({ status: 'completed', metadata: { shop: 'x' } });
    const child = await gateway.getWorkflow(jobId).describe();
    const { parentExecution, priority } = child.raw.workflowExecutionInfo ?? {};
    expect(parentExecution?.workflowId).toBe(bulkId);
    // Single jobs have the default priority 3, and go first.
    expect(priority?.priorityKey).toBe(4);
  });

  it('takes NDJSON with a byte order mark, CRLF, blank lines and options', async () => {
    const lines = [
      JSON.stringify({ options: { defaults: { use: 'image/generate' }, concurrency: 2 } }),
      '',
      JSON.stringify({ id: 'a', body: { prompt: 'one' } }),
      '  ',
      JSON.stringify({ id: 'b', body: { prompt: 'two' } }),
    ];
    const response = await send(`\uFEFF${lines.join('\r\n')}`);
    expect(response.status, JSON.stringify(response.body)).toBe(202);
    expect(response.headers.get('location')).toBe(response.body.data.statusUrl);
    const ended = await untilDone(response.body.data.bulkId);
    expect(ended).toMatchObject({ concurrency: 2, counts: { completed: 2 } });
  });

  it.each([
    ['no items', { items: [] }, 'items'],
    ['items of another type', { items: 'x' }, 'items'],
    ['an unknown field', { items: pictures(1), budget: 3 }, 'budget'],
    ['a concurrency of zero', { items: pictures(1), concurrency: 0 }, 'concurrency'],
    ['a concurrency of 65', { items: pictures(1), concurrency: 65 }, 'concurrency'],
    ['an unknown use', { items: [item('one', { use: 'image/paint' })] }, 'items.0.use'],
    ['no use', { items: [{ body: { prompt: 'a' } }] }, 'items.0.use'],
    ['an unknown field', { items: [item('one', { maxCredits: 5 })] }, 'items.0.maxCredits'],
    ['an item that is no object', { items: [7] }, 'items.0'],
    ['an invalid body', { items: [item('one'), item('')] }, 'items.1.body.prompt'],
    [
      'an unknown model',
      { items: [item('', { body: { prompt: 'one', model: 'x' } })] },
      'items.0.body.model',
    ],
    [
      'a repeated id',
      { items: [item('one', { id: 'x' }), item('two', { id: 'x' })] },
      'items.1.id',
    ],
    ['a budget below the first item', { items: pictures(2), maxCredits: 0.1 }, 'maxCredits'],
    ['events without a URL', { items: pictures(1), webhookEvents: ['paused'] }, 'webhookEvents'],
    [
      'async in a body',
      { items: [item('', { body: { prompt: 'one', async: true } })] },
      'items.0.body.async',
    ],
    [
      'async in the defaults',
      { items: pictures(1), defaults: { body: { async: false } } },
      'defaults.body.async',
    ],
    [
      'async in a step of an item',
      {
        items: [
          {
            use: 'pipelines',
            body: { steps: [{ id: 'art', use: 'image/generate', body: { async: true } }] },
          },
        ],
      },
      'items.0.body.steps.0.body.async',
    ],
    [
      'an unknown file',
      { items: [{ use: 'image/upscale', body: { imageUrl: `file_${'0'.repeat(32)}` } }] },
      'items.0.body.imageUrl',
    ],
  ])('with %s is rejected by name and starts nothing', async (_, body, field) => {
    const before = await gateway.call<{ data: BulkResource[] }>(path);
    const response = await start(body);
    expect(
      { status: response.status, path: response.body.details[0]?.path },
      JSON.stringify(response.body),
    ).toEqual({
      status: 400,
      path: field,
    });
    expect((await gateway.call<{ data: BulkResource[] }>(path)).body.data).toEqual(
      before.body.data,
    );
    expect(await gateway.database.query(`SELECT id FROM bulk WHERE status = 'receiving'`)).toEqual(
      [],
    );
  });

  it('lists the first 50 invalid items with their lines, and goes on without them if requested', async () => {
    const lines = Array.from({ length: 70 }, (_, index) =>
      index === 3
        ? JSON.stringify(item('good'))
        : index === 5
          ? '{"use": '
          : JSON.stringify(item('')),
    );
    const rejected = await send(lines.join('\n'));
    expect(rejected.status).toBe(400);
    expect(rejected.body.details).toHaveLength(50);
    expect(rejected.body.details[4]).toMatchObject({ path: 'items.5' });
    expect(rejected.body.details[4]?.message).toContain('line 6');
    const options = JSON.stringify({ options: { skipInvalid: true } });
    const accepted = await send([options, ...lines].join('\n'));
    expect(accepted.status, JSON.stringify(accepted.body)).toBe(202);
    expect(accepted.body.data.counts).toMatchObject({ total: 1, invalid: 69 });
    await untilDone(accepted.body.data.bulkId);
    expect((await readResults(accepted.body.data.bulkId)).map(({ index }) => index)).toEqual([3]);
  });

  it.each([
    ['a long line', `{"use": "${'x'.repeat(1024 * 1024)}"}`, 400],
    ['20,001 lines', '\n'.repeat(20_001), 400],
    ['invalid UTF-8', Buffer.from([0x7b, 0xff, 0x7d]).toString('latin1'), 400],
    ['nothing', '', 400],
  ])('with %s is rejected', async (_, body, status) => {
    expect((await send(body)).status).toBe(status);
  });

  it('of another type of content is rejected', async () => {
    expect((await send('a,b', { 'content-type': 'text/csv' })).status).toBe(415);
  });

  it('never charges more than maxCredits, and goes on with a higher one', async () => {
    const price = (
      await gateway.call<Body<{ credits: number }>>('/api/v1/studio/bulk/estimate', {
        body: { items: pictures(1) },
      })
    ).body.data.credits;
    const { bulkId } = await accept({
      items: pictures(6),
      maxCredits: price * 3.5,
      concurrency: 2,
    });
    const stopped = await untilDone(bulkId);
    expect(stopped).toMatchObject({
      status: 'stopped',
      stopReason: 'MAX_CREDITS',
      counts: { completed: 3, waiting: 3 },
      credits: { charged: price * 3 },
    });
    expect((await post(bulkId, 'pause')).status).toBe(409);
    expect((await post(bulkId, 'resume', { maxCredits: price * 6 })).status).toBe(200);
    expect(await untilDone(bulkId)).toMatchObject({
      status: 'completed',
      counts: { completed: 6 },
    });
    const again = await post(bulkId, 'resume');
    expect([again.status, again.body.error]).toEqual([409, 'BULK_ALREADY_DONE']);
  });

  it('pauses without credits, and goes on when they arrive', async () => {
    const caller = await gateway.newCaller({ credits: 10 });
    const { bulkId } = await accept({ items: pictures(6), concurrency: 1 }, caller.key);
    const paused = await until(async () => {
      const bulk = await read(bulkId, caller.key);
      return bulk.status === 'paused' && bulk;
    });
    expect(paused.stopReason).toBe('INSUFFICIENT_CREDITS');
    // An item whose start was lost keeps the id of its job.
    const jobId = newId('job');
    await gateway.database.query(
      `UPDATE bulk_item SET job_id = $2 WHERE bulk_id = $1 AND index = 5 AND state = 'waiting'`,
      [bulkId, jobId],
    );
    await gateway.operate(`/organizations/${caller.organizationId}/grants`, {
      credits: 100,
      id: 'more',
    });
    expect(await untilDone(bulkId, caller.key)).toMatchObject({
      status: 'completed',
      counts: { completed: 6 },
    });
    const { body } = await gateway.call<{ data: { status: string } }>(
      `/api/v1/studio/jobs/${jobId}`,
      { key: caller.key },
    );
    expect(body.data.status).toBe('completed');
  });

  it('pauses, resumes and cancels on request', async () => {
    await gateway.sandbox.inject({ match: 'slow lamp', faults: 'slow:1500ms', times: 50 });
    const { bulkId } = await accept({ items: pictures(8, 'slow lamp'), concurrency: 2 });
    const paused = await post(bulkId, 'pause');
    expect(paused.body.data).toMatchObject({ status: 'paused', stopReason: 'PAUSED' });
    expect((await post(bulkId, 'pause')).status).toBe(200);
    expect((await post(bulkId, 'resume')).body.data.status).toBe('in_progress');
    await until(async () => (await read(bulkId)).counts.running === 2);
    expect((await post(bulkId, 'cancel')).body.data).toMatchObject({ status: 'canceled' });
    const ended = await untilDone(bulkId);
    expect(ended.counts.completed + ended.counts.canceled).toBe(8);
    expect(ended.counts.completed).toBeGreaterThan(0);
    for (const command of commands.map((name) => name.split('/').at(-1) ?? '')) {
      expect((await post(bulkId, command)).status, command).toBe(409);
    }
  });

  it('retries failed items once more as new jobs', async () => {
    await gateway.sandbox.inject({ match: 'broken lamp', faults: 'fail:400', times: 2 });
    const { bulkId } = await accept({
      items: [
        ...pictures(2, 'broken lamp'),
        ...pictures(1, 'good lamp').map((one) => ({ ...one, id: 'g' })),
      ],
    });
    const first = await untilDone(bulkId);
    expect(first.counts).toMatchObject({ completed: 1, failed: 2 });
    const failed = await gateway.call<Body<BulkItemResource[]>>(
      `${path}/${bulkId}/items?state=failed&limit=1`,
    );
    expect(failed.body).toMatchObject({ hasMore: true, nextCursor: '0' });
    expect(failed.body.data[0]?.error?.code).toBeDefined();
    const next = await gateway.call<Body<BulkItemResource[]>>(
      `${path}/${bulkId}/items?state=failed&limit=1&cursor=0`,
    );
    expect(next.body).toMatchObject({ data: [{ index: 1 }], hasMore: false, nextCursor: null });
    const results = await readResults(bulkId);
    expect(results.map(({ index }) => index).toSorted()).toEqual([0, 1, 2]);
    expect((await post(bulkId, 'retry')).status).toBe(200);
    expect(await untilDone(bulkId)).toMatchObject({
      status: 'completed',
      counts: { completed: 3, failed: 0 },
    });
    const { cursor = '' } = results.at(-1) ?? {};
    const retried = await readResults(bulkId, cursor);
    expect(retried.map(({ index }) => index).toSorted()).toEqual([0, 1]);
    for (const result of retried) expect(result).toMatchObject({ status: 'completed', round: 2 });
    expect(await readResults(bulkId, retried.at(-1)?.cursor)).toEqual([]);
    for (const wrong of ['-1', 'x', '1'.repeat(16)]) {
      const rejected = await gateway.call<Body>(`${path}/${bulkId}/results?cursor=${wrong}`);
      expect([rejected.status, rejected.body.details]).toMatchObject([400, [{ path: 'cursor' }]]);
    }
    expect((await post(bulkId, 'retry')).status).toBe(409);
  });

  it('stops when its key is revoked', async () => {
    await gateway.sandbox.inject({ match: 'revoked lamp', faults: 'slow:900s', times: 50 });
    const { key, keyId } = await gateway.newKey();
    const { bulkId } = await accept({ items: pictures(10, 'revoked lamp'), concurrency: 1 }, key);
    await gateway.send(`/api/v1/api-keys/${keyId}`, { method: 'DELETE' });
    await gateway.sandbox.clearFaults();
    const ended = await untilDone(bulkId);
    expect(ended).toMatchObject({ status: 'stopped', stopReason: 'KEY_REVOKED' });
    expect(ended.counts.completed).toBeLessThan(4);
  });

  it('belongs to its organization', async () => {
    const { bulkId } = await accept({ items: pictures(1) });
    const other: TestCaller = await gateway.newCaller();
    for (const below of [path.replace('/api/v1', ''), ...reads, ...commands]) {
      const url = `/api/v1${below.replace('/x/', `/${bulkId}/`)}${below.includes('/x/') ? '' : `/${bulkId}`}`;
      const method = commands.includes(below) ? 'POST' : 'GET';
      expect((await gateway.call(url, { key: other.key, method })).status, below).toBe(404);
    }
    await untilDone(bulkId);
  });

  it('is the same for requests with the same Idempotency-Key', async () => {
    const options = { headers: { 'idempotency-key': 'bulk-1' } };
    const [first, second] = [
      await start({ items: pictures(2) }, options),
      await start({ items: pictures(2) }, options),
    ];
    expect(second.body.data.bulkId).toBe(first.body.data.bulkId);
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect((await start({ items: pictures(3) }, options)).status).toBe(422);
    await untilDone(first.body.data.bulkId);
  });

  it('is the same for fields in another order', async () => {
    const options = { headers: { 'idempotency-key': 'bulk-order' } };
    const body = { prompt: 'a lamp', aspectRatio: '1:1' };
    const reordered = { aspectRatio: '1:1', prompt: 'a lamp' };
    const use = 'image/generate';
    const first = await start(
      { items: [{ id: 'a', use, body }], metadata: { team: 'ads', year: '7' } },
      options,
    );
    const items = [{ body: reordered, use, id: 'a' }];
    const second = await start({ metadata: { year: '7', team: 'ads' }, items }, options);
    expect(second.status, JSON.stringify(second.body)).toBe(202);
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(second.body.data.bulkId).toBe(first.body.data.bulkId);
    await untilDone(first.body.data.bulkId);
  });

  it('names NDJSON when its JSON is too large', async () => {
    const prompt = 'x'.repeat(1000);
    const rejected = await start({
      items: Array.from({ length: 4500 }, () => ({ use: 'image/generate', body: { prompt } })),
    });
    expect(rejected.status).toBe(413);
    expect(rejected.body).toMatchObject({
      message:
        'The body has more than 4194304 bytes. Send more as application/x-ndjson, an item in each line.',
    });
  });

  it('gets the first answer again, also when its files have been deleted', async () => {
    const { fileId } = await uploadFile(gateway, await drawDisc(64, 64));
    const missing = `file_${'0'.repeat(32)}`;
    const upscale = (imageUrl: string) => ({ use: 'image/upscale', body: { imageUrl } });
    const body = { items: [upscale(fileId), upscale(missing)], skipInvalid: true };
    const options = { headers: { 'idempotency-key': 'bulk-deleted' } };
    const first = await start(body, options);
    expect(first.status, JSON.stringify(first.body)).toBe(202);
    await untilDone(first.body.data.bulkId);
    await gateway.database.query('UPDATE upload SET deleted_at = now() WHERE id = $1', [fileId]);
    const again = await start(body, options);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const { bulkId, invalidItems } = first.body.data as BulkResource & { invalidItems: object[] };
    expect(again.body.data).toMatchObject({ bulkId, invalidItems });
    expect(invalidItems).toMatchObject([{ path: 'items.1.body.imageUrl' }]);
    const other = await start({ ...body, items: [upscale(missing)] }, options);
    expect(other.body).toMatchObject({ error: 'IDEMPOTENCY_KEY_REUSED' });
  });
});
