/**
 * Tags: the `metadata` of a job or chat appears wherever the job or chat does, filters lists, and
 * is invisible to other organizations with the same tags.
 */
import { describe, expect, it } from 'vitest';
import { endpoints } from '../../api/endpoints/index.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { recordTone } from '../harness/recordings.ts';
import { makeForm } from '../harness/uploads.ts';
import { until, untilHolds } from '../harness/until.ts';

interface Listed {
  data: { jobId: string; metadata: object; createdAt: string }[];
  hasMore: boolean;
  nextCursor: string | null;
}
interface UsageBody {
  usage: { id: string; type: string; metadata: object }[];
  nextCursor: string | null;
}

const imagePath = '/api/v1/studio/image/generate';
const gateway = useGateway({ settled: 'last' });

const paint = async ({ key }: TestCaller, body: object) => {
  const jobId = await gateway.startImage({ prompt: 'a tree', ...body }, key);
  return (await gateway.untilDone(jobId, key)).body.data.jobId;
};
const chat = (caller: TestCaller, body: object, path = '/api/v1/chat') =>
  gateway.call<{ id: string; error: string; message: string }>(path, {
    key: caller.key,
    body: { model: 'gpt-4o', messages: [{ role: 'user', content: 'hello' }], ...body },
  });
const jobs = async (caller: TestCaller, query: string) =>
  (await gateway.call<Listed>(`/api/v1/studio/jobs${query}`, { key: caller.key })).body;
const usage = async (caller: TestCaller, query: string) =>
  (await gateway.call<UsageBody>(`/api/v1/usage${query}`, { key: caller.key })).body;
const toIds = (list: Listed) => list.data.map(({ jobId }) => jobId);

describe('metadata of a Studio job', () => {
  it('is in the job, its webhook, its usage record and Temporal', async () => {
    const metadata = { team: 'marketing', 'order.id': 'ä=b "7"' };
    const webhookUrl = gateway.receiver.at('/tagged');
    const jobId = await paint(gateway.caller, { metadata, webhookUrl });
    const { body } = await gateway.call<{ data: object }>(`/api/v1/studio/jobs/${jobId}`);
    expect(body.data).toMatchObject({ metadata, keyId: gateway.caller.keyId });
    const [hook] = await gateway.receiver.untilReceived('/tagged');
    expect(hook?.body).toMatchObject({ data: { jobId, metadata } });
    const [record] = (await usage(gateway.caller, '?limit=1')).usage;
    expect(record).toMatchObject({ jobId, metadata });
    const found = await until(async () => {
      const ids: string[] = [];
      const query = `Metadata = 'team=marketing' AND WorkflowType = 'imageGenerate' AND OrganizationId = '${gateway.caller.organizationId}'`;
      for await (const { workflowId } of gateway.api.client.workflow.list({ query })) {
        ids.push(workflowId);
      }
      return ids.length > 0 ? ids : null;
    });
    expect(found).toEqual([jobId]);
  });

  it('is accepted at its maximum size, and Temporal has the part that fits', async () => {
    const pairs = Array.from({ length: 16 }, (_, n) => [`${n}`.padEnd(64, 'x'), 'ü'.repeat(512)]);
    const metadata = { ...Object.fromEntries(pairs.slice(1)), short: 'yes' };
    const jobId = await paint(gateway.caller, { metadata });
    const list = await jobs(gateway.caller, '?metadata[short]=yes');
    expect(list.data).toMatchObject([{ jobId, metadata }]);
    const { typedSearchAttributes } = await gateway.getWorkflow(jobId).describe();
    expect(
      typedSearchAttributes.getAll().find(({ key }) => key.name === 'Metadata')?.value,
    ).toEqual(['short=yes']);
  });

  it('is accepted as JSON in a form', async () => {
    const file = new File([await recordTone(1)], 'talk.mp3');
    const body = makeForm({ file, metadata: '{"team":"support"}' });
    expect(await gateway.call('/api/v1/studio/audio/transcribe', { body })).toMatchObject({
      status: 200,
    });
    expect((await jobs(gateway.caller, '?metadata[team]=support')).data).toHaveLength(1);
  });

  it('is part of the request that an Idempotency-Key identifies', async () => {
    const headers = { 'idempotency-key': 'tagged' };
    const statuses: number[] = [];
    for (const metadata of [{ team: 'a' }, { team: 'a' }, { team: 'b' }, undefined]) {
      const body = { prompt: 'a tree', metadata };
      statuses.push((await gateway.call(imagePath, { body, headers })).status);
    }
    expect(statuses).toEqual([200, 200, 422, 422]);
  });

  it.each([
    ['17 pairs', Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`k${n}`, 'x'])), '16'],
    ['a number', { team: 7 }, 'metadata.team'],
    ['a nested object', { team: { a: 'b' } }, 'metadata.team'],
    ['a long value', { team: 'x'.repeat(513) }, '512'],
    ['a value with a line break', { team: 'a\nb' }, 'control characters'],
    ['a long name', { ['x'.repeat(65)]: 'a' }, '1–64'],
    ['a name with a bracket', { 'a]': 'a' }, '1–64'],
    ['no name', { '': 'a' }, '1–64'],
    ['a list', ['a'], 'metadata'],
    ['a text', 'team=a', 'metadata'],
  ])('is rejected with %s, and no job starts', async (_, metadata, text) => {
    const caller = await gateway.newCaller({ credits: 100 });
    const body = { prompt: 'a tree', metadata };
    for (const answer of [
      await gateway.call(imagePath, { key: caller.key, body }),
      await chat(caller, { metadata }),
    ]) {
      expect([answer.status, answer.body.message]).toEqual([400, expect.stringContaining(text)]);
    }
    const spelled = '{"prompt": "a tree", "metadata": {"__proto__": "x"}}';
    expect((await gateway.call(imagePath, { key: caller.key, body: spelled })).status).toBe(400);
    expect((await usage(caller, '')).usage).toEqual([]);
  });
});

