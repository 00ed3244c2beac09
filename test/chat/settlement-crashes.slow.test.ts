/** Settlement of chats whatever happens to the account meanwhile, and after a crash. */
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { isWhole } from '../harness/whole.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { until } from '../harness/until.ts';
import { readChats, untilSettled, untilAllSettled } from './chat-account.ts';
import { onePixelUrl, say } from './chat-clients.ts';
import { deltasIn, openChat, postChat } from './raw-chat.ts';

const gateway = useGateway({ settled: 'last' });

it('a chat is charged what it delivered and what it tells, whatever a second client does to its account', async () => {
  const caller = await gateway.newCaller({ credits: 400 });
  const keys = await Promise.all(Array.from({ length: 4 }, () => gateway.newKey({}, caller.key)));
  const pick = <Item>(items: readonly Item[]): Item =>
    items[Math.floor(Math.random() * items.length)] as Item;
  const told = new Map<string, { credits: number; words: number }>();
  const statuses = new Map<number, number>();

  async function chat(): Promise<void> {
    const stream = Math.random() < 0.6;
    const length = Math.ceil(Math.random() ** 3 * 4000);
    const isPicture = Math.random() < 0.2;
    const text = `[[words:${length}]] [[slow-chunks:1ms]] ${isPicture ? '[[counted-input:40000]]' : ''}`;
    const image = { type: 'image_url', image_url: { url: onePixelUrl } };
    const parts = [{ type: 'text', text }, ...(isPicture ? [image] : [])];
    const body = {
      model: pick(['gpt-4o', 'claude-sonnet-5', 'claude-opus-5']),
      messages: [{ role: 'user', content: parts }],
      stream,
      ...(Math.random() < 0.5 && { max_tokens: pick([10, 500, 5000]) }),
    };
    const response = await postChat(gateway, pick(keys), { body });
    const answer = await response.text();
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
    if (response.status !== 200) return;
    const [, id = ''] = /"id":"(chat_\w+)"/.exec(answer) ?? [];
    const credits = Number(/"creditsConsumed":([\d.e-]+)/.exec(answer)?.[1]);
    const contents = answer.matchAll(/"(?:delta|content)":"([^"]*)"/g);
    const characters = [...contents].reduce((sum, [, content = '']) => sum + content.length, 0);
    // The provider sends words of five characters, and counts each as a token.
    told.set(id, { credits, words: characters / 5 });
  }

  const ended = new AbortController();
  /** Acts on the account at random, with another key of the same user. */
  async function disturb(): Promise<void> {
    const jobs: string[] = [];
    const { key } = caller;
    while (!ended.signal.aborted) {
      const index = Math.floor(Math.random() * keys.length);
      const { keyId = '' } = keys[index] ?? {};
      const action = Math.floor(Math.random() * 6);
      const call = (path: string, method: string, body?: object) =>
        gateway.call<{ keyId: string; key: string }>(`/api/v1/api-keys${path}`, {
          key,
          method,
          body,
        });
      if (action <= 1) {
        const limit = pick([null, { credits: 0, per: 'day' }, { credits: 5, per: 'total' }]);
        await call(`/${keyId}/limit`, 'PUT', { limit });
      } else if (action === 2) {
        const rotated = await call(`/${keyId}/rotate`, 'POST', { overlapSeconds: 0 });
        expect(rotated.status).toBe(200);
        keys[index] = rotated.body;
      } else if (action === 3) {
        await call(`/${keyId}`, 'DELETE');
        keys[index] = await gateway.newKey({}, key);
      } else if (action === 4) {
        const started = await gateway.call('/api/v1/studio/image/generate', {
          key,
          body: { prompt: '[[slow:900s]] parked', numImages: 4, async: true },
        });
        if (started.status === 202) jobs.push(started.body.data.jobId);
      } else await Promise.all(jobs.splice(0).map((id) => gateway.cancel(id, key)));
    }
    await Promise.all(jobs.map((id) => gateway.cancel(id, key)));
    await Promise.all(jobs.map((id) => gateway.untilDone(id, key)));
  }

  const disturbing = disturb();
  const chats = isWhole ? 200 : 60;
  await Promise.all(
    Array.from({ length: 6 }, async () => {
      for (let count = 0; count < chats / 6; count += 1) await chat();
    }),
  );
  ended.abort();
  await disturbing;
  expect([...statuses.keys()].filter((status) => ![200, 401, 402].includes(status))).toEqual([]);
  expect(told.size).toBeGreaterThan(chats / 6);
  const rows = await untilAllSettled(gateway, caller);
  const answered = rows.filter(({ id }) => told.has(id));
  expect(answered).toHaveLength(told.size);
  const prices: Record<string, { input: number; output: number }> = {
    'gpt-4o': { input: 250, output: 1000 },
    'claude-sonnet-5': { input: 200, output: 1000 },
    'claude-opus-5': { input: 500, output: 2500 },
  };
  for (const row of rows) {
    const price = prices[row.model] ?? { input: NaN, output: NaN };
    const worth = row.input_tokens * price.input + row.output_tokens * price.output;
    expect(row.charged).toBe(row.state === 'charged' ? worth : 0);
  }
  for (const { id, charged, output_tokens } of answered) {
    expect({ id, credits: charged / 1e6, words: output_tokens }).toEqual({ id, ...told.get(id) });
  }
  await gateway.expectSettled();
  const [sums] = await gateway.database.query<{ deltas: number; posted: number }>(
    `SELECT sum(e.posted_change)::float8 AS deltas, min(a.posted)::float8 AS posted
     FROM ledger_entry e JOIN account a USING (organization_id) WHERE organization_id = $1`,
    [caller.organizationId],
  );
  expect(sums?.deltas).toBe(sums?.posted);
});

