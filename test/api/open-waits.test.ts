/**
 * Event streams and long polls of one organization: they are bounded, share one read per second, and do not slow
 * another organization's requests.
 */
import { request, type ClientRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type TestCaller, type TestGateway } from '../harness/gateway.ts';
import type { SpawnedProcess } from '../harness/running-gateway.ts';
import { ofCallers, type Walked } from '../harness/endpoints.ts';
import { createOpenWaits } from '../../api/studio/open-waits.ts';

let gateway: TestGateway;
let api: SpawnedProcess;
let busy: TestCaller;
let keys: string[];
let jobId: string;
let other: TestCaller;
beforeAll(async () => {
  // No picture is ready before the tests end.
  gateway = await startGateway({
    latencyMs: 60_000,
    sandboxEnv: { SANDBOX_TINY_MEDIA: '1' },
    env: { POLL_RATE_LIMIT_PER_MINUTE: '6000', RATE_LIMIT_PER_MINUTE: '6000' },
  });
  api = await gateway.spawn('api', { API_PORT: '0' });
  busy = await gateway.newCaller({ credits: 1000 });
  other = await gateway.newCaller({ credits: 1000 });
  keys = [busy.key];
  for (let count = 0; count < 9; count += 1) {
    const made = await gateway.call<{ key: string }>('/api/v1/api-keys', {
      key: busy.key,
      body: { name: 'k' },
    });
    keys.push(made.body.key);
  }
  const started = await gateway.call('/api/v1/studio/image/generate', {
    key: busy.key,
    body: { prompt: 'a boat', async: true },
  });
  ({ jobId } = started.body.data);
});
afterAll(async () => {
  await gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST', key: busy.key });
  await gateway.close();
});

interface Opened {
  status: number;
  retryAfter: string | undefined;
  /** Text received so far. */
  text: () => string;
  close: () => void;
}

/** Sends a request; `opened` resolves with the response. */
function send(path: string, key: string): { client: ClientRequest; opened: Promise<Opened> } {
  const client = request(`http://127.0.0.1:${api.port}${path}`, {
    agent: false,
    headers: { authorization: `Bearer ${key}` },
  });
  const opened = new Promise<Opened>((resolve, reject) => {
    client.on('error', reject);
    client.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('error', () => {});
      resolve({
        status: response.statusCode ?? 0,
        retryAfter: response.headers['retry-after'],
        text: () => text,
        close: () => client.destroy(),
      });
    });
  });
  client.end();
  return { client, opened };
}

const open = (path: string, key: string): Promise<Opened> => send(path, key).opened;

async function slowestUsage(): Promise<number> {
  let slowest = 0;
  for (let round = 0; round < 20; round += 1) {
    const startedAt = performance.now();
    const answer = await fetch(`http://127.0.0.1:${api.port}/api/v1/usage`, {
      headers: { authorization: `Bearer ${other.key}` },
    });
    await answer.text();
    expect(answer.status).toBe(200);
    slowest = Math.max(slowest, performance.now() - startedAt);
  }
  return slowest;
}

describe('open waits', () => {
  it('get 429 beyond the limit of their key, and are free again when they are closed', async () => {
    const path = `/api/v1/studio/jobs/${jobId}/events`;
    const streams = await Promise.all(Array.from({ length: 25 }, () => open(path, busy.key)));
    expect(streams.filter(({ status }) => status === 200)).toHaveLength(20);
    const rejected = streams.filter(({ status }) => status === 429);
    expect(rejected.map(({ retryAfter }) => retryAfter)).toEqual(
      Array.from({ length: 5 }, () => '5'),
    );
    // Long polls and the stream of all jobs count together with them.
    expect((await open(`/api/v1/studio/jobs/${jobId}?wait=5`, busy.key)).status).toBe(429);
    expect((await open('/api/v1/studio/jobs/events', busy.key)).status).toBe(429);
    expect((await open(`/api/v1/studio/jobs/${jobId}`, busy.key)).status).toBe(200);
    for (const { close } of streams) close();
    await expect
      .poll(async () => {
        const again = await open(path, busy.key);
        again.close();
        return again.status;
      })
      .toBe(200);
  });

  it("of all keys of one organization do not slow another organization's requests", async () => {
    const usualMs = await slowestUsage();
    const isStream = ({ answers }: Walked): boolean =>
      Object.values(answers).some(({ type }) => type === 'text/event-stream');
    const isLongPoll = ({ request: { query } }: Walked): boolean =>
      query !== undefined && 'wait' in query.shape;
    const waits = ofCallers.filter((each) => each.method === 'GET');
    const pathOf = ({ path }: Walked): string => path.replace(':jobId', jobId);
    const paths = [
      ...waits.filter(isStream).map(pathOf),
      ...waits.filter(isLongPoll).map((each) => `${pathOf(each)}?wait=60`),
    ];
    expect(paths.length).toBeGreaterThanOrEqual(3);
    const responses: Opened[] = [];
    const clients = keys.flatMap((key) =>
      Array.from({ length: 42 }, (_, at) => send(paths[at % paths.length] ?? '', key)),
    );
    for (const { opened } of clients) {
      void opened.then(
        (response) => responses.push(response),
        () => {},
      );
    }
    const withStatus = (status: number) =>
      responses.filter((response) => response.status === status);
    // The long polls have no response yet.
    await expect.poll(() => withStatus(429).length, { timeout: 30_000 }).toBe(220);
    expect(clients.length - withStatus(429).length).toBe(200);
    expect(await slowestUsage()).toBeLessThan(5 * usualMs + 100);
    // Each stream has received the open job.
    await expect.poll(() => withStatus(200).every(({ text }) => text().includes(jobId))).toBe(true);
    for (const { client } of clients) client.destroy();
  });

  it('end when their key is revoked', async () => {
    const made = await gateway.call<{ key: string; keyId: string }>('/api/v1/api-keys', {
      key: other.key,
      body: { name: 'short' },
    });
    const job = await gateway.call('/api/v1/studio/image/generate', {
      key: other.key,
      body: { prompt: 'a boat', async: true },
    });
    const stream = await fetch(
      `http://127.0.0.1:${api.port}/api/v1/studio/jobs/${job.body.data.jobId}/events`,
      { headers: { authorization: `Bearer ${made.body.key}` } },
    );
    const text = stream.text();
    const revoked = await gateway.call(`/api/v1/api-keys/${made.body.keyId}`, {
      key: other.key,
      method: 'DELETE',
    });
    expect(revoked.status).toBe(200);
    expect(await text).toContain(job.body.data.jobId);
    await gateway.call(`/api/v1/studio/jobs/${job.body.data.jobId}/cancel`, {
      method: 'POST',
      key: other.key,
    });
  });

  it('of several organizations leave room for another one', () => {
    const waits = createOpenWaits({ keyMax: 20, organizationMax: 20, processMax: 30 });
    const countOf = (organizationId: string): number => {
      for (let count = 0; ; count += 1) {
        try {
          waits.enter({ organizationId, keyId: `key of ${organizationId}` });
        } catch {
          return count;
        }
      }
    };
    expect(['a', 'b', 'c', 'd'].map(countOf)).toEqual([15, 8, 4, 2]);
  });
});
