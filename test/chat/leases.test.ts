/**
 * Leased budgets: an organization that chats a lot pays without a round trip per chat, and yet never
 * more than it has, never twice, and never from credits that somebody else needs.
 */
import { once } from 'node:events';
import { beforeAll, describe, expect, it } from 'vitest';
import { creditsFromMicro } from '../../domain/credits.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';

const leaseTtlMs = 1500;
/** No grace: what is due is swept. */
const atOnce = { graceMs: 0, everyMs: 1000 };
let other: string;

const gateway = useGateway({
  worker: false,
  env: { CHAT_CHECKPOINT_MS: '300', CHAT_LEASE_TTL_MS: String(leaseTtlMs) },
});
beforeAll(async () => {
  other = await spawnApi().then(({ base }) => base);
});

async function spawnApi() {
  const { child, port } = await gateway.spawn('api', { API_PORT: '0', API_WORKER: 'false' });
  return { child, base: `http://127.0.0.1:${port}` };
}

interface Wanted {
  caller: TestCaller;
  content?: string;
  base?: string;
  stream?: boolean;
}

async function chat({ caller, content = 'hello', base, stream = false }: Wanted) {
  const answer = await fetch(`${base ?? gateway.url}/api/v1/chat`, {
    method: 'POST',
    headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'gpt-4o',
      messages: [{ role: 'user', content }],
      max_tokens: 100,
      stream,
    }),
  });
  return { status: answer.status, text: await answer.text() };
}

/** As many chats, so many at once, from both processes where two bases are given. */
async function chats(count: number, wanted: Wanted & { bases?: string[] }): Promise<number[]> {
  const statuses: number[] = [];
  const bases = wanted.bases ?? [wanted.base ?? gateway.url];
  const callers = Array.from({ length: 20 }, async (_, index) => {
    while (statuses.length < count) {
      const place = statuses.push(0) - 1;
      const base = bases[index % bases.length] ?? gateway.url;
      // A caller waits for its answer.
      statuses[place] = (await chat({ ...wanted, base })).status;
    }
  });
  await Promise.all(callers);
  return statuses;
}

interface Sums {
  posted: number;
  leased: number;
  leasedChats: number;
  ownChats: number;
  charged: number;
}

/** What the database holds of an organization, in micro-credits. */
async function sumsOf({ organizationId }: TestCaller): Promise<Sums> {
  const [sums] = await gateway.database.query<Sums>(
    `SELECT a.posted::float8,
      (SELECT coalesce(sum(amount), 0)::float8 FROM reservation r WHERE r.organization_id = $1
        AND kind = 'lease' AND state = 'reserved') AS leased,
      (SELECT count(*)::float8 FROM leased_chat l WHERE l.organization_id = $1) AS "leasedChats",
      (SELECT count(*)::float8 FROM chat_request c WHERE c.organization_id = $1) AS "ownChats",
      (SELECT coalesce(sum(amount), 0)::float8 FROM leased_chat l WHERE l.organization_id = $1
        AND state = 'charged') + (SELECT coalesce(sum(charged), 0)::float8 FROM reservation r
        WHERE r.organization_id = $1) AS charged
     FROM account a WHERE a.organization_id = $1`,
    [organizationId],
  );
  if (!sums) throw new Error('no account');
  return sums;
}

/** Chats until this process, or that of `base`, holds a lease; then goes on until `stop`. */
async function keepBusy(wanted: Wanted): Promise<{ stop: () => Promise<void> }> {
  const stopping = new AbortController();
  const busy = (async () => {
    while (!stopping.signal.aborted) await chats(20, wanted);
  })();
  await expect
    .poll(async () => (await sumsOf(wanted.caller)).leasedChats, { interval: 20 })
    .toBeGreaterThan(0);
  return {
    async stop() {
      stopping.abort();
      await busy;
    },
  };
}

/** What a chat costs whose provider says ten times too much: all that was reserved for it. */
const dear = '[[lying-usage]] [[words:60]] hello';

async function priceOfDear(): Promise<number> {
  const caller = await gateway.newCaller({ credits: 100 });
  expect(await chat({ caller, content: dear })).toMatchObject({ status: 200 });
  await expect.poll(async () => (await sumsOf(caller)).charged).toBeGreaterThan(0);
  return (await sumsOf(caller)).charged;
}

