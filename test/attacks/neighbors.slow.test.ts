/**
 * One organization uses as much of a shared resource as it can: database and provider connections,
 * input copies, parser slots and event streams. Meanwhile another organization's requests take
 * their usual time.
 */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../dev/stack/free-port.ts';
import { say } from '../chat/chat-clients.ts';
import { useGateway, type Answer, type TestCaller } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import { openRequest } from '../harness/raw-requests.ts';
import { until } from '../harness/until.ts';

const gateway = useGateway({ settled: 'last', env: { CHAT_CONNECTIONS_MAX: '8' } });
let busy: TestCaller;
let other: TestCaller;
beforeAll(async () => {
  busy = await gateway.newCaller({ credits: 1000 });
  other = await gateway.newCaller({ credits: 1000 });
  await measureOther();
});

const chat = (caller: TestCaller, content: string) =>
  gateway.call('/api/v1/chat', {
    key: caller.key,
    body: { model: 'gpt-4o', messages: say(content), max_tokens: 20 },
  });

const toStatuses = (answers: { status: number }[]) => answers.map(({ status }) => status);
const times = <Result>(count: number, run: (index: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, index) => run(index)));

/**
 * Runs a chat and a read of the usage of the other organization, and returns how long both took. The quicker of two
 * runs counts: the machine itself may be busy for a moment.
 */
async function measureOther(): Promise<number> {
  const tookMs: number[] = [];
  for (let run = 0; run < 2; run += 1) {
    const startedAt = performance.now();
    const answers = await Promise.all([
      chat(other, 'hi'),
      gateway.call('/api/v1/usage', { key: other.key }),
    ]);
    expect(toStatuses(answers)).toEqual([200, 200]);
    tookMs.push(performance.now() - startedAt);
  }
  return Math.min(...tookMs);
}

