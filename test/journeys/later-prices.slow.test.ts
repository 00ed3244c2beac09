/** A later row of the price book changes nothing for what was accepted. */
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { until, untilHolds } from '../harness/until.ts';
import { createApprovals } from './approval-jobs.ts';
import { createPriceCalls, readsPrices } from './price-calls.ts';

const gateway = useGateway({ env: readsPrices, settled: 'last' });
const prices = createPriceCalls(gateway);
const { readCharges } = prices;

describe('a later row', () => {
  it('changes nothing for a step that waits, also with a changed body', async () => {
    const caller = await gateway.newCaller();
    const row = await prices.add(caller);
    const approvals = createApprovals({
      ...gateway,
      call: (path, options) => gateway.call(path, { key: caller.key, ...options }),
    });
    const body = { prompt: 'a bay' };
    const steps = [
      { id: 'first', use: 'image/generate', body },
      { id: 'film', use: 'image/generate', approve: true, body: { prompt: 'a bay', numImages: 2 } },
    ];
    const job = await approvals.startWaiting(steps);
    await prices.add(caller, { markupPercent: 900 });
    const decided = await approvals.decide(job.jobId, {
      decision: 'approve',
      body: { numImages: 1 },
    });
    expect(decided.status, JSON.stringify(decided.body)).toBe(200);
    expect((await approvals.untilEnded(job.jobId)).status).toBe('completed');
    expect(await readCharges(caller)).toMatchObject([
      { amount: 3 * 5_850_000, charged: 2 * 5_850_000, cost: 2 * 3_900_000, charged_by: [row] },
    ]);
  });

  it('changes nothing for the waiting items of a bulk job', async () => {
    const caller = await gateway.newCaller({ windowCredits: 6 });
    const { key, organizationId } = caller;
    const row = await prices.add(caller);
    const items = ['a bay', 'a cape'].map((prompt) => ({
      use: 'image/generate',
      body: { prompt },
    }));
    const started = await gateway.call<{ data: { bulkId: string } }>('/api/v1/studio/bulk', {
      key,
      body: { items, concurrency: 1 },
    });
    expect(started.status, JSON.stringify(started.body)).toBe(202);
    const at = `/api/v1/studio/bulk/${started.body.data.bulkId}`;
    const read = async () =>
      (await gateway.call<{ data: { status: string; done: boolean; counts: object } }>(at, { key }))
        .body.data;
    // The second item does not fit into the six-hour window.
    await untilHolds(async () => expect(await read()).toMatchObject({ status: 'paused' }));
    await prices.add(caller, { markupPercent: 900 });
    await gateway.operate(
      `/organizations/${organizationId}/window-allowance`,
      { credits: null },
      'PUT',
    );
    expect((await gateway.call(`${at}/resume`, { key, method: 'POST' })).status).toBe(200);
    await until(async () => (await read()).done);
    const charge = { amount: 5_850_000, charged: 5_850_000, charged_by: [row] };
    expect(await readCharges(caller)).toMatchObject([charge, charge]);
  });

  it('changes nothing for the waiting chats of a bulk job', async () => {
    const caller = await gateway.newCaller();
    const { key } = caller;
    const row = await prices.add(caller);
    const items = ['[[slow:900s]] a held bay', 'a cape'].map((content) => ({
      use: 'chat',
      body: { model: 'gpt-4o', messages: [{ role: 'user', content }] },
    }));
    const started = await gateway.call<{ data: { bulkId: string } }>('/api/v1/studio/bulk', {
      key,
      body: { items, concurrency: 1 },
    });
    const at = `/api/v1/studio/bulk/${started.body.data.bulkId}`;
    expect((await gateway.call(`${at}/pause`, { key, method: 'POST' })).status).toBe(200);
    const later = await prices.add(caller, { markupPercent: 900 });
    expect((await gateway.call(`${at}/resume`, { key, method: 'POST' })).status).toBe(200);
    await until(async () => (await gateway.sandbox.chatRequests('a held bay'))[0]);
    await gateway.sandbox.clearFaults();
    await until(async () => {
      const { body } = await gateway.call<{ data: { done: boolean } }>(at, { key });
      return body.data.done;
    });
    const charge = { price_rows: [row], reserved_by: [row], charged_by: [row] };
    expect(await readCharges(caller)).toMatchObject([charge, charge]);
    // A chat that is accepted now has the later price.
    const [, { body } = { body: {} }] = items;
    expect((await gateway.call('/api/v1/chat', { key, body })).status).toBe(200);
    expect((await readCharges(caller)).at(-1)).toMatchObject({ charged_by: [later] });
  });
});