describe('metadata of a chat', () => {
  it.each(['/api/v1/chat', '/api/v1/chat/completions'])(
    'is in the usage record for %s',
    async (path) => {
      const caller = await gateway.newCaller({ credits: 100 });
      for (const metadata of [{ team: 'ops' }, undefined]) {
        expect((await chat(caller, { metadata, max_tokens: 20 }, path)).status).toBe(200);
      }
      const records = await until(async () => {
        const page = await usage(caller, '');
        return page.usage.length === 2 && page.usage;
      });
      expect(records.map(({ metadata }) => metadata)).toEqual([{}, { team: 'ops' }]);
      expect((await usage(caller, '?metadata[team]=ops')).usage).toEqual(records.slice(1));
      const tags = `SELECT id FROM metadata_pair WHERE organization_id = $1`;
      expect(await gateway.database.query(tags, [caller.organizationId])).toHaveLength(1);
    },
  );
});

describe('lists', () => {
  it('are filtered by tags, models, keys, types, statuses and times, in pages', async () => {
    const caller = await gateway.newCaller({ credits: 1000 });
    const second = await gateway.newKey({}, caller.key);
    const a = await paint(caller, { metadata: { team: 'a', env: 'live' } });
    const b = await paint(caller, { metadata: { team: 'a', env: 'test' }, model: 'seedream' });
    const c = await paint({ ...caller, ...second }, { metadata: { team: 'b' } });
    const plain = await paint(caller, {});
    await gateway.sandbox.inject({ match: 'a failure', faults: 'fail:422', times: 1 });
    const failed = await paint(caller, { prompt: 'a failure', metadata: { team: 'a' } });
    await chat(caller, { metadata: { team: 'a' }, max_tokens: 20 });

    const found = async (query: string) => toIds(await jobs(caller, query));
    expect(await found('?metadata[team]=a')).toEqual([failed, b, a]);
    expect(await found('?metadata[team]=a&metadata[env]=live')).toEqual([a]);
    expect(await found('?metadata[team]=a&status=completed&model=seedream')).toEqual([b]);
    expect(await found('?metadata[team]=c')).toEqual([]);
    expect(await found('?status=failed')).toEqual([failed]);
    expect(await found(`?keyId=${second.keyId}`)).toEqual([c]);
    expect(await found('?model=seedream')).toEqual([b]);
    const { data } = await jobs(caller, '');
    const at = encodeURIComponent(data.find(({ jobId }) => jobId === b)?.createdAt ?? '');
    expect(await found(`?before=${at}`)).toEqual([a]);
    expect(await found(`?after=${at}`)).toEqual([failed, plain, c]);
    const first = await jobs(caller, '?metadata[team]=a&limit=2');
    expect([toIds(first), first.hasMore]).toEqual([[failed, b], true]);
    expect(await found(`?metadata[team]=a&limit=2&cursor=${first.nextCursor}`)).toEqual([a]);

    const ids = async (query: string) =>
      (await usage(caller, query)).usage.map(({ id, type }) => (type === 'chat' ? 'chat' : id));
    await untilHolds(async () => expect(await ids('')).toHaveLength(6));
    expect(await ids('?metadata[team]=a')).toEqual(['chat', failed, b, a]);
    expect(await ids('?metadata[team]=a&type=chat')).toEqual(['chat']);
    expect(await ids('?type=imageGenerate&model=seedream')).toEqual([b]);
    expect(await ids('?status=released')).toEqual([failed]);
    expect(await ids(`?keyId=${second.keyId}&metadata[team]=a`)).toEqual([]);
    const { nextCursor } = await usage(caller, '?metadata[team]=a&limit=2');
    expect(await ids(`?metadata[team]=a&limit=2&cursor=${nextCursor}`)).toEqual([b, a]);
  });

  it('of another organization are unaffected by the same tag', async () => {
    const one = await gateway.newCaller({ credits: 100 });
    const other = await gateway.newCaller({ credits: 100 });
    const metadata = { 'tenant-id': 'shared', secret: one.organizationId };
    const mine = await paint(one, { metadata });
    await chat(one, { metadata, max_tokens: 20 });
    const otherJobId = await paint(other, { metadata: { 'tenant-id': 'shared' } });
    expect(toIds(await jobs(other, '?metadata[tenant-id]=shared'))).toEqual([otherJobId]);
    expect(toIds(await jobs(one, '?metadata[tenant-id]=shared'))).toEqual([mine]);
    expect((await jobs(other, `?metadata[secret]=${one.organizationId}`)).data).toEqual([]);
    expect((await jobs(other, `?keyId=${one.keyId}`)).data).toEqual([]);
    expect((await usage(other, `?metadata[secret]=${one.organizationId}`)).usage).toEqual([]);
    const path = '/api/v1/usage/summary?groupBy=metadata.tenant-id,metadata.secret';
    const { body } = await gateway.call<object>(path, { key: other.key });
    expect(body).toMatchObject({
      rows: [{ metadata: { 'tenant-id': 'shared', secret: null }, requests: 1 }],
    });
  });

  it.each([
    ['?metadata[a b]=x', 'metadata'],
    ['?metadata=x', 'metadata'],
    ['?metadata[a]=x&metadata[a]=y', 'metadata.a'],
    ['?metadata[__proto__]=x', 'metadata'],
    ['?keyId=nope', 'keyId'],
    ['?before=yesterday', 'before'],
  ])('reject %s', async (query, named) => {
    for (const path of ['/api/v1/studio/jobs', '/api/v1/usage', '/api/v1/usage/summary']) {
      const answer = await gateway.call(`${path}${query}`);
      expect([answer.status, answer.body.details[0]?.path], path).toEqual([400, named]);
    }
  });
});