it('a killed process loses at most the tokens since the last checkpoint of each stream', async () => {
  const { child, port } = await gateway.spawn('api', {
    API_PORT: '0',
    CHAT_RESERVATION_TTL_MS: '12000',
  });
  const base = `http://127.0.0.1:${port}`;
  const caller = await gateway.newCaller({ credits: 100 });
  const silent = await gateway.newCaller({ credits: 100 });
  const leaver = await gateway.newCaller({ credits: 100 });
  // The input of a whole answer whose caller has left is recorded at once.
  const body = { model: 'gpt-4o', messages: say('[[slow:60s]]') };
  const counters = () => gateway.sandbox.counters();
  const { chatCalls: calls = 0 } = await counters();
  const leaving = new AbortController();
  const left = { base, body, signal: leaving.signal };
  void postChat(gateway, leaver, left).catch(() => null);
  await expect.poll(async () => (await counters())['chatCalls']).toBeGreaterThan(calls);
  leaving.abort();
  await until(async () => (await readChats(gateway, leaver))[0]?.checkpoint_micro);
  const streams = await Promise.all(
    Array.from({ length: 6 }, () =>
      openChat(base, { caller, content: '[[words:600]] [[slow-chunks:50ms]] count' }),
    ),
  );
  const waiting = postChat(gateway, silent, { base, body }).catch(() => null);
  let delivered = 0;
  const reading = Promise.allSettled(
    streams.map(async ({ answer }) => {
      for await (const chunk of answer) delivered += deltasIn(String(chunk));
    }),
  );
  // A stream has its first checkpoint one second after its first token.
  await expect.poll(() => delivered).toBeGreaterThan(6 * 25);
  await until(async () =>
    (await readChats(gateway, caller)).every((row) => row.checkpoint_micro > 0),
  );
  expect(delivered).toBeLessThan(6 * 500);
  child.kill('SIGKILL');
  await once(child, 'exit');
  await Promise.all([reading, waiting]);
  const lost = await readChats(gateway, caller);
  const sweep = async () =>
    (await sweepOnce(gateway, { CHAT_RESERVATION_TTL_MS: 0, SWEEP_INTERVAL_MS: 1000 })).chats;
  // The reservations have not expired yet. Of two sweeps at once, one settles each chat.
  expect(await sweep()).toBe(0);
  let swept = 0;
  await expect
    .poll(async () => {
      for (const chats of await Promise.all([sweep(), sweep()])) swept += chats;
      return swept;
    })
    .toBe(8);
  expect(await untilSettled(gateway, silent)).toMatchObject({ state: 'released', charged: 0 });
  const abandoned = await untilSettled(gateway, leaver);
  expect(abandoned).toMatchObject({ state: 'charged', output_tokens: 0 });
  expect(abandoned.charged).toBe(abandoned.input_tokens * 250);
  const rows = await untilAllSettled(gateway, caller);
  const lostBy = { state: 'charged', reason: 'CHAT_LOST', counted_by: 'gateway' };
  expect(rows).toMatchObject(lost.map((row) => ({ ...lostBy, charged: row.checkpoint_micro })));
  // A stream delivers twenty words of five characters in the second before its checkpoint. On a
  // busy machine it may deliver fewer, so only a quarter of the sum is required.
  const tokens = rows.reduce((sum, row) => sum + row.output_tokens, 0);
  expect(tokens).toBeGreaterThan((6 * 20) / 4);
  // At most what was delivered, and what each stream sent in another second.
  expect(tokens).toBeLessThanOrEqual((delivered + 6 * 25) * 1.25);
});
