import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import type { accountSchema, usageRecord } from '../../api/endpoints/usage.ts';
import { createRequestReads } from '../../request-log/request-records.ts';
import { createRejectedRequests } from '../../request-log/rejected-requests.ts';
import { newId } from '../../domain/ids.ts';
import { postChat } from '../chat/raw-chat.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

interface UsageBody extends z.infer<typeof accountSchema> {
  usage: z.infer<typeof usageRecord>[];
  hasMore: boolean;
  nextCursor: string | null;
  error: string;
  details: { path: string }[];
}

const path = '/api/v1/usage';
const gateway = useGateway({ settled: 'last' });

const usage = async (caller: TestCaller, query = '', key = caller.key) =>
  (await gateway.call<UsageBody>(`${path}${query}`, { key })).body;
const paint = (key: string, body: object = {}) =>
  gateway.call('/api/v1/studio/image/generate', { key, body: { prompt: 'a lighthouse', ...body } });
/** A chat as the chat routes leave it: a reservation of kind `chat`, settled, with its tokens. */
async function chat(caller: TestCaller, id: string, chargedMicro: number): Promise<void> {
  const { chatLedger } = gateway.api.services;
  const { organizationId, keyId } = caller;
  const servedBy = { model: 'some/model', provider: 'openai' };
  await chatLedger.reserve({
    organizationId,
    id,
    amountMinMicro: chargedMicro * 2,
    amountExpectedMicro: chargedMicro * 2,
    amountMaxMicro: chargedMicro * 2,
    freeDivisor: 2,
    ttlMs: 60_000,
    chat: { keyId, ...servedBy, streamed: false, requestId: `req_of_${id}` },
  });
  await chatLedger.settle({
    organizationId,
    id,
    to: 'charged',
    amountMicro: chargedMicro,
    reason: 'done',
    inputTokens: 120,
    outputTokens: 34,
    countedBy: 'provider',
    servedBy,
  });
}

