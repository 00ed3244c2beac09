/**
 * Data that the console reads in addition to the list of jobs: job events, timelines with times,
 * and webhook deliveries.
 */
import { describe, expect, it, onTestFinished } from 'vitest';
import type { z } from 'zod';
import type { stepSchema } from '../../studio/jobs/job-explanation.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { until, untilHolds } from '../harness/until.ts';

interface Shown {
  jobId: string;
  status: string;
  metadata: Record<string, string>;
}
interface Page {
  data: object[];
  nextCursor: string | null;
}
interface Timeline {
  data: { jobId: string; request: object; steps: z.infer<typeof stepSchema>[] };
}

const gateway = useGateway({ settled: 'last' });

const start = ({ key }: TestCaller, body: object = {}) =>
  gateway.startImage({ prompt: 'a tree', ...body }, key);
const readTimeline = async (jobId: string) =>
  (await gateway.call<Timeline>(`/api/v1/studio/jobs/${jobId}/timeline`)).body.data;
const readSteps = async (jobId: string) =>
  (await readTimeline(jobId)).steps.map(({ name, state }) => `${name} ${state}`);

/** Reads the events of all jobs, or of one, until the test or the stream ends. */
async function follow({ key }: { key: string }, path = 'events') {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const { status, headers, body } = await fetch(`${gateway.url}/api/v1/studio/jobs/${path}`, {
    headers: { authorization: `Bearer ${key}` },
    signal: stop.signal,
  });
  const seen: Shown[] = [];
  const state = { ended: false };
  const read = async () => {
    let text = '';
    for await (const bytes of body ?? []) {
      const events = (text + Buffer.from(bytes).toString()).split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) {
        const [, data] = /^data: (.*)$/m.exec(event) ?? [];
        if (data !== undefined) seen.push(JSON.parse(data) as Shown);
      }
    }
    state.ended = true;
  };
  void read().catch(() => {});
  return { status, type: headers.get('content-type'), seen, state };
}

describe('GET /studio/jobs/events', () => {
  it('sends an organization each change of its own jobs only', async () => {
    const [one, other] = [await gateway.newCaller(), await gateway.newCaller()];
    const before = await start(one, { prompt: '[[slow:600s]] an early tree' });
    const [events, otherEvents] = await Promise.all([follow(one), follow(other)]);
    expect([events.status, events.type]).toEqual([200, 'text/event-stream']);
    // The stream includes jobs that were open before.
    await untilHolds(() => expect(events.seen.map(({ jobId }) => jobId)).toContain(before));
    await gateway.untilAccepted(before);
    await gateway.sandbox.clearFaults();
    const after = await start(one, { metadata: { team: 'a' } });
    const otherJobId = await start(other);
    await untilHolds(() => {
      const ended = events.seen.filter(({ status }) => status === 'completed');
      expect(ended.map(({ jobId }) => jobId).toSorted()).toEqual([before, after].toSorted());
    });
    expect(events.seen.find(({ jobId }) => jobId === after)?.metadata).toEqual({ team: 'a' });
    await untilHolds(() => expect(otherEvents.seen.at(-1)).toMatchObject({ status: 'completed' }));
    expect(new Set(otherEvents.seen.map(({ jobId }) => jobId))).toEqual(new Set([otherJobId]));
    // The next read of the stream sends only the next job: no event is sent twice.
    const sent = events.seen.length;
    const last = await start(one);
    await untilHolds(() =>
      expect(events.seen.at(-1)).toMatchObject({ jobId: last, status: 'completed' }),
    );
    expect(new Set(events.seen.slice(sent).map(({ jobId }) => jobId))).toEqual(new Set([last]));
    // One read returns at most 200 changed jobs. The next read returns the others.
    await gateway.database.query(
      `SELECT pg_notify('studio_job', json_build_object('event', 'done', 'organizationId', $1::text,
        'id', CASE n WHEN 201 THEN $2 ELSE 'job_' || n END)::text) FROM generate_series(1, 201) n`,
      [one.organizationId, before],
    );
    await untilHolds(() => expect(events.seen.at(-1)).toMatchObject({ jobId: before }));
  });

  it('ends when the key is revoked, and when events may have been missed', async () => {
    const second = await gateway.newKey();
    const [first, revoked] = await Promise.all([follow(gateway.caller), follow(second)]);
    await gateway.send(`/api/v1/api-keys/${second.keyId}`, { method: 'DELETE' });
    await until(() => revoked.state.ended);
    expect(first.state.ended).toBe(false);
    const jobId = await start(gateway.caller, { prompt: '[[slow:600s]] a followed tree' });
    const single = await follow(gateway.caller, `${jobId}/events`);
    gateway.api.updates.interrupt();
    await until(() => first.state.ended);
    // The job is read at every tick, so its stream misses nothing.
    await gateway.untilAccepted(jobId);
    await gateway.sandbox.clearFaults();
    await until(() => single.state.ended);
    expect(single.seen.at(-1)).toMatchObject({ jobId, status: 'completed' });
    expect((await follow(await gateway.newKey({ scopes: ['chat'] }))).status).toBe(403);
  });
});