describe('an organization that chats a lot', () => {
  it('pays from a lease, one record per chat, to the last micro-credit', async () => {
    const caller = await gateway.newCaller({ credits: 1000 });
    const statuses = await chats(400, { caller, bases: [gateway.url, other] });
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    await gateway.expectSettled();
    const sums = await sumsOf(caller);
    expect(sums.leasedChats + sums.ownChats).toBe(400);
    expect(sums.leasedChats).toBeGreaterThan(100);
    expect(sums.posted).toBe(1_000_000_000 - sums.charged);
    const usage = await gateway.call<{ records: { creditsConsumed: number; type: string }[] }>(
      '/api/v1/usage?limit=100',
      { key: caller.key },
    );
    expect(usage.status).toBe(200);
    expect(JSON.stringify(usage.body)).not.toContain('lease_');
  });

  it('pays for no more than it has, through two processes, and for all it has', async () => {
    const price = await priceOfDear();
    const caller = await gateway.newCaller({ credits: creditsFromMicro(price * 100) });
    const bases = [gateway.url, other];
    const statuses = await chats(300, { caller, content: dear, bases });
    const paid = statuses.filter((status) => status === 200).length;
    expect(new Set(statuses)).toEqual(new Set([200, 402]));
    expect(paid).toBeLessThanOrEqual(100);
    // What a process could not give back in time is there for the next.
    let late = 0;
    while ((await chat({ caller, content: dear })).status === 200) late += 1;
    expect(paid + late).toBe(100);
    await gateway.expectSettled();
    expect(await sumsOf(caller)).toMatchObject({ posted: 0, charged: price * 100 });
    expect((await sumsOf(caller)).leasedChats).toBeGreaterThan(0);
  });
});

describe('leased credits', () => {
  it('are given back when a Studio job of another process needs them', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    // A chat that runs keeps the lease open, so that only a recall can end what is held ahead.
    const busy = await keepBusy({ caller, base: other });
    const running = chat({
      caller,
      base: other,
      content: '[[words:60]] [[slow-chunks:50ms]]',
      stream: true,
    });
    await busy.stop();
    const { ledger } = gateway.api.services;
    const before = await gateway.database.balance(caller.organizationId);
    expect((await sumsOf(caller)).leased).toBeGreaterThan(0);
    const amountMicro = (before?.available ?? 0) + 1;
    const reserve = { organizationId: caller.organizationId, id: 'job_recall', amountMicro };
    expect(await ledger.reserve({ ...reserve, kind: 'studio', ttlMs: 60_000 })).toMatchObject({
      verdict: 'reserved',
    });
    await ledger.settle({ ...reserve, to: 'released', amountMicro: 0, reason: 'test' });
    expect((await running).text).toContain('[DONE]');
  });

  it('come back from a process that was killed, less what its chats had delivered', async () => {
    const { child, base } = await spawnApi();
    const caller = await gateway.newCaller({ credits: 100 });
    const busy = await keepBusy({ caller, base });
    const running = chat({
      caller,
      base,
      content: '[[words:900]] [[slow-chunks:20ms]]',
      stream: true,
    }).catch(() => null);
    const checkpoint = async () =>
      gateway.database.query<{ id: string; amount: number }>(
        `SELECT id, amount::float8 FROM leased_chat WHERE organization_id = $1
          AND state = 'reserved' AND amount > 0`,
        [caller.organizationId],
      );
    await expect.poll(checkpoint).toHaveLength(1);
    child.kill('SIGKILL');
    await Promise.all([once(child, 'exit'), busy.stop().catch(() => {}), running]);
    const [lost] = await checkpoint();
    const before = await sumsOf(caller);
    expect(before.leased).toBeGreaterThan(0);

    const { chatLedger } = gateway.api.services;
    await expect
      .poll(async () => (await chatLedger.sweep(atOnce)).length, { interval: 200 })
      .toBeGreaterThan(0);
    expect((await sumsOf(caller)).leased).toBe(0);
    const [row] = await gateway.database.query<{ amount: number }>(
      `SELECT state, amount::float8, reason, counted_by FROM leased_chat WHERE id = $1`,
      [lost?.id],
    );
    expect(row).toMatchObject({ state: 'charged', reason: 'CHAT_LOST', counted_by: 'gateway' });
    // What the process had sent before it was killed may have been written after we looked.
    expect(row?.amount).toBeGreaterThanOrEqual(lost?.amount ?? Infinity);
    // Chats outside the lease wait for their own time.
    await gateway.database.query(
      `UPDATE reservation SET expires_at = now() - interval '1 s'
        WHERE organization_id = $1 AND state = 'reserved'`,
      [caller.organizationId],
    );
    await chatLedger.sweep(atOnce);
  });
});
