/**
 * One organization uses as much of a shared resource as it can: database and provider connections,
 * input copies, parser slots and event streams. Meanwhile another organization's requests take
 * their usual time.
 */
import { once } from 'node:events';
import { request as openRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { discPicture } from '../harness/media.ts';

const gateway = useGateway({ settled: 'last', env: { CHAT_CONNECTIONS_MAX: '8' } });
let busy: TestCaller;
let other: TestCaller;
beforeAll(async () => {
  [busy, other] = [
    await gateway.newCaller({ credits: 1000 }),
    await gateway.newCaller({ credits: 1000 }),
  ];
  await chatAndUsage();
});

const chat = (caller: TestCaller, content: string) =>
  gateway.call('/api/v1/chat', {
    key: caller.key,
    body: { model: 'gpt-4o', messages: [{ role: 'user', content }], max_tokens: 20 },
  });

const times = <Result>(count: number, run: (index: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, index) => run(index)));

/**
 * Runs a chat and a read of the usage of the other organization; returns the time they took
 * together.
 */
async function chatAndUsage(): Promise<number> {
  const startedAt = performance.now();
  const answers = await Promise.all([
    chat(other, 'hi'),
    gateway.call('/api/v1/usage', { key: other.key }),
  ]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  return performance.now() - startedAt;
}

describe('another organization is served at its usual speed during', () => {
  it('slow queries', async () => {
    const usualMs = await chatAndUsage();
    // Only lists that are filtered by tags read this table.
    await gateway.database.query('BEGIN');
    await gateway.database.query('LOCK TABLE tag IN ACCESS EXCLUSIVE MODE');
    const slow = times(40, () =>
      gateway.call('/api/v1/usage?metadata[team]=none', { key: busy.key }),
    );
    await sleep(300);
    const tookMs = await chatAndUsage().finally(() => void gateway.database.query('ROLLBACK'));
    expect(tookMs).toBeLessThan(10 * usualMs + 500);
    expect((await slow).map(({ status }) => status)).toEqual(Array(40).fill(200));
  });

  it('running chats with the same provider, limited to half of its slots per organization', async () => {
    const usualMs = await chatAndUsage();
    const slow = times(12, () => chat(busy, '[[slow:2s]] a long one'));
    await sleep(500);
    expect(await chatAndUsage()).toBeLessThan(10 * usualMs + 500);
    const answers = await slow;
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(4);
    const rejected = answers.filter(({ status }) => status === 429);
    expect(rejected).toHaveLength(8);
    expect(rejected[0]?.headers.get('retry-after')).toBe('2');
    expect(rejected[0]?.body).toMatchObject({
      error: 'Rate limit exceeded. Please slow down.',
      message: expect.stringContaining('too many running chats with the provider'),
    });
    // All connections are free again.
    expect((await times(4, () => chat(busy, 'hi'))).map(({ status }) => status)).toEqual(
      Array(4).fill(200),
    );
  });

  it('input downloads that stall, from several organizations', async () => {
    const upscale = (caller: TestCaller, imageUrl: string) =>
      gateway.call('/api/v1/studio/image/upscale/estimate', {
        key: caller.key,
        body: { imageUrl },
      });
    const picture = gateway.media.put('/picture.png', await discPicture(64, 64));
    const silent: ServerResponse[] = [];
    const stalled = Array.from({ length: 24 }, (_, at) =>
      gateway.media.serve(`/silent-${at}`, (response) => silent.push(response)),
    );
    expect((await upscale(other, picture)).status).toBe(200);
    const callers = await times(4, () => gateway.newCaller({ credits: 10 }));
    const waiting = callers.flatMap((caller) => stalled.map((url) => upscale(caller, url)));
    await sleep(500);
    const startedAt = performance.now();
    expect((await upscale(other, picture)).status).toBe(200);
    expect(performance.now() - startedAt).toBeLessThan(5000);
    const ending = setInterval(() => {
      for (const response of silent.splice(0)) response.destroy();
    }, 50);
    await Promise.all(waiting);
    clearInterval(ending);
  });

  it('large bodies, whose parsing alternates between organizations', async () => {
    const body = Buffer.from(JSON.stringify({ zz: Array(2000).fill('x'.repeat(400)) }));
    const ended: TestCaller[] = [];
    /**
     * Sends a body without its last byte; the returned function sends the rest, and resolves with
     * the status.
     */
    const begin = async (caller: TestCaller) => {
      const client = openRequest(`${gateway.url}/api/v1/chat`, {
        method: 'POST',
        agent: false,
        headers: {
          authorization: `Bearer ${caller.key}`,
          'content-type': 'application/json',
          'content-length': String(body.length),
        },
      });
      await new Promise<void>((resolve) => client.write(body.subarray(0, -1), () => resolve()));
      return async (): Promise<void> => {
        client.end(body.subarray(-1));
        const [response] = (await once(client, 'response')) as [IncomingMessage];
        response.resume();
        expect(response.statusCode).toBe(400);
        ended.push(caller);
      };
    };
    const ends = await times(60, () => begin(busy));
    const last = await begin(other);
    await sleep(500);
    const statuses = ends.map((end) => end());
    await Promise.all([...statuses, last()]);
    expect(ended.indexOf(other)).toBeLessThan(15);
  });
});

describe('a stream of job events', () => {
  it('continues when the jobs of another organization cannot be read', async () => {
    const follow = async (caller: TestCaller) => {
      const started = await gateway.call('/api/v1/studio/image/generate', {
        key: caller.key,
        body: { prompt: '[[slow:20s]] a boat', async: true },
      });
      const { jobId } = started.body.data;
      const stream = await fetch(`${gateway.url}/api/v1/studio/jobs/events`, {
        headers: { authorization: `Bearer ${caller.key}` },
      });
      const state = { caller, jobId, ended: false };
      void stream.text().then(() => (state.ended = true));
      return state;
    };
    const [broken, whole] = [await follow(busy), await follow(other)];
    await gateway.database.query(`UPDATE job SET request = '"no object"' WHERE id = $1`, [
      broken.jobId,
    ]);
    await expect.poll(() => broken.ended, { timeout: 5000 }).toBe(true);
    await sleep(1500);
    expect(whole.ended).toBe(false);
    await gateway.database.query(`UPDATE job SET request = '{}' WHERE id = $1`, [broken.jobId]);
    for (const { caller, jobId } of [broken, whole]) {
      const cancel = `/api/v1/studio/jobs/${jobId}/cancel`;
      await gateway.call(cancel, { method: 'POST', key: caller.key });
    }
  });
});

describe('a chat provider whose connections are all in use', () => {
  it('rejects the chats of another organization with 503 until one is free', async () => {
    const callers = await times(4, () => gateway.newCaller({ credits: 1000 }));
    const running: Promise<{ status: number }[]>[] = [];
    // The organizations take 4, 2, 1 and 1 of the 8 connections.
    for (const [index, caller] of callers.entries()) {
      running.push(times([4, 2, 1, 1][index] ?? 0, () => chat(caller, '[[slow:3s]] a long one')));
      await sleep(100);
    }
    const rejected = await chat(other, 'hi');
    expect(rejected.status).toBe(503);
    expect(rejected.headers.get('retry-after')).toBe('2');
    expect(rejected.body).toMatchObject({ error: 'SERVICE_UNAVAILABLE' });
    const statuses = (await Promise.all(running)).flat().map(({ status }) => status);
    expect(statuses).toEqual(Array(8).fill(200));
  });
});
