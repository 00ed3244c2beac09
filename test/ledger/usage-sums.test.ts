/** Sums of usage: the same from closed days as from the rows of jobs and chats. */
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { createLedger } from '../../ledger/ledger.ts';
import { findViolations } from '../../ledger/invariants.ts';
import { createUsageSums, type UsageGroup } from '../../ledger/usage-sums.ts';
import { useHistory } from './use-history.ts';

const { database, organizationId, keyIds } = useHistory({ jobs: 400, chats: 600, days: 6 });
const dayMs = 86_400_000;
const sums = () => createUsageSums(database.pool);

const closedDays = async () =>
  (await database.query('SELECT day FROM usage_closed_day WHERE NOT stale')).length;
const violations = async () => (await findViolations(database.url, { scope: 'all' })).findings;

it('the sums of random periods, filters and groups do not change when days are closed, or read again', async () => {
  const queries = fc.sample(
    fc.record({
      groupBy: fc.subarray<UsageGroup>(['day', 'month', 'model', 'key', 'type', 'metadata.team'], {
        minLength: 1,
      }),
      keyId: fc.option(fc.constantFrom(...keyIds), { nil: undefined, freq: 1 }),
      model: fc.option(fc.constantFrom('gpt-5', 'seedream'), { nil: undefined, freq: 1 }),
      type: fc.option(fc.constantFrom('chat', 'image/edit'), { nil: undefined, freq: 1 }),
      status: fc.option(fc.constantFrom('charged', 'released'), { nil: undefined, freq: 1 }),
      metadata: fc.option(fc.constant({ team: 'team-3' }), { nil: undefined, freq: 1 }),
      afterMs: fc.option(fc.integer({ min: Date.now() - 8 * dayMs, max: Date.now() - 3 * dayMs }), {
        nil: undefined,
        freq: 1,
      }),
      beforeMs: fc.option(fc.integer({ min: Date.now() - 2 * dayMs, max: Date.now() }), {
        nil: undefined,
        freq: 1,
      }),
    }),
    40,
  );
  // Periods at midnight UTC include or exclude whole days.
  const midnight = Math.floor(Date.now() / dayMs) * dayMs;
  queries.push({
    keyId: undefined,
    model: undefined,
    type: undefined,
    status: undefined,
    metadata: undefined,
    groupBy: ['day'],
    afterMs: midnight - 4 * dayMs,
    beforeMs: midnight - dayMs,
  });
  const read = () =>
    Promise.all(
      queries.map(async (query) => ({
        rows: await sums().sum(organizationId, { ...query, limit: 10_000 }),
        jobs: await sums().countJobs(organizationId, query),
      })),
    );
  const fromRows = await read();
  expect(fromRows.flatMap(({ rows }) => rows).length).toBeGreaterThan(100);
  expect(await sums().closeDays()).toBeGreaterThanOrEqual(5);
  const closed = await closedDays();
  expect(closed).toBeGreaterThanOrEqual(5);
  expect(await read()).toEqual(fromRows);
  expect(await sums().closeDays()).toBe(0);
  expect(await violations()).toEqual([]);
});

