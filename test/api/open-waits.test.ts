/**
 * Event streams and long polls of one organization: they are bounded, share one read per second, and do not slow
 * another organization's requests.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createOpenWaits } from '../../api/studio/open-waits.ts';
import { callerEndpoints, type RequestedEndpoint } from '../harness/endpoints.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
let busy: TestCaller;
let other: TestCaller;
/** Open jobs of both organizations. */
let jobId: string;
let otherJobId: string;
beforeAll(async () => {
  busy = await gateway.newCaller({ credits: 1000 });
  other = await gateway.newCaller({ credits: 1000 });
  [jobId, otherJobId] = [await startJob(busy), await startJob(other)];
});
afterAll(async () => {
  for (const [id, { key }] of [
    [jobId, busy],
    [otherJobId, other],
  ] as const) {
    await gateway.cancel(id, key);
    await gateway.untilDone(id, key);
  }
});

const startJob = ({ key }: TestCaller) =>
  gateway.startImage({ prompt: '[[slow:900s]] [[no-webhook]] a boat' }, key);

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
  const url = `${gateway.url}/api/v1/studio/jobs/${path}`;
  const headers = { authorization: `Bearer ${key}` };
  const response = await fetch(url, { headers, signal });
  let text = '';
  const read = async () => {
    for await (const bytes of response.body ?? []) text += Buffer.from(bytes).toString();
    return true;
  };
  const ended = read().catch(() => false);
  const retryAfter = response.headers.get('retry-after');
  return { status: response.status, retryAfter, text: () => text, ended };
}

async function measureSlowestUsage(): Promise<number> {
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
    const path = `${jobId}/events`;
    const close = new AbortController();
    const streams = await Promise.all(
      Array.from({ length: 25 }, () => open(path, busy.key, close.signal)),
    );
    expect(streams.filter(({ status }) => status === 200)).toHaveLength(20);
    const rejected = streams.filter(({ status }) => status === 429);
    expect(rejected.map(({ retryAfter }) => retryAfter)).toEqual(Array(5).fill('5'));
    // Long polls and the stream of all jobs count together with them.
    for (const [further, status] of [
      [`${jobId}?wait=5`, 429],
      ['events', 429],
      [jobId, 200],
    ] as const) {
      expect((await open(further, busy.key, close.signal)).status).toBe(status);
    }
    close.abort();
    await expect
      .poll(async () => {
        const again = new AbortController();
        const { status } = await open(path, busy.key, again.signal);
        again.abort();
        return status;
      })
      .toBe(200);
  });

  it("of all keys of one organization do not slow another organization's requests", async () => {
    const usualMs = await measureSlowestUsage();
    const isStream = ({ answers }: RequestedEndpoint): boolean =>
      Object.values(answers).some(({ type }) => type === 'text/event-stream');
    const isLongPoll = ({ request: { query } }: RequestedEndpoint): boolean =>
      query !== undefined && 'wait' in query.shape;
    const waits = callerEndpoints.filter((each) => each.method === 'GET');
    const shortenPath = ({ path }: RequestedEndpoint): string =>
      path.replace('/api/v1/studio/jobs/', '').replace(':jobId', jobId);
    const paths = [
      ...waits.filter(isStream).map(shortenPath),
      ...waits.filter(isLongPoll).map((each) => `${shortenPath(each)}?wait=60`),
    ];
    expect(paths.length).toBeGreaterThanOrEqual(3);
    const keys = [busy.key];
    for (let count = 0; count < 9; count += 1) keys.push((await gateway.newKey({}, busy.key)).key);
    const responses: Opened[] = [];
    const close = new AbortController();
    const pending = keys.flatMap((key) =>
      Array.from({ length: 42 }, async (_, at) => {
        responses.push(await open(paths[at % paths.length] ?? '', key, close.signal));
      }),
    );
    const withStatus = (status: number) =>
      responses.filter((response) => response.status === status);
    // The long polls have no response yet.
    await expect.poll(() => withStatus(429).length, { timeout: 30_000 }).toBe(220);
    expect(pending.length - withStatus(429).length).toBe(200);
    expect(await measureSlowestUsage()).toBeLessThan(5 * usualMs + 100);
    // Each stream has received the open job.
    await expect.poll(() => withStatus(200).every(({ text }) => text().includes(jobId))).toBe(true);
    close.abort();
    await Promise.allSettled(pending);
  });

  it.each([
    ['is revoked', 'revoked_at'],
    ['expires', 'expires_at'],
  ])('end when their key %s', async (_what, column) => {
    const { key, keyId } = await gateway.newKey({}, other.key);
    const stream = await open(`${otherJobId}/events`, key, AbortSignal.timeout(10_000));
    const end = `UPDATE api_key SET ${column} = now() WHERE id = $1`;
    await gateway.database.query(end, [keyId]);
    expect(await stream.ended).toBe(true);
    expect(stream.text()).toContain(otherJobId);
  });

  it('end when their organization is suspended', async () => {
    const { organizationId, key } = await gateway.newCaller({ credits: 0 });
    const stream = await open('events', key, AbortSignal.timeout(10_000));
    await gateway.admin(`/organizations/${organizationId}/suspend`, {});
    expect(await stream.ended).toBe(true);
  });

  it('of several organizations are limited, and leave room for another one', () => {
    const waits = createOpenWaits({ keyMax: 1, organizationMax: 12, processMax: 30 });
    const ends: (() => void)[] = [];
    const countWaits = (organizationId: string): number => {
      for (let count = 0; ; count += 1) {
        try {
          ends.push(waits.enter({ organizationId, keyId: `${organizationId} ${count}` }));
        } catch {
          return count;
        }
      }
    };
    expect(['a', 'b', 'c', 'd'].map(countWaits)).toEqual([12, 9, 5, 2]);
    for (const end of ends) end();
    expect(countWaits('a')).toBe(12);
  });
});
