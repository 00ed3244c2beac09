/**
 * Event streams and long polls hold places until their responses have closed. Those of one
 * organization are bounded, share one read per second, and do not slow another organization's requests.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { callerEndpoints, type RequestedEndpoint } from '../harness/endpoints.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';

/** An organization gets at most half of the places of the process. */
const places = 400;
const gateway = useGateway({ settled: 'last', env: { REQUESTS_MAX: String(places) } });
let busy: TestCaller;
let other: TestCaller;
/** Open jobs of both organizations. */
let jobId: string;
let otherJobId: string;
/** Open bulk job of the busy organization. */
let bulkId: string;
beforeAll(async () => {
  busy = await gateway.newCaller({ credits: 1000 });
  other = await gateway.newCaller({ credits: 1000 });
  [jobId, otherJobId] = [await startJob(busy), await startJob(other)];
  const items = [{ use: 'image/generate', body: slowImage }];
  const bulk = await gateway.call('/api/v1/studio/bulk', { key: busy.key, body: { items } });
  ({ bulkId } = bulk.body.data as unknown as { bulkId: string });
});
afterAll(async () => {
  const cancel = { key: busy.key, body: { items: 'all' } };
  await gateway.send(`/api/v1/studio/bulk/${bulkId}/cancel`, cancel);
  for (const { organizationId, key } of [busy, other]) {
    for (const { id, status } of await gateway.database.jobs(organizationId)) {
      if (status !== 'open') continue;
      await gateway.cancel(id, key);
      await gateway.untilDone(id, key);
    }
  }
});

const imagePath = '/api/v1/studio/image/generate';
const repeatedImage = { prompt: '[[slow:900s]] [[no-webhook]] a boat that is asked for again' };

interface Waiting {
  path: string;
  method?: string;
  tool?: object;
  body?: object;
}

const slowImage = { prompt: '[[slow:900s]] [[no-webhook]] a boat' };
const startJob = ({ key }: TestCaller) => gateway.startImage(slowImage, key);

interface Opened {
  status: number;
  retryAfter: string | null;
  /** Text received so far. */
  text: () => string;
  /** Resolves at the end of the response: true if the gateway ended it, false if the signal did. */
  ended: Promise<boolean>;
}

/** Opens a stream or a long poll, which a signal closes. */
async function open(path: string, key: string, signal: AbortSignal): Promise<Opened> {
  const headers = { authorization: `Bearer ${key}` };
  const response = await fetch(`${gateway.url}/api/v1/studio/${path}`, { headers, signal });
  let text = '';
  const read = async () => {
    for await (const bytes of response.body ?? []) text += Buffer.from(bytes).toString();
    return true;
  };
  const ended = read().catch(() => false);
  const retryAfter = response.headers.get('retry-after');
  return { status: response.status, retryAfter, text: () => text, ended };
}

/** Returns the median time of 21 reads, milliseconds: each of them may have waited for other test files. */
async function measureUsage(): Promise<number> {
  const tookMs: number[] = [];
  while (tookMs.length < 21) {
    const startedAt = performance.now();
    expect((await gateway.call('/api/v1/usage', { key: other.key })).status).toBe(200);
    tookMs.push(performance.now() - startedAt);
  }
  return tookMs.toSorted((one, next) => one - next)[10] ?? NaN;
}

