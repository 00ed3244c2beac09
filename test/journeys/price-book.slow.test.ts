/** Prices of the price book: the same in estimate, reservation and charge, whatever way a request takes. */
import { describe, expect, it } from 'vitest';
import { creditsFromMicro } from '../../domain/credits.ts';
import { useGateway } from '../harness/gateway.ts';
import { untilAllSettled } from '../chat/chat-account.ts';
import { createPriceCalls, readsPrices } from './price-calls.ts';

const gateway = useGateway({ env: readsPrices, settled: 'last' });

const prices = createPriceCalls(gateway);
const { readCharges } = prices;
const marked = (micro: number): number => Math.ceil((micro * 150) / 100);

const messages = [{ role: 'user', content: 'What lights a bay?' }];
const chat = { model: 'gpt-5-mini', messages, max_tokens: 50 };
const doors = [
  { name: 'chat', path: '/api/v1/chat', body: chat },
  { name: 'a stream', path: '/api/v1/chat', body: { ...chat, stream: true } },
  { name: 'a chat job', path: '/api/v1/chat', body: { ...chat, async: true } },
  { name: 'completions', path: '/api/v1/chat/completions', body: chat },
  { name: 'a fallback', path: '/api/v1/chat/completions', body: { ...chat, models: ['gpt-4o'] } },
  { name: 'messages', path: '/api/v1/messages', body: { ...chat, model: 'claude-sonnet-5' } },
  { name: 'a response', path: '/api/v1/responses', body: { model: 'gpt-5-mini', input: 'a bay' } },
  {
    name: 'a background response',
    path: '/api/v1/responses',
    body: { model: 'gpt-5-mini', input: 'a bay', background: true },
  },
  {
    name: 'embeddings',
    path: '/api/v1/embeddings',
    body: { model: 'text-embedding-3-small', input: 'a bay' },
  },
];

describe.each(doors)('$name', ({ path, body }) => {
  it('costs a caller’s own price, and names its row', async () => {
    const caller = await gateway.newCaller();
    const row = await prices.add(caller);
    const sent = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await sent.text();
    expect(sent.ok, text).toBe(true);
    await untilAllSettled(gateway, caller);
    const [charge] = await readCharges(caller);
    expect(charge).toMatchObject({ price_rows: [row], reserved_by: [row], charged_by: [row] });
    expect(charge?.['cost']).toBeGreaterThan(0);
    expect(charge?.['charged']).toBe(marked(Number(charge?.['cost'])));
    const { body: usage } = await gateway.call<{ usage: object[] }>('/api/v1/usage', {
      key: caller.key,
    });
    expect(usage.usage).toMatchObject([
      { credits: creditsFromMicro(Number(charge?.['charged'])), priceRows: [row] },
    ]);
  });
});

it('a chat with fixed prices of tokens costs them, in the estimate too', async () => {
  const caller = await gateway.newCaller({ credits: 1000 });
  await prices.add(caller, {
    what: 'chat',
    inputCreditsPerMillion: 10_000,
    outputCreditsPerMillion: 500_000,
  });
  const { key } = caller;
  const estimate = await gateway.call<{ data: { credits: number; items: object[] } }>(
    '/api/v1/chat/estimate',
    { key, body: chat },
  );
  expect(estimate.body.data.items[1]).toEqual({ unit: 'output token', quantity: 50, credits: 25 });
  await gateway.send('/api/v1/chat', { key, body: chat });
  const [row] = await untilAllSettled(gateway, caller);
  expect(row?.charged).toBe(
    (row?.input_tokens ?? 0) * 10_000 + (row?.output_tokens ?? 0) * 500_000,
  );
  expect(row?.amount).toBe(estimate.body.data.credits * 1e6);
});

