/** The price book: which row counts, when, and that its history cannot be changed. */
import { expect, it } from 'vitest';
import { priceTokens, priceUnit, type PriceUnit } from '../../domain/book-price.ts';
import { createPriceBook, type PriceBook } from '../../ledger/price-book.ts';
import {
  addPriceRow,
  createPriceReads,
  endPriceRow,
  type NewPriceRow,
} from '../../ledger/price-rows.ts';
import { until } from '../harness/until.ts';
import { newId } from '../../domain/ids.ts';
import { servedBy, useLedger } from './use-ledger.ts';

const ledgers = useLedger();
const config = { USD_PER_CREDIT: 0.01 };
const fresh = (): PriceBook =>
  createPriceBook(ledgers.pool, { ...config, PRICE_CHANGE_DELAY_MS: 0 });

/** Adds a row that is valid as soon as possible, and returns its id once it is valid by the time of each reader. */
async function add(
  row: Partial<NewPriceRow>,
  delayMs = 0,
  readers: readonly PriceBook[] = [fresh()],
): Promise<string> {
  const nothing = { unit: null, unitMicro: null, inputMicro: null, outputMicro: null };
  const added = await addPriceRow(
    ledgers.pool,
    {
      organizationId: null,
      what: '*',
      markup: 'unit' in row || 'inputMicro' in row ? null : 1000,
      ...nothing,
      validFromAtMs: null,
      validUntilAtMs: null,
      ...row,
    },
    delayMs,
  );
  if (!added) throw new Error('the row was not added');
  for (const reader of readers)
    await until(async () => (await reader.at(null)).atMs >= added.validFromAtMs);
  return added.id;
}

it('the most specific valid row counts, and of equal ones the newest', async () => {
  const { organizationId } = await ledgers.newHolder();
  const { organizationId: other } = await ledgers.newHolder();
  const art = { model: 'seedream', use: 'image/generate' };
  const find = async (of: string | null, unit: PriceUnit = 'image', work = art) =>
    (await fresh().at(of)).find(work, unit)?.row ?? null;
  expect(await find(organizationId)).toBeNull();
  const ofAll = await add({});
  expect([await find(organizationId), await find(other), await find(null)]).toEqual([
    ofAll,
    ofAll,
    ofAll,
  ]);
  const use = await add({ what: 'image/generate' });
  expect(await find(other)).toBe(use);
  const model = await add({ what: 'seedream' });
  expect(await find(other)).toBe(model);
  const own = await add({ organizationId });
  expect([await find(organizationId), await find(other)]).toEqual([own, model]);
  const ownUse = await add({ organizationId, what: 'image/generate' });
  const ownModel = await add({ organizationId, what: 'seedream' });
  expect(await find(organizationId)).toBe(ownModel);
  const video = { model: 'seedream', use: 'video/generate' };
  expect(await find(organizationId, 'second', { ...video, model: 'veo' })).toBe(own);
  expect(await find(organizationId, 'image', { ...art, model: 'x' })).toBe(ownUse);
  // A fixed price counts only for its unit.
  const fixed = await add({ organizationId, what: 'seedream', unit: 'second', unitMicro: 7 });
  expect([await find(organizationId), await find(organizationId, 'second')]).toEqual([
    ownModel,
    fixed,
  ]);
  const newest = await add({ organizationId, what: 'seedream', markup: -500 });
  expect([await find(organizationId), await find(organizationId, 'second')]).toEqual([
    newest,
    newest,
  ]);
  expect(
    (
      await createPriceReads(ledgers.pool).list({
        organizationId,
        what: 'seedream',
        isCurrent: true,
        before: undefined,
        limit: 9,
      })
    ).map(({ id }) => id),
  ).toEqual([newest, fixed, ownModel]);
});

it('a price of a past time is the same after later rows and ends, in each process', async () => {
  const { organizationId } = await ledgers.newHolder();
  // This process reads changes only when it must.
  const book = createPriceBook(ledgers.pool, { ...config, PRICE_CHANGE_DELAY_MS: 3_600_000 });
  const first = await add({ organizationId, markup: 1000 });
  const { atMs } = await fresh().at(organizationId);
  const row = async (pastMs: number) =>
    (await book.at(organizationId, pastMs)).find({ model: 'm', use: 'chat' }, 'token')?.row;
  expect(await row(atMs)).toBe(first);
  const second = await add({ organizationId, markup: 5000 });
  const later = await fresh().at(organizationId);
  const ended = await endPriceRow(ledgers.pool, { id: first, untilMs: null }, 0);
  expect(ended?.validUntilAtMs).toBeGreaterThan(later.atMs - 1);
  expect([await row(atMs), await row(later.atMs)]).toEqual([first, second]);
  book.close();
});