describe('open waits', () => {
  it.each([
    ['long polls', () => ({ path: `/api/v1/studio/jobs/${jobId}?wait=60` })],
    [
      'heads of long polls',
      () => ({ path: `/api/v1/studio/jobs/${jobId}?wait=60`, method: 'HEAD' }),
    ],
    ['event streams', () => ({ path: `/api/v1/studio/jobs/${jobId}/events` })],
    ['long polls of a bulk job', () => ({ path: `/api/v1/studio/bulk/${bulkId}?wait=60` })],
    ['event streams of a bulk job', () => ({ path: `/api/v1/studio/bulk/${bulkId}/events` })],
    ['event streams of all jobs', () => ({ path: '/api/v1/studio/jobs/events' })],
    ['repeats that wait for their job', () => ({ path: imagePath, body: repeatedImage })],
    ['tools that wait', () => ({ path: '/mcp', tool: { jobId, wait: 60 } })],
  ])('give their places back when the client leaves: %s', async (_what, describeRequest) => {
    const { path, method, tool, body }: Waiting = describeRequest();
    const params = { name: 'getJob', arguments: tool };
    const init = {
      headers: {
        authorization: `Bearer ${busy.key}`,
        'content-type': 'application/json',
        ...(body && { 'idempotency-key': 'repeated' }),
        accept: 'application/json, text/event-stream',
      },
      ...(method && { method }),
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
      ...(tool && {
        method: 'POST',
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
      }),
    };
    // More in all rounds together than an organization may have open.
    for (let round = 0; round < 5; round += 1) {
      const leave = new AbortController();
      const opened = Array.from({ length: places / 8 }, async () => {
        const response = await fetch(gateway.url + path, { ...init, signal: leave.signal });
        // A repeat while the first request is being admitted is 409.
        expect(response.status).toBeOneOf(body ? [200, 409] : [200]);
        expect(await response.text()).not.toContain('open requests');
      });
      await sleep(1500);
      leave.abort();
      for (const result of await Promise.allSettled(opened))
        if (result.status === 'rejected') expect(String(result.reason)).toContain('AbortError');
    }
  });

  it("of all keys of one organization do not slow another organization's requests", async () => {
    const usualMs = await measureUsage();
    const isStream = ({ responses }: RequestedEndpoint): boolean =>
      Object.values(responses).some(({ type }) => type === 'text/event-stream');
    const isLongPoll = ({ request: { query } }: RequestedEndpoint): boolean =>
      query !== undefined && 'wait' in query.shape;
    const waits = callerEndpoints.filter((each) => each.method === 'GET');
    const shortenPath = ({ path }: RequestedEndpoint): string =>
      path.replace('/api/v1/studio/', '').replace(':jobId', jobId).replace(':bulkId', bulkId);
    const paths = [
      ...waits.filter(isStream).map(shortenPath),
      ...waits.filter(isLongPoll).map((each) => `${shortenPath(each)}?wait=60`),
    ];
    expect(paths.length).toBeGreaterThanOrEqual(5);
    const keys = [busy.key];
    for (let count = 0; count < 9; count += 1) keys.push((await gateway.newKey({}, busy.key)).key);
    const responses: Opened[] = [];
    const close = new AbortController();
    const pending = keys.flatMap((key) =>
      Array.from({ length: 42 }, async (_, at) => {
        responses.push(await open(paths[at % paths.length] ?? '', key, close.signal));
      }),
    );
    const withStatus = (...statuses: number[]) =>
      responses.filter(({ status }) => statuses.includes(status));
    // 503 if the event loop is late.
    const rejected = () => withStatus(429, 503).length;
    // The long polls have no response yet.
    await expect.poll(rejected).toBeGreaterThanOrEqual(220);
    expect(withStatus(429)).not.toEqual([]);
    expect(await measureUsage()).toBeLessThan(10 * usualMs + 200);
    // Each stream has received the open job or bulk job.
    const hasSubject = ({ text }: Opened) => text().includes(jobId) || text().includes(bulkId);
    await expect.poll(() => withStatus(200).every(hasSubject)).toBe(true);
    close.abort();
    await Promise.allSettled(pending);
  });

  it.each([
    ['is revoked', 'revoked_at'],
    ['expires', 'expires_at'],
  ])('end when their key %s', async (_what, column) => {
    const { key, keyId } = await gateway.newKey({}, other.key);
    const stream = await open(`jobs/${otherJobId}/events`, key, AbortSignal.timeout(60_000));
    const end = `UPDATE api_key SET ${column} = now() WHERE id = $1`;
    await gateway.database.query(end, [keyId]);
    expect(await stream.ended).toBe(true);
    expect(stream.text()).toContain(otherJobId);
  });

  it('end when their organization is suspended', async () => {
    const { organizationId, key } = await gateway.newCaller({ credits: 0 });
    const stream = await open('jobs/events', key, AbortSignal.timeout(60_000));
    await gateway.operate(`/organizations/${organizationId}/suspend`, {});
    expect(await stream.ended).toBe(true);
  });
});