describe('another organization is served at its usual speed during', () => {
  it('slow queries and transactions', async () => {
    const usualMs = await measureOther();
    // Only lists that are filtered by tags read this table.
    await gateway.database.query('BEGIN');
    await gateway.database.query('LOCK TABLE metadata_pair IN ACCESS EXCLUSIVE MODE');
    const query = '/api/v1/usage?metadata[team]=none';
    const slow = times(40, () => gateway.call(query, { key: busy.key }));
    // Each new key locks the row of its user in a transaction.
    await gateway.database.query('SELECT FROM app_user WHERE organization_id = $1 FOR UPDATE', [
      busy.organizationId,
    ]);
    const locked = times(8, () => gateway.newKey({}, busy.key));
    await sleep(300);
    const tookMs = await measureOther().finally(() => void gateway.database.query('ROLLBACK'));
    expect(tookMs).toBeLessThan(10 * usualMs + 500);
    expect(toStatuses(await slow)).toEqual(Array(40).fill(200));
    await locked;
  });

  it('running chats with the same provider, limited to half of its slots per organization', async () => {
    const usualMs = await measureOther();
    const answers: Answer[] = [];
    const slow = times(12, async () => answers.push(await chat(busy, '[[slow:900s]] a long one')));
    const openChats = () => gateway.sandbox.chatRequests('a long one');
    await expect.poll(async () => [answers.length, (await openChats()).length]).toEqual([8, 4]);
    expect(await measureOther()).toBeLessThan(10 * usualMs + 500);
    await gateway.sandbox.clearFaults();
    await slow;
    expect(toStatuses(answers)).toEqual([...Array(8).fill(429), ...Array(4).fill(200)]);
    const [rejected] = answers;
    expect(rejected?.headers.get('retry-after')).toBe('2');
    expect(rejected?.body).toMatchObject({
      error: 'Rate limit exceeded. Please slow down.',
      message: expect.stringContaining('too many running chats with the provider'),
    });
    // All connections are free again, after errors too.
    await times(4, () => chat(busy, '[[fail:400]]'));
    expect(toStatuses(await times(4, () => chat(busy, 'hi')))).toEqual(Array(4).fill(200));
  });

  it('input downloads that stall, from several organizations', async () => {
    const upscale = ({ key }: TestCaller, imageUrl: string) =>
      gateway.call('/api/v1/studio/image/upscale/estimate', { key, body: { imageUrl } });
    const picture = gateway.media.put('/picture.png', await drawDisc(64, 64));
    const silent: ServerResponse[] = [];
    const stalled = Array.from({ length: 24 }, (_, at) =>
      gateway.media.serve(`/silent-${at}`, (response) => silent.push(response)),
    );
    const measureUpscale = async (): Promise<number> => {
      const startedAt = performance.now();
      expect((await upscale(other, picture)).status).toBe(200);
      return performance.now() - startedAt;
    };
    const usualMs = await measureUpscale();
    const callers = await times(4, () => gateway.newCaller({ credits: 10 }));
    const waiting = callers.flatMap((caller) => stalled.map((url) => upscale(caller, url)));
    // Four organizations get at least this many of the 32 slots.
    await expect.poll(() => silent.length).toBeGreaterThanOrEqual(24);
    expect(await measureUpscale()).toBeLessThan(10 * usualMs + 5000);
    const ending = setInterval(() => {
      for (const response of silent.splice(0)) response.destroy();
    }, 50);
    await Promise.all(waiting);
    clearInterval(ending);
  });

  it('three hundred pictures, whose starts take turns', async () => {
    const port = await freePort();
    const base = `http://127.0.0.1:${port}`;
    const env = { TASK_QUEUE_PREFIX: `${port}-`, PUBLIC_BASE_URL: base, API_PORT: String(port) };
    await gateway.spawn('worker', env);
    // Starts that wait longer are rejected, so that the test ends soon.
    await gateway.spawn('api', { ...env, TEMPORAL_START_WAIT_MS: '15000' });
    const painter = await gateway.newCaller({ credits: 5000 });
    let painted = 0;
    const paint = async ({ key }: TestCaller): Promise<Answer> => {
      const body = { prompt: 'a boat' };
      const answer = await gateway.call('/api/v1/studio/image/generate', { base, key, body });
      if (key === painter.key && answer.status === 200) painted += 1;
      return answer;
    };
    expect((await paint(other)).status).toBe(200);
    const answers = times(300, () => paint(painter));
    await expect.poll(() => painted).toBeGreaterThan(0);
    for (let picture = 0; picture < 3; picture += 1) {
      const before = painted;
      expect((await paint(other)).status).toBe(200);
      // Counted in pictures rather than seconds, because the processes share the machine.
      expect(painted - before).toBeLessThan(150);
    }
    for (const { status } of await answers) expect([200, 503]).toContain(status);
  });

  it('starts of items in the worker, of five bulk jobs of pipelines that fail at once', async () => {
    const port = await freePort();
    const base = `http://127.0.0.1:${port}`;
    const env = { TASK_QUEUE_PREFIX: `${port}-`, PUBLIC_BASE_URL: base, API_PORT: String(port) };
    await gateway.spawn('worker', env);
    await gateway.spawn('api', env);
    const owner = await gateway.newCaller({ credits: 5000 });
    const paint = async (): Promise<number> => {
      const startedAt = performance.now();
      const options = { base, key: other.key, body: { prompt: 'a boat' } };
      expect((await gateway.call('/api/v1/studio/image/generate', options)).status).toBe(200);
      return performance.now() - startedAt;
    };
    /** Returns how long the second slowest of six pictures takes, in milliseconds. */
    const measurePictures = async (): Promise<number> => {
      const tookMs: number[] = [];
      for (let picture = 0; picture < 6; picture += 1) tookMs.push(await paint());
      return tookMs.toSorted((one, next) => next - one)[1] ?? 0;
    };
    await paint();
    const usualMs = await measurePictures();
    const steps = ['[[fail:400]]', ...Array.from({ length: 19 }, () => 'a boat')].map(
      (prompt, at) => ({
        id: `s${at}`,
        use: 'image/generate',
        body: { prompt, ...(at > 0 && { imageUrls: [{ $from: 's0' }] }) },
      }),
    );
    const items = Array.from({ length: 40 }, () => ({ use: 'pipelines', body: { steps } }));
    const open = 'SELECT id FROM bulk WHERE organization_id = $1 AND completed_at IS NULL';
    const countOpen = async () =>
      (await gateway.database.query(open, [owner.organizationId])).length;
    const measured = new AbortController();
    /** Starts another bulk job whenever one ends, so that the load lasts as long as the pictures. */
    const load = async (): Promise<void> => {
      while (!measured.signal.aborted) {
        const started = await times(5 - (await countOpen()), () =>
          gateway.call('/api/v1/studio/bulk', { base, key: owner.key, body: { items } }),
        );
        expect(toStatuses(started)).toEqual(started.map(() => 202));
        await sleep(50);
      }
    };
    const measureUnderLoad = async (): Promise<number> => {
      await until(async () => (await countOpen()) === 5);
      return measurePictures();
    };
    const measuring = measureUnderLoad().finally(() => measured.abort());
    const [slowMs] = await Promise.all([measuring, load()]);
    expect(slowMs).toBeLessThan(10 * usualMs + 500);
    await gateway.database.query(
      `UPDATE bulk SET max_failed_percent = 0 WHERE organization_id = $1`,
      [owner.organizationId],
    );
    await until(async () => (await countOpen()) === 0);
  });

  it('large bodies, whose parsing alternates between organizations', async () => {
    const body = Buffer.from(JSON.stringify({ zz: Array(2000).fill('x'.repeat(400)) }));
    const ended: TestCaller[] = [];
    /** Sends a body without its last byte, and returns a function that sends the rest. */
    const begin = async (caller: TestCaller) => {
      const { client, status } = openRequest(`${gateway.url}/api/v1/chat`, {
        authorization: `Bearer ${caller.key}`,
        'content-type': 'application/json',
        'content-length': body.length,
      });
      await new Promise<void>((resolve) => client.write(body.subarray(0, -1), () => resolve()));
      return async (): Promise<void> => {
        client.end(body.subarray(-1));
        expect(await status).toBe(400);
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

it('a stream of job events continues when the jobs of another organization cannot be read', async () => {
  const close = new AbortController();
  const follow = async (caller: TestCaller) => {
    const jobId = await gateway.startImage({ prompt: '[[slow:900s]] a boat' }, caller.key);
    const stream = await fetch(`${gateway.url}/api/v1/studio/jobs/events`, {
      headers: { authorization: `Bearer ${caller.key}` },
      signal: close.signal,
    });
    const state = { caller, jobId, ended: false };
    void stream.text().then(
      () => (state.ended = true),
      () => {},
    );
    return state;
  };
  const [broken, whole] = [await follow(busy), await follow(other)];
  const update = 'UPDATE job SET request = $2 WHERE id = $1';
  await gateway.database.query(update, [broken.jobId, '"no object"']);
  await expect.poll(() => broken.ended).toBe(true);
  await sleep(1500);
  expect(whole.ended).toBe(false);
  await gateway.database.query(update, [broken.jobId, '{}']);
  close.abort();
  for (const { caller, jobId } of [broken, whole]) await gateway.cancel(jobId, caller.key);
});

it('a chat provider whose connections are all in use rejects the chats of another organization with 503 until one is free', async () => {
  const running: Promise<{ status: number }[]>[] = [];
  let connections = 0;
  for (const share of [4, 2, 1, 1]) {
    const caller = await gateway.newCaller({ credits: 1000 });
    running.push(times(share, () => chat(caller, '[[slow:900s]] one of eight')));
    connections += share;
    const openChats = () => gateway.sandbox.chatRequests('one of eight');
    await expect.poll(openChats, { interval: 10 }).toHaveLength(connections);
  }
  const rejected = await chat(other, 'hi');
  expect(rejected.status).toBe(503);
  expect(rejected.headers.get('retry-after')).toBe('2');
  expect(rejected.body).toMatchObject({ error: 'SERVICE_UNAVAILABLE' });
  await gateway.sandbox.clearFaults();
  expect(toStatuses((await Promise.all(running)).flat())).toEqual(Array(8).fill(200));
});
