/**
 * Simultaneous requests over two API processes: a balance or a window for ten jobs pays for ten,
 * and one Idempotency-Key is one job. `FAULTS=all` sends a thousand requests instead of two
 * hundred.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway, type Answer, type TestCaller } from '../harness/gateway.ts';

/** Timeout of a test; a thousand workflows take long on a busy machine. */
const raceTimeoutMs = 240_000;
const racers = process.env['FAULTS'] === 'all' ? 1000 : 200;
const price = 3.9;
const path = '/api/v1/studio/image/generate';

let urls: string[];
const gateway = useGateway();
beforeAll(async () => {
  const { port } = await gateway.spawn('api', { API_PORT: '0' });
  urls = [gateway.url, `http://127.0.0.1:${port}`];
});

interface Posted {
  caller: TestCaller;
  path: string;
  body: object;
  headers?: Record<string, string>;
}

/** Sends one request, alternately to the two API processes. */
async function post(index: number, request: Posted): Promise<Answer> {
  const answer = await fetch(`${urls[index % urls.length]}${request.path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${request.caller.key}`,
      'content-type': 'application/json',
      ...request.headers,
    },
    body: JSON.stringify(request.body),
  });
  return {
    status: answer.status,
    headers: answer.headers,
    body: (await answer.json()) as Answer['body'],
  };
}

const race = (request: (index: number) => Posted): Promise<Answer[]> =>
  Promise.all(Array.from({ length: racers }, (_, index) => post(index, request(index))));

function countByStatus(answers: readonly Answer[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

const balanceOf = async ({ organizationId }: TestCaller) =>
  gateway.database.balance(organizationId);

describe(`${racers} parallel jobs over two APIs`, () => {
  it(
    'with a balance for ten start ten jobs, and the others return 402',
    async () => {
      const caller = await gateway.newCaller({ credits: price * 10 });
      const answers = await race((index) => ({
        caller,
        path,
        body: { prompt: `a racing hare ${index}` },
      }));
      expect(countByStatus(answers)).toEqual({ 200: 10, 402: racers - 10 });
      const refused = answers.filter(({ status }) => status === 402);
      expect(new Set(refused.map(({ body }) => body.error))).toEqual(
        new Set(['INSUFFICIENT_CREDITS']),
      );
      expect(await balanceOf(caller)).toEqual({ posted: 0, reserved: 0, available: 0 });
      expect(await gateway.sandbox.submits({ match: 'a racing hare' })).toHaveLength(10);
    },
    raceTimeoutMs,
  );

  it(
    'in a window for ten start ten jobs, and the others return the reset time',
    async () => {
      const caller = await gateway.newCaller({ credits: 100_000, windowCredits: price * 10 });
      const answers = await race((index) => ({
        caller,
        path,
        body: { prompt: `a racing tortoise ${index}` },
      }));
      expect(countByStatus(answers)).toEqual({ 200: 10, 429: racers - 10 });
      const refused = answers.filter(({ status }) => status === 429);
      expect(new Set(refused.map(({ body }) => body.error))).toEqual(new Set(['WINDOW_EXHAUSTED']));
      expect(new Set(refused.map(({ body }) => body.resetAt)).size).toBe(1);
      expect(await gateway.sandbox.submits({ match: 'a racing tortoise' })).toHaveLength(10);
    },
    raceTimeoutMs,
  );

  it(
    'mixed with chats never spend more than the balance',
    async () => {
      const credits = price * 10;
      const caller = await gateway.newCaller({ credits });
      const samples: number[] = [];
      const raced = new AbortController();
      const sampling = (async () => {
        while (!raced.signal.aborted) {
          const balance = await balanceOf(caller);
          samples.push((balance?.posted ?? 0) - (balance?.reserved ?? 0));
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      })();
      const answers = await race((index) =>
        index % 2 === 0
          ? { caller, path, body: { prompt: `a mixed hare ${index}` } }
          : {
              caller,
              path: '/api/v1/chat/completions',
              body: {
                model: 'gpt-4o',
                messages: [{ role: 'user', content: `say ${index}` }],
                max_tokens: 4000,
              },
            },
      );
      raced.abort();
      await sampling;
      expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
      const chats = answers.filter(({ status }, index) => index % 2 === 1 && status === 200);
      expect(chats.length).toBeGreaterThan(0);
      expect(Math.min(...samples)).toBeGreaterThanOrEqual(0);
      const jobs = answers.filter(({ status }, index) => index % 2 === 0 && status === 200).length;
      const submits = await gateway.sandbox.submits({ match: 'a mixed hare' });
      expect(submits).toHaveLength(jobs);
      const balance = await balanceOf(caller);
      expect(balance?.reserved).toBe(0);
      expect(balance?.posted).toBeGreaterThanOrEqual(0);
      expect(balance?.posted).toBeLessThanOrEqual((credits - jobs * price) * 1e6);
    },
    raceTimeoutMs,
  );

  it(
    'with one Idempotency-Key are one job',
    async () => {
      const caller = await gateway.newCaller({ credits: price * racers });
      const answers = await race(() => ({
        caller,
        path,
        headers: { 'idempotency-key': 'one-hare' },
        body: { prompt: 'a single hare' },
      }));
      const statuses = countByStatus(answers);
      expect(Object.keys(statuses).filter((status) => !['200', '409'].includes(status))).toEqual(
        [],
      );
      expect(statuses[200]).toBeGreaterThan(0);
      expect(await gateway.sandbox.submits({ match: 'a single hare' })).toHaveLength(1);
      const balance = await balanceOf(caller);
      expect(balance?.available).toBeCloseTo(price * (racers - 1) * 1e6, 0);
    },
    raceTimeoutMs,
  );
});