it('a picture with a fixed price costs it, and both lists show it', async () => {
  const caller = await gateway.newCaller();
  const { key } = caller;
  const row = await prices.add(caller, {
    what: 'image/generate',
    unit: 'image',
    creditsPerUnit: 5.5,
  });
  const body = { prompt: 'a bay', numImages: 2 };
  const estimate = await gateway.call<{ data: { credits: number } }>(
    '/api/v1/studio/image/generate/estimate',
    { key, body },
  );
  expect(estimate.body.data.credits).toBe(11);
  const made = await gateway.call('/api/v1/studio/image/generate', { key, body });
  expect(made.body.credits).toMatchObject({ used: 11, cost: 11 });
  expect(await readCharges(caller)).toMatchObject([
    {
      charged: 11_000_000,
      cost: 7_800_000,
      price_rows: [row],
      reserved_by: [row],
      charged_by: [row],
    },
  ]);
  const listed = await gateway.call<{ data: { models: { price: object[]; example: object }[] }[] }>(
    '/api/v1/studio/models?type=imageGenerate&model=nano-banana',
    { key },
  );
  expect(listed.body.data[0]?.models[0]?.price[0]).toMatchObject({
    pixels: null,
    rows: [{ when: {}, credits: 5.5 }],
  });
  expect(listed.body.data[0]?.models[0]?.example).toMatchObject({ credits: 11 });
  await prices.add(caller, { what: 'gpt-4o', markupPercent: 100 });
  const models = await gateway.call<{ id: string; models: { id: string; cost: object }[] }>(
    '/api/v1/models',
    { key },
  );
  const cost = (of: typeof models) => of.body.models.find(({ id }) => id === 'gpt-4o')?.cost;
  expect(cost(models)).toMatchObject({ input: 5, output: 20 });
  const { body: one } = await gateway.call<{ pricing: object }>('/api/v1/models/gpt-4o', { key });
  expect(one.pricing).toMatchObject({ prompt: '0.000005', completion: '0.00002' });
  const other = await gateway.call<(typeof models)['body']>('/api/v1/models');
  expect(cost(other)).toMatchObject({ input: 2.5, output: 10 });
});

it('operators see the margin by organization and model, and each change of a price', async () => {
  const caller = await gateway.newCaller();
  const { organizationId, key } = caller;
  const row = await prices.add(caller, { what: 'seedream', markupPercent: -10 });
  const body = { prompt: 'a bay', model: 'seedream' };
  expect((await gateway.call('/api/v1/studio/image/generate', { key, body })).status).toBe(200);
  const [charge] = await readCharges(caller);
  const cost = Number(charge?.['cost']);
  const day = (offset: number) =>
    new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
  const query = new URLSearchParams({
    groupBy: 'organization,model',
    organizationId,
    after: day(-1),
    before: day(2),
  });
  const margin = await gateway.admin<{ data: object[] }>(`/margin?${query.toString()}`);
  expect(margin.body.data).toEqual([
    {
      organizationId,
      model: 'seedream',
      requests: 1,
      charged: creditsFromMicro(Math.ceil(cost * 0.9)),
      cost: creditsFromMicro(cost),
      margin: creditsFromMicro(Math.ceil(cost * 0.9) - cost),
    },
  ]);
  const ended = await gateway.admin<{ data: { validUntil: string } }>(`/prices/${row}/end`, {});
  expect(Date.parse(ended.body.data.validUntil)).toBeGreaterThan(0);
  const { body: actions } = await gateway.admin<{ data: { action: string; subject: string }[] }>(
    `/actions?organizationId=${organizationId}`,
  );
  expect(actions.data.map(({ action, subject }) => [action, subject])).toEqual([
    ['price.ended', row],
    ['price.added', row],
  ]);
  const { body: rows } = await gateway.admin<{ data: object[] }>(
    `/prices?organizationId=${organizationId}&ended=true`,
  );
  expect(rows.data).toMatchObject([{ id: row, what: 'seedream', markupPercent: -10, unit: null }]);
});

it.each([
  ['an unknown name', { what: 'gpt-999', markupPercent: 1 }, 'what'],
  ['no price', { what: '*' }, 'markupPercent'],
  [
    'two prices',
    { what: 'chat', markupPercent: 1, inputCreditsPerMillion: 1, outputCreditsPerMillion: 1 },
    'markupPercent',
  ],
  ['half a price', { what: 'chat', inputCreditsPerMillion: 1 }, 'markupPercent'],
  ['a unit of a chat', { what: 'chat', unit: 'image', creditsPerUnit: 1 }, 'unit'],
  [
    'tokens of a picture',
    { what: 'seedream', inputCreditsPerMillion: 1, outputCreditsPerMillion: 1 },
    'inputCreditsPerMillion',
  ],
  ['a past start', { what: '*', markupPercent: 1, validFrom: '2020-01-01T00:00:00Z' }, 'validFrom'],
  ['a third decimal', { what: '*', markupPercent: 0.001 }, 'markupPercent'],
])('a row with %s is rejected', async (_, row, path) => {
  const { organizationId } = gateway.caller;
  const { status, body } = await gateway.admin('/prices', { organizationId, ...row });
  expect([status, body.details?.[0]?.path]).toEqual([400, path]);
});