it('booked sums are those of the ledger, day by day, and a day that is over never changes', async () => {
  const booked = (filter: object = {}) =>
    sums().sum(organizationId, { by: 'booked', groupBy: ['day'], limit: 1000, ...filter });
  const ledgerDays = await database.query(`
    SELECT (created_at AT TIME ZONE 'UTC')::date::text AS day, count(*) FILTER (WHERE kind <> 'refund')::integer AS requests,
      -sum(posted_change)::float8 AS micro
    FROM ledger_entry WHERE kind IN ('charge', 'release', 'refund') GROUP BY 1 ORDER BY 1`);
  const shown = await booked();
  expect(
    shown.map(({ keys: [day], requests, creditsMicro: micro }) => ({ day, requests, micro })),
  ).toEqual(ledgerDays);
  // The days were summed up by an earlier test; summed up anew, they are the same.
  await database.query('DELETE FROM booked_account; DELETE FROM booked_day');
  expect(await booked()).toEqual(shown);
  while ((await sums().closeDays()) > 0);
  expect(await booked()).toEqual(shown);
  const [refunded] = await database.query<{ id: string; key: string }>(`
    SELECT id, budget_id AS key FROM reservation WHERE kind = 'studio' AND state = 'charged' ORDER BY id DESC LIMIT 1 OFFSET 100`);
  await createLedger(database.pool).refund({
    organizationId,
    id: refunded?.id ?? '',
    refundId: 'booked',
    actor: 'test',
    reason: 'test',
  });
  const today = new Date().toISOString().slice(0, 10);
  const withoutToday = (rows: typeof shown) => rows.filter(({ keys: [day] }) => day !== today);
  const later = await booked();
  expect(withoutToday(later)).toEqual(withoutToday(shown));
  const net = (rows: typeof shown) => rows.reduce((sum, { creditsMicro }) => sum + creditsMicro, 0);
  const requests = (rows: typeof shown) => rows.reduce((sum, one) => sum + one.requests, 0);
  expect([net(shown) - net(later), requests(later)]).toEqual([3_900_000, requests(shown)]);
  const midnight = Math.floor(Date.now() / dayMs) * dayMs;
  const parts = await Promise.all(
    [
      { beforeMs: midnight - 2 * dayMs },
      { afterMs: midnight - 2 * dayMs, beforeMs: midnight },
      { afterMs: midnight },
    ].map(booked),
  );
  expect(parts.flat()).toEqual(later);
  const keys = await Promise.all(keyIds.map((keyId) => booked({ keyId, status: 'charged' })));
  expect(net(keys.flat())).toBe(net(later));
  expect(await violations()).toEqual([]);
  await database.query(
    'UPDATE booked_day SET net = net + 1 WHERE ctid = (SELECT min(ctid) FROM booked_day)',
  );
  expect(await violations()).toEqual([
    { finding: 'the sums of booked days differ from the ledger entries', subject: organizationId },
  ]);
  await database.query(
    'UPDATE booked_day SET net = net - 1 WHERE ctid = (SELECT max(ctid) FROM booked_day)',
  );
  while ((await sums().closeDays()) > 0);
  expect(await violations()).toEqual([]);
});

it('a refund changes the sum of its day at once, and the day is summed up again', async () => {
  const [job] = await database.query<{ id: string; day: string }>(`
    SELECT id, (created_at AT TIME ZONE 'UTC')::date::text AS day FROM reservation
    WHERE kind = 'studio' AND state = 'charged' ORDER BY id LIMIT 1`);
  const spent = async () =>
    (await sums().sum(organizationId, { groupBy: ['day'], limit: 100 })).find(
      ({ keys }) => keys[0] === job?.day,
    )?.creditsMicro ?? 0;
  const before = await spent();
  const closed = await closedDays();
  const refund = {
    organizationId,
    id: job?.id ?? '',
    refundId: 'one',
    actor: 'test',
    reason: 'test',
  };
  expect(await createLedger(database.pool).refund(refund)).toMatchObject({ amount: 3_900_000 });
  expect(await closedDays()).toBe(closed - 1);
  expect(await spent()).toBe(before - 3_900_000);
  expect(await sums().closeDays()).toBe(1);
  expect(await spent()).toBe(before - 3_900_000);
  expect(await violations()).toEqual([]);
});

it('a day with an open reservation is not closed, and one with ever different metadata has sums without it', async () => {
  const [day] = await database.query<{ day: string }>(
    'SELECT day::text FROM usage_closed_day ORDER BY day LIMIT 1 OFFSET 1',
  );
  const close = async (rowsMax: number) =>
    (
      await database.query<{ closed: boolean }>(`SELECT close_usage_day($1, $2, $3) AS closed`, [
        organizationId,
        day?.day,
        rowsMax,
      ])
    )[0]?.closed;
  const byTeam = { groupBy: ['metadata.team', 'day'] as const, limit: 1000 };
  const before = await sums().sum(organizationId, byTeam);
  expect(await close(10)).toBe(true);
  expect(
    await database.query(`SELECT FROM usage_day WHERE day = $1 AND metadata IS NOT NULL`, [
      day?.day,
    ]),
  ).toEqual([]);
  expect(await sums().sum(organizationId, byTeam)).toEqual(before);
  expect(await violations()).toEqual([]);
  await database.query(
    `UPDATE reservation SET state = 'reserved', settled_at = NULL, charged = NULL WHERE id =
      (SELECT id FROM reservation WHERE (created_at AT TIME ZONE 'UTC')::date = $1 LIMIT 1)`,
    [day?.day],
  );
  expect(await close(1000)).toBe(false);
});

it('the audit of all rows finds a changed sum', async () => {
  await database.query(
    'UPDATE usage_day SET net = net + 1 WHERE NOT EXISTS (SELECT FROM usage_closed_day c WHERE c.day = usage_day.day AND stale)',
  );
  expect(await violations()).toContainEqual(
    expect.objectContaining({ finding: 'the sums of a closed day differ from its jobs and chats' }),
  );
});
