/** Decisions about many items of a bulk job beside jobs, orders of fields and waits that differ. */
import { expect, it } from 'vitest';
import type { BulkItemResource, BulkResource } from '../../bulk/bulk-view.ts';
import { useGateway } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { untilHolds } from '../harness/until.ts';

const gateway = useGateway({ settled: 'last' });
const path = '/api/v1/studio/bulk';

interface Decisions {
  data: {
    decided: number;
    remaining: number;
    items: { index: number; replayed: boolean; error: { code: string } | null }[];
  };
}

it('decides about the other items if the workflow of one was lost, by the step and in any order of fields', async () => {
  const art = { id: 'art', use: 'image/generate', body: { prompt: 'a lamp', numImages: 2 } };
  const imageUrl = { $from: 'art', output: 'chosen' };
  const big = { id: 'big', use: 'image/upscale', approve: true, body: { imageUrl } };
  const cut = {
    id: 'cut',
    use: 'image/remove-background',
    approve: true,
    body: { imageUrl: { $from: 'art', output: 1 } },
  };
  const items = Array.from({ length: 3 }, () => ({
    use: 'pipelines',
    body: { steps: [art, big, cut] },
  }));
  const started = await gateway.call<{ data: BulkResource }>(path, { body: { items } });
  expect(started.status, JSON.stringify(started.body)).toBe(202);
  const { bulkId } = started.body.data;
  const list = async () =>
    (await gateway.call<{ data: BulkItemResource[] }>(`${path}/${bulkId}/items`)).body.data;
  const decide = async (body: object) => {
    const answer = await gateway.call<Decisions>(`${path}/${bulkId}/decisions`, { body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body.data;
  };
  await untilHolds(async () =>
    expect((await list()).map(({ awaiting }) => awaiting.length)).toEqual([2, 2, 2]),
  );
  const seenAt = new Date().toISOString();
  // The step `big` begins to wait after the caller has looked at `cut`.
  await gateway.database.query(
    `UPDATE job j SET approvals = jsonb_set(approvals, '{big,sinceMs}', to_jsonb($2::float8))
     FROM bulk_item i WHERE i.bulk_id = $1 AND j.id = i.job_id`,
    [bulkId, Date.parse(seenAt) + 1],
  );
  const unseen = { items: 'all', step: 'big', awaitingBefore: seenAt, decision: 'reject' };
  expect(await decide(unseen)).toEqual({ decided: 0, remaining: 0, items: [] });

  const [lost] = await list();
  await gateway.getWorkflow(lost?.jobId ?? '').terminate('a test');
  const approve = { step: 'big', decision: 'approve' };
  const first = await decide({
    items: 'all',
    ...approve,
    outputs: { art: 1 },
    body: { scaleFactor: 2, service: 'service_a' },
  });
  expect(first, JSON.stringify(first)).toMatchObject({
    decided: 2,
    remaining: 0,
    items: [{ error: { code: 'SERVICE_UNAVAILABLE' } }, { error: null }, { error: null }],
  });
  const again = await decide({
    items: [1, 2],
    ...approve,
    outputs: { art: 1 },
    body: { service: 'service_a', scaleFactor: 2 },
  });
  expect(again.items).toMatchObject([
    { replayed: true, error: null },
    { replayed: true, error: null },
  ]);
  const alone = await gateway.call(`${path}/${bulkId}/decisions`, {
    body: { items: [0], ...approve, outputs: { art: 1 } },
  });
  expect(alone).toMatchObject({ status: 503, body: { error: 'SERVICE_UNAVAILABLE' } });

  const resettled = await gateway.admin(`/jobs/${lost?.jobId}/resettle`, {});
  expect(resettled.status, JSON.stringify(resettled.body)).toBe(202);
  await untilHolds(async () => {
    const rejected = await decide({ items: [0], step: 'big', decision: 'reject' });
    expect(rejected.items).toMatchObject([{ error: null }]);
  });
  await untilHolds(async () => {
    await decide({ items: 'all', step: 'cut', decision: 'reject' });
    // The workflow that continues the lost job is no child of the bulk job's.
    await sweepOnce(gateway);
    const { body } = await gateway.call<{ data: BulkResource }>(`${path}/${bulkId}`);
    expect(body.data).toMatchObject({
      status: 'completed',
      counts: { total: 3, waiting: 0, running: 0, awaiting: 0, completed: 3 },
      credits: { reserved: 0 },
    });
  });
});