it('a change counts only when each process knows it, and then does', async () => {
  const { organizationId } = await ledgers.newHolder();
  const delayMs = 400;
  const books = [0, 1].map(() =>
    createPriceBook(ledgers.pool, { ...config, PRICE_CHANGE_DELAY_MS: delayMs }),
  );
  for (const book of books) expect((await book.at(organizationId)).name).not.toContain('price_x');
  const start = await fresh().at(organizationId);
  const late = { validFromAtMs: Math.floor(start.atMs) + 10 };
  await expect(add({ organizationId, ...late }, delayMs)).rejects.toThrow('not added');
  const id = await add({ organizationId }, delayMs, books);
  for (const book of books) expect((await book.at(organizationId)).name).toContain(id);
  for (const book of books) book.close();
});

it('rows are ended once, and never changed or removed', async () => {
  const id = await add({ what: 'veo' });
  expect(await endPriceRow(ledgers.pool, { id, untilMs: Date.now() - 60_000 }, 0)).toBeNull();
  expect(await endPriceRow(ledgers.pool, { id, untilMs: null }, 0)).toMatchObject({ id });
  await until(
    async () => (await fresh().at(null)).find({ model: 'veo', use: 'x' }, 'image')?.row !== id,
  );
  expect(await endPriceRow(ledgers.pool, { id, untilMs: null }, 0)).toBeNull();
  for (const change of [
    'UPDATE price_row SET markup = 1',
    'DELETE FROM price_row',
    'UPDATE price_row SET valid_until = NULL',
  ])
    await expect(ledgers.query(`${change} WHERE id = '${id}'`)).rejects.toThrow(
      'may only be ended',
    );
});

it('prices are whole micro-credits, rounded up, in the code as in the audit', async () => {
  const id = await add({ what: 'rounded', markup: 3333 });
  const tokens = await add({ what: 'tokens', inputMicro: 250_001, outputMicro: 999_999 });
  const markup = { kind: 'markup', row: id, markup: 3333 } as const;
  const fixed = { kind: 'tokens', row: tokens, inputMicro: 250_001, outputMicro: 999_999 } as const;
  expect([priceUnit(1, markup), priceUnit(0, markup), priceUnit(30_000, null)]).toEqual([
    2, 0, 30_000,
  ]);
  for (const cost of [0, 1, 7, 3900, 123_456_789_012_345]) {
    const usage = { inputTokens: cost, outputTokens: 3 };
    const [audited] = await ledgers.query<{ marked: number; fixed: number }>(
      `SELECT book_price(p, $1, NULL, 0, 0)::float8 AS marked, book_price(t, 0, NULL, $1, 3)::float8 AS fixed
       FROM price_row p, price_row t WHERE p.id = $2 AND t.id = $3`,
      [cost, id, tokens],
    );
    expect(audited).toEqual({
      marked: priceUnit(cost, markup),
      fixed: priceTokens(0, usage, fixed),
    });
  }
});

it.each([
  [
    'charges by another row',
    { priceRows: ['price_b'] },
    'a charge has another price than its reservation',
  ],
  ['charges another amount', { costMicro: 9 }, 'a charge differs from its quantity and its price'],
  [
    'charges by a row that does not exist',
    { costMicro: 10, priceRows: ['price_a'] },
    'a charge differs from its quantity and its price',
  ],
])('the audit finds a chat that %s', async (_, charge, finding) => {
  const { organizationId, keyId } = await ledgers.newHolder();
  const id = newId('chat');
  const amounts = {
    amountMinMicro: 10,
    amountExpectedMicro: 10,
    amountMaxMicro: 10,
    freeDivisor: 1,
  };
  const chat = { keyId, ...servedBy, streamed: false, requestId: 'req_1' };
  const priceRows = 'priceRows' in charge ? ['price_a'] : [];
  await ledgers.chatLedger.reserve({
    id,
    organizationId,
    ttlMs: 60_000,
    ...amounts,
    priceRows,
    chat,
  });
  const counts = { inputTokens: 1, outputTokens: 1, countedBy: 'provider' } as const;
  const settle = {
    organizationId,
    id,
    to: 'charged',
    amountMicro: 10,
    reason: 'test',
    servedBy,
  } as const;
  await ledgers.chatLedger.settle({ ...settle, ...counts, costMicro: 10, ...charge });
  const found = await ledgers.database.audit();
  expect(found.map((row) => row.finding)).toContain(finding);
  // The other tests expect no findings.
  await ledgers.query('UPDATE reservation SET cost = NULL WHERE id = $1', [id]);
  await ledgers.query('ALTER TABLE ledger_entry DISABLE TRIGGER USER');
  await ledgers.query('UPDATE ledger_entry SET price_rows = NULL WHERE reservation_id = $1', [id]);
  await ledgers.query('ALTER TABLE ledger_entry ENABLE TRIGGER USER');
});