describe('GET /usage', () => {
  it('shows the balance, the window and records that equal the ledger, in pages', async () => {
    const caller = await gateway.newCaller({ credits: 100, windowCredits: 50 });
    const second = await gateway.newKey({}, caller.key);
    await paint(caller.key);
    await paint(second.key, { numImages: 2 });
    expect((await paint(caller.key, { prompt: '[[fail:422]] a failure' })).status).toBe(400);
    await chat(caller, 'chat_one', 123_456);
    await paint(second.key);

    const all = await usage(caller);
    const left = 100 - 4 * 3.9 - 0.123456;
    expect(all).toMatchObject({
      credits: left,
      balance: { available: left, reserved: 0, total: left },
      // Chats and released credits do not count towards the window.
      window: { limit: 50, used: 15.6, remaining: 34.4 },
      hasMore: false,
      nextCursor: null,
    });
    const { startedAt, resetAt } = all.window;
    expect(Date.parse(resetAt ?? '') - Date.parse(startedAt ?? '')).toBe(6 * 3_600_000);
    expect(
      all.usage.map(({ type, status, credits, keyId }) => [type, status, credits, keyId]),
    ).toEqual([
      ['imageGenerate', 'charged', 3.9, second.keyId],
      ['chat', 'charged', 0.123456, caller.keyId],
      ['imageGenerate', 'released', 0, caller.keyId],
      ['imageGenerate', 'charged', 7.8, second.keyId],
      ['imageGenerate', 'charged', 3.9, caller.keyId],
    ]);
    const [image, spoken] = all.usage;
    expect(image).toEqual({
      id: image?.jobId,
      jobId: expect.stringMatching(/^job_/),
      type: 'imageGenerate',
      model: 'nano-banana',
      status: 'charged',
      credits: 3.9,
      keyId: second.keyId,
      requestId: expect.stringMatching(/^req_/),
      metadata: {},
      endUser: null,
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    });
    expect(spoken).toMatchObject({ model: 'some/model', inputTokens: 120, outputTokens: 34 });
    expect(spoken).not.toHaveProperty('jobId');

    const [ledger] = await gateway.database.query<{ charged: string }>(
      `SELECT -sum(posted_change) AS charged FROM ledger_entry
        WHERE organization_id = $1 AND kind = 'charge'`,
      [caller.organizationId],
    );
    const micro = all.usage.reduce((sum, record) => sum + Math.round(record.credits * 1e6), 0);
    expect(micro).toBe(Number(ledger?.charged));

    // Page by page: the same records, none twice.
    const paged: UsageBody['usage'] = [];
    for (let query = '?limit=2'; ;) {
      const page = await usage(caller, query);
      paged.push(...page.usage);
      expect(page.usage.length).toBeLessThanOrEqual(2);
      expect(page.hasMore).toBe(page.nextCursor !== null);
      if (page.nextCursor === null) break;
      query = `?limit=2&cursor=${page.nextCursor}`;
    }
    expect(paged).toEqual(all.usage);

    // By key, and strictly later than what was shown last.
    const bySecond = await usage(caller, `?keyId=${second.keyId}`);
    expect(bySecond.usage).toEqual([all.usage[0], all.usage[3]]);
    const byFirst = await usage(caller, `?keyId=${caller.keyId}&limit=2`);
    expect(byFirst.usage).toEqual([all.usage[1], all.usage[2]]);
    const rest = await usage(caller, `?keyId=${caller.keyId}&cursor=${byFirst.nextCursor}`);
    expect(rest.usage).toEqual(all.usage.slice(-1));
    const readAfter = async (time: string) =>
      (await usage(caller, `?after=${encodeURIComponent(time)}`)).usage;
    for (const [index, { createdAt }] of all.usage.entries()) {
      const later = all.usage.slice(0, index).filter((record) => record.createdAt !== createdAt);
      expect(await readAfter(createdAt)).toEqual(later);
    }
    const offset = new Date(Date.parse(image?.createdAt ?? '') + 7_200_000 - 1).toISOString();
    expect(await readAfter(offset.replace('Z', '+02:00'))).toEqual([image]);
  });

  it('shows the reserved credits of a running job', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const jobId = await gateway.startImage({ prompt: '[[slow:600s]] a slow boat' }, caller.key);
    expect(await usage(caller)).toMatchObject({
      credits: 96.1,
      balance: { available: 96.1, reserved: 3.9, total: 100 },
      window: { limit: null, remaining: null, used: 3.9 },
      usage: [{ status: 'reserved', credits: 0, jobId }],
    });
    await gateway.untilAccepted(jobId);
    await gateway.sandbox.clearFaults();
    await gateway.untilDone(jobId, caller.key);
    expect((await usage(caller)).usage[0]).toMatchObject({ status: 'charged', credits: 3.9 });
  });

  it('works without credits, and shows nothing of other organizations', async () => {
    const poor = await gateway.newCaller({ credits: 0 });
    const rich = await gateway.newCaller({ credits: 100 });
    for (const id of ['chat_of_rich', 'chat_of_rich_too']) await chat(rich, id, 1000);
    const empty = {
      credits: 0,
      balance: { available: 0, reserved: 0, total: 0 },
      window: { limit: null, used: 0, remaining: null, startedAt: null, resetAt: null },
      storage: { limit: 53_687_091_200, used: 0, remaining: 53_687_091_200 },
      usage: [],
      hasMore: false,
      nextCursor: null,
    };
    expect(await usage(poor)).toEqual(empty);
    expect(await usage(poor, `?keyId=${rich.keyId}`)).toEqual(empty);
    // A cursor of another organization returns only the caller's own records.
    const { nextCursor } = await usage(rich, '?limit=1');
    expect(nextCursor).toEqual(expect.any(String));
    expect(await usage(poor, `?cursor=${nextCursor}`)).toEqual(empty);
  });

  it.each([
    ...'limit=0 limit=101 limit=-1 limit=1.5 limit=many limit= limit=1&limit=2'.split(' '),
    ...'after=yesterday after=2026-01-01 after=1700000000000 before=2026-01-01'.split(' '),
    ...'after=2026-13-01T00:00:00Z after=2026-01-01T00:00:00'.split(' '),
    ...'cursor=nonsense cursor= keyId=key_1 keyId=%00 model=%00 __proto__=1'.split(' '),
    `cursor=${Buffer.from("1.x' OR true").toString('base64url')}`,
  ])('rejects ?%s', async (query) => {
    const answer = await gateway.call<UsageBody>(`${path}?${query}`);
    expect(`${answer.status} ${answer.body.error}`).toBe('400 INVALID_REQUEST');
    expect(answer.body.details[0]?.path).toBe(query.split('=')[0]);
  });
});

