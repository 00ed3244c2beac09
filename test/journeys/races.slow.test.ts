/**
 * Simultaneous requests over two API processes: a balance or a window for ten jobs pays for ten,
 * and one Idempotency-Key is one job. `FAULTS=all` sends a thousand requests instead of two
 * hundred.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway, type Answer, type TestCaller } from '../harness/gateway.ts';

const racers = process.env['FAULTS'] === 'all' ? 1000 : 200;
const price = 3.9;

/** Limits that no job of a race reaches on a busy machine. */
const env = {
  TEMPORAL_START_WAIT_MS: '60000',
  VERDICT_WAIT_MS: '120000',
  SYNC_WAIT_MS: '200000',
};
let urls: string[];
const gateway = useGateway({ env });
beforeAll(async () => {
  const { port } = await gateway.spawn('api', { ...env, API_PORT: '0' });
  urls = [gateway.url, `http://127.0.0.1:${port}`];
});

interface Posted {
  path?: string;
  body: object;
  headers?: Record<string, string>;
}

/**
 * Sends the requests at once, alternately to the two API processes. A request that a busy process
 * rejects with 503 has started nothing, and is sent again.
 */
function race({ key }: TestCaller, requestOf: (index: number) => Posted): Promise<Answer[]> {
  const post = async (index: number): Promise<Answer> => {
    const { path = '/api/v1/studio/image/generate', body, headers } = requestOf(index);
    const base = urls[index % urls.length] ?? '';
    const answer = await gateway.call(path, { base, key, body, ...(headers && { headers }) });
    if (answer.status !== 503) return answer;
    await sleep(1000);
    return post(index);
  };
  return Promise.all(Array.from({ length: racers }, (_, index) => post(index)));
}

function countByStatus(answers: readonly Answer[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
const submits = (match: string) => gateway.sandbox.submits({ match });

describe(`${racers} parallel jobs over two APIs`, () => {
  it.each([
    ['balance', { credits: price * 10 }, 402, 'INSUFFICIENT_CREDITS'],
    ['window', { credits: 100_000, windowCredits: price * 10 }, 429, 'WINDOW_EXHAUSTED'],
  ])(
    'with a %s for ten start ten jobs, and all others are rejected alike',
    async (limit, options, status, error) => {
      const caller = await gateway.newCaller(options);
      const answers = await race(caller, (index) => ({
        body: { prompt: `a ${limit} hare ${index}` },
      }));
      expect(countByStatus(answers)).toEqual({ 200: 10, [status]: racers - 10 });
      const rejected = answers.filter((answer) => answer.status === status);
      const { resetAt } = rejected[0]?.body ?? {};
      for (const { body } of rejected) expect([body.error, body.resetAt]).toEqual([error, resetAt]);
      expect(await submits(`a ${limit} hare`)).toHaveLength(10);
      const posted = Math.round((options.credits - 10 * price) * 1e6);
      const balance = await gateway.database.balance(caller.organizationId);
      expect(balance).toEqual({ posted, reserved: 0, available: posted });
    },
  );

  it('mixed with chats never spend more than the balance', async () => {
    const credits = price * 10;
    const caller = await gateway.newCaller({ credits });
    const readBalance = () => gateway.database.balance(caller.organizationId);
    const samples: number[] = [];
    const raced = new AbortController();
    const sampling = (async () => {
      while (!raced.signal.aborted) {
        samples.push((await readBalance())?.available ?? 0);
        await sleep(20);
      }
    })();
    const answers = await race(caller, (index) => {
      if (index % 2 === 0) return { body: { prompt: `a mixed hare ${index}` } };
      const messages = [{ role: 'user', content: `say ${index}` }];
      const body = { model: 'gpt-4o', messages, max_tokens: 4000 };
      return { path: '/api/v1/chat/completions', body };
    });
    raced.abort();
    await sampling;
    expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
    const done = (kind: number) =>
      answers.filter(({ status }, index) => index % 2 === kind && status === 200).length;
    const jobs = done(0);
    expect(done(1)).toBeGreaterThan(0);
    expect(Math.min(...samples)).toBeGreaterThanOrEqual(0);
    expect(await submits('a mixed hare')).toHaveLength(jobs);
    const balance = await readBalance();
    expect(balance?.reserved).toBe(0);
    expect(balance?.posted).toBeGreaterThanOrEqual(0);
    expect(balance?.posted).toBeLessThanOrEqual((credits - jobs * price) * 1e6);
  });

  it('with one Idempotency-Key are one job', async () => {
    const caller = await gateway.newCaller({ credits: price * racers });
    const answers = await race(caller, () => ({
      headers: { 'idempotency-key': 'one-hare' },
      body: { prompt: 'a single hare' },
    }));
    const { 200: served, 409: waiting = 0 } = countByStatus(answers);
    expect(served).toBeGreaterThan(0);
    expect((served ?? 0) + waiting).toBe(racers);
    expect(await submits('a single hare')).toHaveLength(1);
    const balance = await gateway.database.balance(caller.organizationId);
    expect(balance?.available).toBeCloseTo(price * (racers - 1) * 1e6, 0);
  });
});
