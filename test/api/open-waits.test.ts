/**
 * Event streams and long polls of one organization: they are bounded, share one read per second, and do not slow
 * another organization's requests.
 */
import { request, type ClientRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createOpenWaits } from '../../api/studio/open-waits.ts';
import { ofCallers, type Walked } from '../harness/endpoints.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
let busy: TestCaller;
let other: TestCaller;
/** Open jobs of both organizations. */
let jobId: string;
let othersJobId: string;
beforeAll(async () => {
  busy = await gateway.newCaller({ credits: 1000 });
  other = await gateway.newCaller({ credits: 1000 });
  [jobId, othersJobId] = [await startJob(busy), await startJob(other)];
});
afterAll(async () => {
  for (const [id, { key }] of [
    [jobId, busy],
    [othersJobId, other],
  ] as const) {
    await gateway.call(`/api/v1/studio/jobs/${id}/cancel`, { method: 'POST', key });
    await gateway.untilDone(id, key);
  }
});

async function startJob({ key }: TestCaller): Promise<string> {
  const prompt = '[[slow:900s]] [[no-webhook]] a boat';
  const body = { prompt, async: true };
  return (await gateway.call('/api/v1/studio/image/generate', { key, body })).body.data.jobId;
}
const newKey = async ({ key }: TestCaller) =>
  (
    await gateway.call<{ key: string; keyId: string }>('/api/v1/api-keys', {
      key,
      body: { name: 'k' },
    })
  ).body;

interface Opened {
  status: number;
  retryAfter: string | undefined;
  /** Text received so far. */
  text: () => string;
  /** Resolves when the gateway has ended the response. */
  ended: Promise<unknown>;
  close: () => void;
}

/** Sends a request; `opened` resolves with the response. */
function send(path: string, key: string): { client: ClientRequest; opened: Promise<Opened> } {
  const client = request(gateway.url + path, {
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
        ended: new Promise((resolveEnd) => response.on('end', resolveEnd)),
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
    expect((await gateway.call('/api/v1/usage', { key: other.key })).status).toBe(200);
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
    const keys = [busy.key];
    for (let count = 0; count < 9; count += 1) keys.push((await newKey(busy)).key);
    const responses: Opened[] = [];
    const clients = keys.flatMap((key) =>
      Array.from({ length: 42 }, (_, at) => send(paths[at % paths.length] ?? '', key)),
    );
    for (const { opened } of clients) {
      opened.then((response) => responses.push(response)).catch(() => {});
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
    const { key, keyId } = await newKey(other);
    const stream = await open(`/api/v1/studio/jobs/${othersJobId}/events`, key);
    const revoked = { key: other.key, method: 'DELETE' };
    expect((await gateway.call(`/api/v1/api-keys/${keyId}`, revoked)).status).toBe(200);
    await stream.ended;
    expect(stream.text()).toContain(othersJobId);
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