describe('the timeline of a job', () => {
  it('has the request, and every step with its times, provider and attempts', async () => {
    const jobId = await start(gateway.caller, {
      prompt: 'a timed tree',
      webhookUrl: gateway.receiver.at('/timed'),
    });
    await gateway.untilDone(jobId);
    await gateway.receiver.untilReceived('/timed');
    await untilHolds(async () =>
      expect(await readSteps(jobId)).toEqual(
        ['reserve', 'submit', 'wait', 'store', 'charge', 'webhook'].map((name) => `${name} done`),
      ),
    );
    // A quick provider notifies before its acceptance is recorded.
    const early = `UPDATE provider_notification SET received_at = received_at - interval '1 hour' WHERE job_id = $1`;
    await gateway.database.query(early, [jobId]);
    const { steps, ...data } = await readTimeline(jobId);
    expect(data).toMatchObject({ jobId, request: { prompt: 'a timed tree' } });
    const providerRequestId = expect.stringMatching(/\w{8}/);
    expect(steps[1]).toMatchObject({ call: 0, provider: 'fal', attempts: 1, providerRequestId });
    let at = 0;
    for (const { startedAt, endedAt } of steps.slice(0, 5)) {
      expect(Date.parse(startedAt ?? '')).toBeGreaterThanOrEqual(at);
      at = Date.parse(startedAt ?? '');
      expect(Date.parse(endedAt ?? '')).toBeGreaterThanOrEqual(at);
    }
  });

  it('shows a running step, a failed step, and a retried step', async () => {
    const running = await start(gateway.caller, { prompt: '[[slow:600s]] a tree' });
    await untilHolds(async () =>
      expect(await readSteps(running)).toEqual(['reserve done', 'submit done', 'wait running']),
    );
    await gateway.sandbox.clearFaults();
    await gateway.untilDone(running);
    const busy = await start(gateway.caller, { prompt: '[[submit:429x1;retry-after=1]] a tree' });
    await gateway.untilDone(busy);
    expect((await readTimeline(busy)).steps[1]).toMatchObject({ state: 'done', attempts: 2 });
    const failed = await start(gateway.caller, { prompt: '[[fail:422]] a tree' });
    await gateway.untilDone(failed);
    expect((await readSteps(failed)).at(-1)).toBe('release done');
    expect((await readSteps(failed)).join()).not.toContain('charge');
  });
});

describe('GET /webhooks/deliveries', () => {
  it('lists the webhooks of the organization with their state', async () => {
    const caller = await gateway.newCaller();
    const list = async (query = '', { key } = caller) =>
      (await gateway.call<Page>(`/api/v1/webhooks/deliveries${query}`, { key })).body;
    const good = await start(caller, { webhookUrl: gateway.receiver.at('/good') });
    const gone = await start(caller, {
      webhookUrl: gateway.receiver.at('/gone', (response) => response.writeHead(410).end()),
    });
    await untilHolds(async () =>
      expect((await list()).data).toMatchObject([
        { jobId: gone, state: 'gone', lastStatus: 410 },
        { jobId: good, state: 'delivered', lastStatus: 204 },
      ]),
    );
    expect((await list('?state=failing')).data).toMatchObject([{ jobId: gone }]);
    expect((await list('?state=delivered')).data).toMatchObject([{ jobId: good }]);
    const { nextCursor } = await list('?limit=1');
    expect((await list(`?limit=1&cursor=${nextCursor}`)).data).toMatchObject([{ jobId: good }]);
    expect((await list('', await gateway.newCaller({ credits: 0 }))).data).toEqual([]);
    expect((await gateway.call('/api/v1/webhooks/deliveries?state=lost')).status).toBe(400);
  });
});
