/** POST /api/v1/studio/bulk/{bulkId}/decisions: items whose pipelines await an approval. */
import { describe, expect, it } from 'vitest';
import { chooseItems } from '../../bulk/bulk-decisions.ts';
import type { BulkItemResource } from '../../bulk/bulk-view.ts';
import { useGateway } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';
import { createBulkCalls, item, path, type Body } from './bulk-calls.ts';

const gateway = useGateway({ settled: 'last' });
const { post, accept, read, untilDone, readResults } = createBulkCalls(gateway);

describe('items that await an approval', () => {
  const steps = [
    { id: 'art', use: 'image/generate', body: { prompt: 'a lamp to choose', numImages: 2 } },
    {
      id: 'big',
      use: 'image/upscale',
      approve: true,
      body: { imageUrl: { $from: 'art', output: 'chosen' } },
    },
  ];
  const films = (count: number) =>
    Array.from({ length: count }, (_, index) => ({
      id: `n${index}`,
      use: 'pipelines',
      body: { steps },
    }));
  interface Decisions {
    decided: number;
    remaining: number;
    items: { index: number; id: string; replayed: boolean; error: { code: string } | null }[];
  }
  const approve = { decision: 'approve', outputs: { art: 1 } };
  const reject = { decision: 'reject' as const, reason: 'too dark' };
  const decide = (bulkId: string, body: object, key?: string) =>
    gateway.call<Body<Decisions>>(`/api/v1/studio/bulk/${bulkId}/decisions`, {
      body,
      ...(key !== undefined && { key }),
    });
  const untilAwaiting = (bulkId: string, count: number, key?: string) =>
    until(async () => {
      const bulk = await read(bulkId, key);
      return bulk.counts.awaiting === count ? bulk : null;
    });

  it('hold no place, are listed with their files, and are decided together, each with a verdict', async () => {
    const estimate = await gateway.call<Body<{ credits: number; creditsBeforeApproval: number }>>(
      `${path}/estimate`,
      { body: { items: films(3) } },
    );
    const { credits, creditsBeforeApproval } = estimate.body.data;
    expect(creditsBeforeApproval).toBeCloseTo(3 * 7.8, 6);
    const { bulkId } = await accept({ items: [...films(3), item('a lamp')], concurrency: 1 });
    const bulk = await until(async () => {
      const { counts, ...others } = await read(bulkId);
      return counts.awaiting === 3 && counts.completed === 1 ? { counts, ...others } : null;
    });
    expect(bulk).toMatchObject({
      status: 'in_progress',
      counts: { total: 4, running: 0, waiting: 0, awaiting: 3 },
      etaSeconds: null,
    });
    expect(bulk.credits.reserved).toBeCloseTo(credits, 6);
    const listed = async (state: string) =>
      (await gateway.call<Body<BulkItemResource[]>>(`${path}/${bulkId}/items?state=${state}`)).body
        .data;
    const awaiting = await listed('awaiting_approval');
    expect(awaiting.map(({ id, state }) => [id, state])).toEqual(
      films(3).map(({ id }) => [id, 'awaiting_approval']),
    );
    expect(awaiting[0]).toMatchObject({
      awaiting: [
        { step: 'big', takes: [{ step: 'art', outputs: [{ output: 0 }, { output: 1 }] }] },
      ],
    });
    expect(await listed('running')).toEqual([]);

    const stranger = await gateway.newCaller();
    const { keyId, key: viewer } = await gateway.newKey();
    const users = `/organizations/${gateway.caller.organizationId}/users`;
    const member = await gateway.admin<Body<{ userId: string }>>(users, {
      name: 'Vera',
      role: 'viewer',
    });
    await gateway.database.query('UPDATE api_key SET user_id = $2 WHERE id = $1', [
      keyId,
      member.body.data.userId,
    ]);
    const { key: other } = await gateway.newKey({ scopes: ['studio:video', 'studio:read'] });
    const refusals: [object, string | undefined, number, string][] = [
      [{ items: 'all', ...approve }, stranger.key, 404, 'BULK_NOT_FOUND'],
      [{ items: 'all', ...approve }, viewer, 403, 'FORBIDDEN'],
      [{ items: 'all', ...approve }, other, 403, 'FORBIDDEN'],
      [{ items: ['n0', 'n9'], ...approve }, undefined, 400, 'INVALID_REQUEST'],
      [
        { items: ['n0'], awaitingBefore: new Date().toISOString(), ...approve },
        undefined,
        400,
        'INVALID_REQUEST',
      ],
      [{ items: [], ...approve }, undefined, 400, 'INVALID_REQUEST'],
    ];
    for (const [body, key, status, error] of refusals) {
      const answer = await decide(bulkId, body, key);
      expect(answer, JSON.stringify(answer.body)).toMatchObject({ status, body: { error } });
    }
    const unseen = await decide(bulkId, {
      items: 'all',
      awaitingBefore: bulk.createdAt,
      ...approve,
    });
    expect(unseen.body.data).toEqual({ decided: 0, remaining: 0, items: [] });

    // Items that cannot be decided do not keep a repeated request from the others.
    const chosen = await Promise.all(
      Array.from({ length: 20 }, () =>
        chooseItems(gateway.api.services.pool, { id: bulkId }, { items: 'all', ...reject }),
      ),
    );
    const orders = chosen.map((all) => all.map(({ index }) => index).join());
    expect(new Set(orders.map((order) => order.split(',').toSorted().join()))).toEqual(
      new Set(['0,1,2']),
    );
    expect(new Set(orders).size).toBeGreaterThan(1);

    const invalid = await decide(bulkId, { items: ['n0', 3], decision: 'approve' });
    expect(invalid.body.data).toMatchObject({
      decided: 0,
      items: [
        { error: { code: 'INVALID_REQUEST' } },
        { index: 3, error: { code: 'NOT_AWAITING' } },
      ],
    });
    const first = await decide(bulkId, { items: ['n0'], ...approve });
    expect(first.body.data, JSON.stringify(first.body)).toMatchObject({
      decided: 1,
      remaining: 0,
      items: [{ id: 'n0', index: 0, replayed: false, error: null }],
    });
    const again = await decide(bulkId, { items: ['n0', 1], ...approve });
    expect(again.body.data.items).toMatchObject([
      { index: 0, replayed: true, error: null },
      { index: 1, replayed: false, error: null },
    ]);
    const changed = await decide(bulkId, { items: ['n0'], ...reject });
    expect(changed.body.data).toMatchObject({ items: [{ error: { code: 'ALREADY_DECIDED' } }] });
    const rest = await decide(bulkId, { items: 'all', ...reject });
    expect(rest.body.data).toMatchObject({ decided: 1, items: [{ id: 'n2' }] });
    const ended = await untilDone(bulkId);
    expect(ended).toMatchObject({
      status: 'completed',
      counts: { total: 4, awaiting: 0, completed: 4 },
      credits: { reserved: 0 },
    });
    const results = await readResults(bulkId);
    const charges = results.toSorted((one, two) => one.index - two.index).map((one) => one.credits);
    const price = credits / 3;
    expect(charges.map((charge) => charge.toFixed(3))).toEqual(
      [price, price, 7.8, 3.9].map((charge) => charge.toFixed(3)),
    );
  });

  it('count toward maxCredits, and are decided or canceled also while the bulk job is paused', async () => {
    const { bulkId } = await accept({ items: films(3), maxCredits: 40, concurrency: 3 });
    // The third item fits once another one has returned what it did not need.
    const waiting = await untilAwaiting(bulkId, 2);
    expect(waiting).toMatchObject({ status: 'in_progress', counts: { waiting: 1, running: 0 } });
    expect(waiting.credits.reserved).toBeLessThanOrEqual(40);
    expect((await post(bulkId, 'pause')).body.data).toMatchObject({ status: 'paused' });
    const rejected = await decide(bulkId, { items: ['n0'], ...reject });
    expect(rejected.body.data).toMatchObject({ decided: 1 });
    await untilAwaiting(bulkId, 1);
    expect((await post(bulkId, 'resume')).body.data).toMatchObject({ status: 'in_progress' });
    await untilAwaiting(bulkId, 2);
    expect((await post(bulkId, 'cancel', { items: 'all' })).status).toBe(200);
    const ended = await untilDone(bulkId);
    // The pictures were delivered, so the canceled jobs are charged for them.
    expect(ended).toMatchObject({
      status: 'canceled',
      counts: { awaiting: 0 },
      credits: { reserved: 0 },
    });
    expect(ended.credits.charged).toBeCloseTo(3 * 7.8, 6);
  });

  it('are canceled and not failed by a rejection before anything was delivered', async () => {
    const lamp = { id: 'art', use: 'image/generate', body: { prompt: 'a lamp' } };
    const gated = (other: object[]) => ({
      use: 'pipelines',
      body: { steps: [{ ...lamp, approve: true }, ...other] },
    });
    const broken = { ...lamp, id: 'broken', body: { prompt: '[[fail:422]] a lamp' } };
    const { bulkId } = await accept({ items: [gated([]), gated([]), gated([broken])] });
    await untilAwaiting(bulkId, 3);
    const rejected = await decide(bulkId, { items: [0, 2], ...reject });
    expect(rejected.body.data).toMatchObject({ decided: 2 });
    expect((await decide(bulkId, { items: [1], decision: 'approve' })).status).toBe(200);
    expect(await untilDone(bulkId)).toMatchObject({
      status: 'completed',
      counts: { completed: 1, canceled: 1, failed: 1 },
      credits: { charged: 3.9, reserved: 0 },
    });
    const results = await readResults(bulkId);
    const ends = results.toSorted((one, two) => one.index - two.index);
    expect(ends.map(({ status, error }) => [status, error?.code])).toEqual([
      ['canceled', 'APPROVAL_REJECTED'],
      ['completed', undefined],
      ['failed', expect.not.stringContaining('APPROVAL')],
    ]);
    // The rejected item is not asked for again; the other one may already run.
    expect((await post(bulkId, 'retry')).body.data).toMatchObject({
      counts: { completed: 1, canceled: 1, failed: 0 },
    });
    await untilAwaiting(bulkId, 1);
    await decide(bulkId, { items: [2], ...reject });
    await untilDone(bulkId);
  });

  it('do not keep a bulk job from pausing until credits arrive', async () => {
    const { organizationId, key } = await gateway.newCaller({ credits: 20 });
    const { bulkId } = await accept({ items: films(2) }, key);
    const paused = await until(async () => {
      const bulk = await read(bulkId, key);
      return bulk.status === 'paused' ? bulk : null;
    });
    expect(paused).toMatchObject({
      stopReason: 'INSUFFICIENT_CREDITS',
      counts: { awaiting: 1, waiting: 1 },
    });
    await gateway.operate(`/organizations/${organizationId}/grants`, { id: 'more', credits: 15 });
    await untilAwaiting(bulkId, 2, key);
    const answer = await decide(bulkId, { items: 'all', ...approve }, key);
    expect(answer.body.data, JSON.stringify(answer.body)).toMatchObject({ decided: 2 });
    expect(await untilDone(bulkId, key)).toMatchObject({ counts: { completed: 2 } });
  });
});