interface RequestRow {
  id: string;
  kind: string;
  status: string;
  model: string | null;
  requestId: string;
  error: { code: string; status: number | null; field: string | null } | null;
}
interface RequestsBody {
  data: RequestRow[];
  hasMore: boolean;
  nextCursor: string | null;
  error: string;
}

describe('GET /requests', () => {
  const list = async (caller: TestCaller, query = '', key = caller.key) =>
    (await gateway.call<RequestsBody>(`/api/v1/requests${query}`, { key })).body;
  /** Lists the requests once the rejected ones are written. */
  const listed = (caller: TestCaller, count: number, query = '') =>
    until(async () => {
      const body = await list(caller, query);
      return body.data.length >= count ? body : null;
    });
  const say = (content: string) => [{ role: 'user', content }];
  const send = (caller: TestCaller, name: string, body: object, key = caller.key) =>
    gateway.call(`/api/v1/${name}`, { key, body });

  it('lists chats, embeddings and rejected requests with their figures, by filters and pages', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const second = await gateway.newKey({ scopes: ['usage:read'] }, caller.key);
    const limited = await gateway.newKey({ rateLimit: 1 }, caller.key);
    const long = { model: 'gpt-4o', messages: say('x'), max_tokens: -1 };
    expect((await send(caller, 'chat', long)).status).toBe(400);
    const stream = await postChat(gateway, caller, {
      body: { model: 'gpt-4o', messages: say('hello'), stream: true, metadata: { team: 'a' } },
    });
    await stream.text();
    const embedding = { model: 'text-embedding-3-small', input: 'a pier' };
    expect((await send(caller, 'embeddings', embedding)).status).toBe(200);
    const failing = { model: 'gpt-4o', messages: say('[[fail:400;message=secret words]] x') };
    expect((await send(caller, 'chat', failing)).status).toBe(400);
    // Rejected: an invalid field, an unknown model, a missing scope, an invalid number, a rate limit.
    const rejections = [
      [await send(caller, 'chat', long), 400],
      [await send(caller, 'chat/completions', { model: 'none/such', messages: say('x') }), 400],
      [await send(caller, 'studio/image/generate', { prompt: 'x' }, second.key), 403],
      [await send(caller, 'studio/image/generate', { prompt: 'a small boat', numImages: 99 }), 400],
      [await send(caller, 'embeddings', { model: 'two words', input: 'x' }), 404],
      // A new key continues the window of the key that made it.
      [await send(caller, 'chat', long, limited.key), 429],
    ] as const;
    for (const [answer, status] of rejections) expect(answer.status).toBe(status);
    // The error of an accepted job belongs to the job.
    expect((await paint(caller.key, { prompt: '[[fail:422]] a failure' })).status).toBe(400);
    // Estimates, counts, reads and requests without a key are not in the list.
    expect((await send(caller, 'messages/count_tokens', { model: 1 })).status).toBe(400);
    expect((await send(caller, 'chat/estimate', long)).status).toBe(400);
    expect((await gateway.call('/api/v1/studio/jobs/job_1', { key: caller.key })).status).toBe(404);
    expect((await gateway.call('/api/v1/chat', { key: null, body: long })).status).toBe(401);

    const all = await listed(caller, 10);
    expect(JSON.stringify(all)).not.toMatch(/secret words|hello|two words|pier/);
    expect(
      all.data.map(({ kind, status, model, error }) => [
        kind,
        status,
        model,
        error?.code,
        error?.status,
        error?.field,
      ]),
    ).toEqual([
      ['chat', 'rejected', null, 'Rate limit exceeded. Please slow down.', 429, null],
      ['embedding', 'rejected', null, 'UNKNOWN_MODEL', 404, 'model'],
      ['studio', 'rejected', null, 'INVALID_REQUEST', 400, 'numImages'],
      ['studio', 'rejected', null, 'FORBIDDEN', 403, null],
      ['chat', 'rejected', 'none/such', 'UNKNOWN_MODEL', 400, 'model'],
      ['chat', 'rejected', 'gpt-4o', 'INVALID_REQUEST', 400, 'max_tokens'],
      ['chat', 'failed', 'gpt-4o', 'PROVIDER_REJECTED_INPUT', null, null],
      ['embedding', 'completed', 'text-embedding-3-small', undefined, undefined, undefined],
      ['chat', 'completed', 'gpt-4o', undefined, undefined, undefined],
      ['chat', 'rejected', 'gpt-4o', 'INVALID_REQUEST', 400, 'max_tokens'],
    ]);
    const streamed = all.data.at(-2);
    expect(streamed).toEqual({
      id: expect.stringMatching(/^chat_/),
      kind: 'chat',
      status: 'completed',
      path: null,
      model: 'gpt-4o',
      provider: 'openai',
      streamed: true,
      inputTokens: 1,
      outputTokens: expect.any(Number),
      firstTokenMs: expect.any(Number),
      durationMs: expect.any(Number),
      credits: expect.any(Number),
      error: null,
      keyId: caller.keyId,
      requestId: expect.stringMatching(/^req_/),
      metadata: { team: 'a' },
      endUser: null,
      createdAt: expect.stringMatching(/Z$/),
    });
    expect(all.data[3]).toMatchObject({
      path: '/api/v1/studio/image/generate',
      keyId: second.keyId,
      durationMs: expect.any(Number),
      credits: 0,
    });
    const isRejected = ({ status }: RequestRow): boolean => status === 'rejected';
    const filters: [string, (row: RequestRow, index: number) => boolean][] = [
      ['status=rejected', isRejected],
      ['status=completed', ({ status }) => status === 'completed'],
      ['kind=embedding', ({ kind }) => kind === 'embedding'],
      ['kind=studio', ({ kind }) => kind === 'studio'],
      ['kind=studio&status=completed', () => false],
      ['model=gpt-4o', ({ model }) => model === 'gpt-4o'],
      ['provider=openai', (row) => !isRejected(row)],
      [`keyId=${second.keyId}`, (_, index) => index === 3],
      ['metadata[team]=a', (_, index) => index === 8],
      ['before=2026-01-01T00:00:00Z', () => false],
    ];
    for (const [query, isShown] of filters) {
      expect([query, (await list(caller, `?${query}`)).data]).toEqual([
        query,
        all.data.filter(isShown),
      ]);
    }
    const paged: RequestRow[] = [];
    for (let query = '?limit=3'; ;) {
      const page = await list(caller, query);
      paged.push(...page.data);
      expect(page.hasMore).toBe(page.nextCursor !== null);
      if (page.nextCursor === null) break;
      query = `?limit=3&cursor=${page.nextCursor}`;
    }
    expect(paged).toEqual(all.data);

    // A page that reads only three chats or fewer leads to the next one.
    const { pool } = gateway.api.services;
    for (const scannedMax of [1, 2, 3]) {
      const reads = createRequestReads(pool, scannedMax);
      const read: string[] = [];
      let cursor: string | undefined;
      do {
        const filter = { model: 'gpt-4o', limit: 2, cursor };
        const page = await reads.page(caller.organizationId, filter);
        read.push(...page.records.map(({ id }) => id));
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined);
      const expected = all.data.filter(({ model }) => model === 'gpt-4o').map(({ id }) => id);
      expect([scannedMax, read]).toEqual([scannedMax, expected]);
    }

    // Another organization sees none of them, and needs the scope.
    const other = await gateway.newCaller({ credits: 0 });
    expect(await list(other)).toMatchObject({ data: [], hasMore: false });
    const chatOnly = await gateway.newKey({ scopes: ['chat'] }, other.key);
    expect(await list(other, '', chatOnly.key)).toMatchObject({ error: 'FORBIDDEN' });
    const newest = all.data[0];
    for (const [id, row] of [
      [newest?.id, newest],
      [newest?.requestId, newest],
      [streamed?.id, streamed],
      [streamed?.requestId, streamed],
    ] as const) {
      const one = `/api/v1/requests/${id}`;
      const own = await gateway.call<{ data: RequestRow }>(one, { key: caller.key });
      expect(own.body.data).toEqual(row);
      const foreign = await gateway.call(one, { key: other.key });
      expect([foreign.status, foreign.body.error]).toEqual([404, 'NOT_FOUND']);
    }
  });

  it('keeps the newest rejected requests of each organization, and those of 24 hours', async () => {
    const { organizationId, keyId, key } = await gateway.newCaller({ credits: 0 });
    const other = await gateway.newCaller({ credits: 0 });
    const { pool, logger } = gateway.api.services;
    const log = createRejectedRequests(pool, logger, { rowsMax: 5 });
    const twin = createRejectedRequests(pool, logger, { rowsMax: 5 });
    const hourMs = 3_600_000;
    const rejected = (number: number, ageMs: number, holder = { organizationId, keyId }) => ({
      id: `rej_${String(number).padStart(32, '0')}`,
      ...holder,
      endUser: null,
      createdAtMs: Date.now() - ageMs,
      kind: 'chat' as const,
      path: '/api/v1/chat',
      model: null,
      status: 429,
      errorCode: 'Rate limit exceeded. Please slow down.' as const,
      field: null,
      requestId: `req_${number}`,
      durationMs: 1,
    });
    log.add(rejected(900, 1, other));
    // The buffer takes 100 requests of one organization.
    for (let number = 0; number < 150; number += 1) log.add(rejected(number, 1000 - number));
    await log.flush();
    const stored = async (id: string): Promise<string[]> => {
      const rows = await gateway.database.query<{ id: string }>(
        'SELECT id FROM rejected_request WHERE organization_id = $1 ORDER BY created_at DESC, id DESC',
        [id],
      );
      return rows.map((row) => row.id.replace(/^rej_0*/, ''));
    };
    expect(await stored(organizationId)).toEqual(['99', '98', '97', '96', '95']);
    expect(await stored(other.organizationId)).toEqual(['900']);
    // Two processes at the same time keep the maximum too.
    for (let number = 200; number < 210; number += 1) {
      (number % 2 ? log : twin).add(rejected(number, 300 - number));
    }
    await Promise.all([log.flush(), twin.flush()]);
    expect(await stored(organizationId)).toEqual(['209', '208', '207', '206', '205']);

    log.add(rejected(1, 25 * hourMs, other));
    await log.flush();
    expect(await stored(other.organizationId)).toEqual(['900', '1']);
    expect((await list(other)).data).toHaveLength(1);
    await log.sweep();
    expect(await stored(other.organizationId)).toEqual(['900']);
    expect((await gateway.call<RequestsBody>('/api/v1/requests', { key })).body.data).toHaveLength(
      5,
    );
  });
});