describe('GET /usage/summary', () => {
  interface Summary {
    rows: Record<string, unknown>[];
    total: { requests: number; credits: number; inputTokens: number };
    after: string;
    before: string;
    details: { path: string }[];
  }
  const summary = (caller: TestCaller, query: string, headers = {}) =>
    gateway.call<Summary>(`/api/v1/usage/summary${query}`, { key: caller.key, headers });

  it('equals the ledger for every grouping, as JSON and as CSV', async () => {
    const caller = await gateway.newCaller({ credits: 1000 });
    await paint(caller, { metadata: { team: '=SUM(A1), "x"' } });
    await paint(caller, { metadata: { team: ';=1+1' }, numImages: 2 });
    await paint(caller, { metadata: { team: '@SUM(A1)' } });
    await chat(caller, { max_tokens: 20 });
    const { body } = await until(async () => {
      const found = await summary(caller, '');
      return found.body.total.requests === 4 && found.body.total.inputTokens > 0 ? found : null;
    });
    const [ledger] = await gateway.database.query<{ charged: string }>(
      `SELECT -sum(posted_change) AS charged FROM ledger_entry WHERE organization_id = $1 AND posted_change < 0`,
      [caller.organizationId],
    );
    expect(Math.round(body.total.credits * 1e6)).toBe(Number(ledger?.charged));
    const today = new Date().toISOString().slice(0, 10);
    expect(body.rows).toMatchObject([{ day: today, requests: 4 }]);

    const { keyId } = caller;
    const tokens = { inputTokens: expect.any(Number), outputTokens: expect.any(Number) };
    const images = { type: 'imageGenerate', model: 'nano-banana', requests: 3, credits: 15.6 };
    expect((await summary(caller, '?groupBy=type,model,key')).body.rows).toEqual([
      { type: 'chat', model: 'gpt-4o', keyId, requests: 1, credits: expect.any(Number), ...tokens },
      { ...images, keyId, inputTokens: 0, outputTokens: 0 },
    ]);
    expect((await summary(caller, '?type=chat')).body.rows).toMatchObject([{ requests: 1 }]);
    expect((await summary(caller, '?before=2020-01-01T00:00:00Z')).body).toMatchObject({
      rows: [],
      total: { requests: 0, credits: 0 },
      after: '2019-12-02T00:00:00.000Z',
    });
    await expectCsv(caller);
    const json = await summary(caller, '?format=json', { accept: 'text/csv' });
    expect(json.body.rows).toHaveLength(1);
  });

  /** Checks the CSV by tag; formulas of spreadsheets are quoted. */
  async function expectCsv(caller: TestCaller): Promise<void> {
    const expected =
      '"metadata.team","keyId","requests","credits","inputTokens","outputTokens"\r\n' +
      `";=1+1","${caller.keyId}",1,7.8,0,0\r\n` +
      `"'=SUM(A1), ""x""","${caller.keyId}",1,3.9,0,0\r\n` +
      `"'@SUM(A1)","${caller.keyId}",1,3.9,0,0\r\n`;
    const path = '/api/v1/usage/summary?groupBy=metadata.team,key&type=imageGenerate';
    for (const [query, accept] of [
      ['&format=csv', '*/*'],
      ['', 'text/csv'],
    ] as const) {
      const answer = await fetch(`${gateway.url}${path}${query}`, {
        headers: { authorization: `Bearer ${caller.key}`, accept },
      });
      expect(answer.headers.get('content-type')).toBe('text/csv; charset=utf-8');
      expect(await answer.text()).toBe(expected);
    }
    const marked = await fetch(`${gateway.url}${path}&format=csv&bom=true`, {
      headers: { authorization: `Bearer ${caller.key}` },
    });
    expect(Buffer.from(await marked.arrayBuffer()).toString()).toBe(`\uFEFF${expected}`);
  }

  it('is rejected instead of cut off when it has more than 10,000 rows', async () => {
    const endpoint = endpoints.find(({ id }) => id === 'getUsageSummary');
    const call = { ctx: { vary: () => {} }, caller: gateway.caller, query: { groupBy: ['day'] } };
    const row = { keys: ['x'], requests: 1, creditsMicro: 1, inputTokens: 0, outputTokens: 0 };
    const sum = (_: string, { limit }: { limit: number }) =>
      Array.from({ length: limit }, () => row);
    const handle = async () => endpoint?.handle(call as never, { usageSums: { sum } } as never);
    await expect(handle()).rejects.toThrow('more than 10000 rows');
  });

  it.each([
    ['?groupBy=', 'groupBy'],
    ['?groupBy=colour', 'groupBy'],
    ['?groupBy=day,day', 'groupBy'],
    ['?groupBy=metadata.', 'groupBy'],
    ['?groupBy=day,model,key,type,metadata.a,metadata.b', 'groupBy'],
    ['?format=xml', 'format'],
    ['?after=2020-01-01T00:00:00Z', 'after'],
    ['?after=2026-01-02T00:00:00Z&before=2026-01-01T00:00:00Z', 'after'],
    ['?by=charged', 'by'],
    ['?by=booked&after=2026-01-01T00:00:00.001Z&before=2026-02-01T00:00:00Z', 'after'],
    ['?by=booked&after=2026-01-01T00:00:00Z&before=2026-02-01T00:00:00%2B01:00', 'before'],
    ['?by=booked&groupBy=metadata.team', 'by'],
    ['?by=booked&metadata[team]=a', 'by'],
  ])('rejects %s', async (query, named) => {
    const answer = await summary(gateway.caller, query);
    expect([answer.status, answer.body.details[0]?.path]).toEqual([400, named]);
  });
});
