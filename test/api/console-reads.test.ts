/**
 * Data that the console reads in addition to the list of jobs: job events, timelines with times,
 * and webhook deliveries.
 */
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { until, untilHolds } from '../harness/until.ts';

interface Shown {
  jobId: string;
  status: string;
  metadata: Record<string, string>;
}
interface Timeline {
  data: {
    jobId: string;
    request: object;
    steps: {
      name: string;
      state: string;
      call: number | null;
      provider: string | null;
      providerRequestId: string | null;
      attempts: number | null;
      startedAt: string | null;
      endedAt: string | null;
    }[];
  };
  error: string;
}

const imagePath = '/api/v1/studio/image/generate';
const gateway = useGateway({ settled: 'last' });

const start = async ({ key }: TestCaller, body: object) =>
  (await gateway.call(imagePath, { key, body: { prompt: 'a tree', async: true, ...body } })).body
    .data.jobId;
const timeline = (jobId: string, { key } = gateway.caller) =>
  gateway.call<Timeline>(`/api/v1/studio/jobs/${jobId}/timeline`, { key });

/** Reads events until it is stopped, or the server ends the stream. */
async function follow(caller: TestCaller) {
  const stop = new AbortController();
  const answer = await fetch(`${gateway.url}/api/v1/studio/jobs/events`, {
    headers: { authorization: `Bearer ${caller.key}` },
    signal: stop.signal,
  });
  const seen: Shown[] = [];
  const state = { ended: false };
  const read = async () => {
    let text = '';
    for await (const bytes of answer.body ?? []) {
      text += Buffer.from(bytes).toString();
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const [, data] = /^data: (.*)$/m.exec(text.slice(0, end)) ?? [];
        if (data !== undefined) seen.push(JSON.parse(data) as Shown);
        text = text.slice(end + 2);
      }
    }
    state.ended = true;
  };
  const reading = read().catch(() => {});
  return {
    status: answer.status,
    type: answer.headers.get('content-type'),
    seen,
    state,
    stop: async () => {
      stop.abort();
      await reading;
    },
  };
}

describe('GET /studio/jobs/events', () => {
  it('sends an organization each change of its own jobs only', async () => {
    const [one, other] = await Promise.all([
      gateway.newCaller({ credits: 100 }),
      gateway.newCaller({ credits: 100 }),
    ]);
    const before = await start(one, { prompt: '[[slow:3s]] an early tree' });
    const [mine, theirs] = await Promise.all([follow(one), follow(other)]);
    expect([mine.status, mine.type]).toEqual([200, 'text/event-stream']);
    // The stream includes jobs that were open before.
    await untilHolds(() => expect(mine.seen.map(({ jobId }) => jobId)).toContain(before));
    const after = await start(one, { metadata: { team: 'a' } });
    const foreign = await start(other, {});
    await untilHolds(() => {
      const ended = mine.seen.filter(({ status }) => status === 'completed');
      expect(ended.map(({ jobId }) => jobId).toSorted()).toEqual([before, after].toSorted());
    });
    expect(mine.seen.find(({ jobId }) => jobId === after)).toMatchObject({
      metadata: { team: 'a' },
    });
    await untilHolds(() => expect(theirs.seen.at(-1)).toMatchObject({ status: 'completed' }));
    expect(new Set(theirs.seen.map(({ jobId }) => jobId))).toEqual(new Set([foreign]));
    // The next read of the stream sends only the next job: no event is sent twice.
    const sent = mine.seen.length;
    const last = await start(one, {});
    await untilHolds(() =>
      expect(mine.seen.at(-1)).toMatchObject({ jobId: last, status: 'completed' }),
    );
    expect(new Set(mine.seen.slice(sent).map(({ jobId }) => jobId))).toEqual(new Set([last]));
    await Promise.all([mine.stop(), theirs.stop()]);
  });

  it('ends when the key is revoked, and when events may have been missed', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const second = (
      await gateway.call<{ key: string; keyId: string }>('/api/v1/api-keys', {
        key: caller.key,
        body: { name: 'second' },
      })
    ).body;
    const [kept, lost] = await Promise.all([follow(caller), follow({ ...caller, ...second })]);
    await gateway.call(`/api/v1/api-keys/${second.keyId}`, { method: 'DELETE', key: caller.key });
    await until(() => lost.state.ended);
    expect(kept.state.ended).toBe(false);
    gateway.api.updates.interrupt();
    await until(() => kept.state.ended);
    const without = await gateway.newCaller({ credits: 0, scopes: ['chat'] });
    expect((await follow(without)).status).toBe(403);
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
    const { data } = await until(async () => {
      const { body } = await timeline(jobId);
      return body.data.steps.at(-1)?.state === 'done' ? body : null;
    });
    expect(data).toMatchObject({ jobId, request: { prompt: 'a timed tree' } });
    expect(data.steps.map(({ name, state }) => [name, state])).toEqual(
      ['reserve', 'submit', 'wait', 'store', 'charge', 'webhook'].map((name) => [name, 'done']),
    );
    const submit = data.steps[1];
    expect(submit).toMatchObject({ call: 0, provider: 'fal', attempts: 1 });
    expect(submit?.providerRequestId).toMatch(/\w{8}/);
    let at = 0;
    for (const { startedAt, endedAt } of data.steps.slice(0, 5)) {
      expect(Date.parse(startedAt ?? '')).toBeGreaterThanOrEqual(at);
      at = Date.parse(startedAt ?? '');
      expect(Date.parse(endedAt ?? '')).toBeGreaterThanOrEqual(at);
    }
  });

  it('shows a running step, a failed step, and a retried step', async () => {
    const running = await start(gateway.caller, { prompt: '[[slow:2s]] a tree' });
    await untilHolds(async () =>
      expect(
        (await timeline(running)).body.data.steps.map(({ name, state }) => [name, state]),
      ).toEqual([
        ['reserve', 'done'],
        ['submit', 'done'],
        ['wait', 'running'],
      ]),
    );
    await gateway.untilDone(running);
    await gateway.sandbox.inject({
      match: 'a busy tree',
      faults: 'submit:429;retry-after=1',
      times: 1,
    });
    const busy = await start(gateway.caller, { prompt: 'a busy tree' });
    await gateway.untilDone(busy);
    expect((await timeline(busy)).body.data.steps[1]).toMatchObject({ state: 'done', attempts: 2 });
    await gateway.sandbox.inject({ match: 'a failed tree', faults: 'fail:422', times: 1 });
    const failed = await start(gateway.caller, { prompt: 'a failed tree' });
    await gateway.untilDone(failed);
    const { steps } = (await timeline(failed)).body.data;
    expect(steps.at(-1)).toMatchObject({ name: 'release', state: 'done' });
    expect(steps.map(({ name }) => name)).not.toContain('charge');
  });
});

describe('GET /webhooks/deliveries', () => {
  interface Deliveries {
    data: { jobId: string; state: string; lastStatus: number | null }[];
    nextCursor: string | null;
  }
  it('lists the webhooks of the organization with their state', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const list = async (query = '', { key } = caller) =>
      (await gateway.call<Deliveries>(`/api/v1/webhooks/deliveries${query}`, { key })).body;
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
    const first = await list('?limit=1');
    expect((await list(`?limit=1&cursor=${first.nextCursor}`)).data).toMatchObject([
      { jobId: good },
    ]);
    expect((await list('', await gateway.newCaller({ credits: 0 }))).data).toEqual([]);
    expect((await gateway.call('/api/v1/webhooks/deliveries?state=lost')).status).toBe(400);
  });
});