describe('the usage feed', () => {
  interface Feed {
    data: Record<string, unknown>[];
    hasMore: boolean;
    nextAfter: number;
    archivedThrough: number;
    archive: string;
    error: string;
  }
  const at = '/api/v1/usage/events';

  it('has each charge, release, refund and grant once, by the numbers of the ledger, and the same again', async () => {
    const caller = await gateway.newCaller();
    const { key, organizationId, keyId } = caller;
    const read = async (query = '', as = key) =>
      (await gateway.call<Feed>(`${at}${query}`, { key: as })).body;
    await paint(key, { numImages: 2, metadata: { team: 'art' } });
    await paint(key, { prompt: '[[fail:422]] a failure' });
    await chat(caller, newId('chat'), 120);
    const refund = { id: 'case-1', credits: 1, reason: 'blurred' };
    const [record] = (await usage(caller, '?type=imageGenerate&status=charged')).usage;
    const id = record?.id ?? '';
    expect((await gateway.admin(`/jobs/${id}/refunds`, refund)).status).toBe(200);
    const all = await read();
    expect(all).toMatchObject({ hasMore: false, nextAfter: all.data.at(-1)?.['number'] });
    const shared = { organizationId, metadata: {}, priceRows: [] };
    expect(all.data).toMatchObject([
      { ...shared, kind: 'grant', number: 1, credits: 100, startedAt: null, quantity: null },
      {
        ...shared,
        kind: 'charge',
        number: 3,
        id: `${organizationId}:3`,
        credits: 7.8,
        quantity: 2,
        unit: 'image',
        type: 'imageGenerate',
        model: 'nano-banana',
        keyId,
        metadata: { team: 'art' },
        jobId: id,
        chatId: null,
      },
      { ...shared, kind: 'release', number: 5, credits: 0, quantity: null, unit: null },
      {
        ...shared,
        kind: 'charge',
        number: 7,
        type: 'chat',
        credits: 0.00012,
        quantity: 154,
        unit: 'token',
        inputTokens: 120,
        outputTokens: 34,
      },
      {
        ...shared,
        kind: 'refund',
        number: 8,
        credits: -1,
        jobId: id,
        quantity: null,
      },
    ]);
    const pages: Feed['data'] = [];
    for (let after = 0; ;) {
      const page = await read(`?after=${after}&limit=2`);
      pages.push(...page.data);
      after = page.nextAfter;
      if (!page.hasMore) break;
    }
    expect(pages).toEqual(all.data);
    const headers = { authorization: `Bearer ${key}`, accept: 'application/x-ndjson' };
    const lines = await (await fetch(`${gateway.url}${at}?after=3`, { headers })).text();
    expect(
      lines
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as object),
    ).toEqual(all.data.slice(2));
    expect(await read('?after=8')).toMatchObject({ data: [], hasMore: false, nextAfter: 8 });
    // Nothing of another organization, also with its numbers.
    const other = await gateway.newCaller();
    expect((await read('', other.key)).data).toMatchObject([{ kind: 'grant' }]);
    const scoped = await gateway.newKey({ scopes: ['chat'] }, key);
    expect((await gateway.call(at, { key: scoped.key })).status).toBe(403);
    const asOperator = await gateway.admin<Feed>(
      `/organizations/${organizationId}/usage-events?after=7`,
    );
    expect(asOperator.body.data).toEqual(all.data.slice(4));
    const positions: object[] = [];
    for (let cursor: string | null = ''; cursor !== null;) {
      const page: { body: { data: object[]; nextCursor: string | null } } = await gateway.admin(
        `/usage-positions?limit=200${cursor && `&cursor=${cursor}`}`,
      );
      positions.push(...page.body.data);
      cursor = page.body.nextCursor;
    }
    expect(positions).toContainEqual({ organizationId, lastNumber: 8 });
  });

  it('names the archive instead of leaving out archived events', async () => {
    const caller = await gateway.newCaller();
    const { organizationId, key } = caller;
    await gateway.database.query(
      `INSERT INTO archive_segment (organization_id, sequence, first_sequence, posted, reserved, reservations, charged, net,
         storage_key, sha256) VALUES ($1, 1, 1, 100000000, 0, 0, 0, 0, 'archive_1', '')`,
      [organizationId],
    );
    const { status, body } = await gateway.call<Feed>(at, { key });
    expect([status, body]).toMatchObject([
      410,
      { error: 'USAGE_ARCHIVED', archivedThrough: 1, archive: 'archive_1' },
    ]);
    expect((await gateway.call<Feed>(`${at}?after=1`, { key })).body.data).toEqual([]);
    await gateway.database.query('DELETE FROM archive_segment WHERE organization_id = $1', [
      organizationId,
    ]);
  });
});
