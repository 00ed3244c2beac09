/** End users: each kind of request records whom it is for, wherever its record is shown. */
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway, type CallOptions } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';
import { openRequest } from '../harness/raw-requests.ts';
import { makeForm } from '../harness/uploads.ts';
import { untilHolds } from '../harness/until.ts';
import { createBulkCalls, item } from '../bulk/bulk-calls.ts';

interface UsageRow {
  jobId?: string;
  endUser: string | null;
  metadata: object;
}

const gateway = useGateway({ settled: 'last' });
const bulk = createBulkCalls(gateway);
const header = (endUser: string) => ({ 'x-end-user': endUser });
const prompt = 'a lighthouse';
const messages = [{ role: 'user', content: 'hello' }];
const chat = { model: 'gpt-4o', max_tokens: 20, messages };
const response = { model: 'gpt-4o', max_output_tokens: 20, input: 'hello' };
const step = { id: 'art', use: 'image/generate', body: { prompt } };

/** Requests, each for an end user of its own: its path, body and header. */
const doors: Record<string, [path: string, body: () => unknown, headers?: Record<string, string>]> =
  {
    studio: ['/studio/image/generate', () => ({ prompt, endUser: 'studio' })],
    'studio header': ['/studio/sfx/generate', () => ({ prompt }), header('studio header')],
    async: ['/studio/image/generate', () => ({ prompt, async: true, endUser: 'async' })],
    pipeline: ['/studio/pipelines', () => ({ steps: [step], endUser: 'pipeline' })],
    form: [
      '/studio/audio/transcribe',
      () => makeForm({ file: new File([tone], 'talk.mp3'), endUser: 'form' }),
    ],
    chat: ['/chat', () => ({ ...chat, endUser: 'chat' })],
    'chat job': ['/chat', () => ({ ...chat, async: true, endUser: 'chat job' })],
    'chat user': ['/chat/completions', () => ({ ...chat, user: 'chat user' })],
    'chat identifier': [
      '/chat/completions',
      () => ({ ...chat, user: 'other', safety_identifier: 'chat identifier' }),
    ],
    'chat stream': ['/chat/completions', () => ({ ...chat, stream: true, user: 'chat stream' })],
    response: ['/responses', () => ({ ...response, user: 'response' })],
    'background response': [
      '/responses',
      () => ({ ...response, background: true, endUser: 'background response' }),
    ],
    message: ['/messages', () => ({ ...chat, endUser: 'message' })],
    'message header': [
      '/messages',
      () => ({ ...chat, metadata: { user_id: 'a session' } }),
      header('message header'),
    ],
    embedding: [
      '/embeddings',
      () => ({ model: 'text-embedding-3-small', input: 'hello', user: 'embedding' }),
    ],
    images: ['/images/generations', () => ({ prompt, user: 'images' })],
    edits: [
      '/images/edits',
      () => makeForm({ image: new File([picture], 'a.png'), prompt, user: 'edits' }),
    ],
    speech: [
      '/audio/speech',
      () => ({ model: 'eleven_multilingual_v2', input: 'hello', voice: 'rachel' }),
      header('speech'),
    ],
    transcription: [
      '/audio/transcriptions',
      () => makeForm({ file: new File([tone], 'talk.mp3'), model: 'scribe_v2' }),
      header('transcription'),
    ],
    video: ['/videos', () => ({ prompt }), header('video')],
    'größe in UTF-8': [
      '/chat',
      () => chat,
      header(Buffer.from('größe in UTF-8').toString('latin1')),
    ],
  };
let tone: Buffer<ArrayBuffer>;
let picture: Buffer<ArrayBuffer>;

const send = (
  path: string,
  { headers = {}, ...options }: Omit<CallOptions, 'method'> & { body: unknown },
) => gateway.call(`/api/v1${path}`, { ...options, headers });
const readUsage = async (query: string) =>
  (await gateway.call<{ usage: UsageRow[] }>(`/api/v1/usage?limit=100${query}`)).body.usage;

beforeAll(async () => {
  tone = Buffer.from(await recordTone(1));
  picture = Buffer.from(await drawDisc(64, 64));
});

describe('the end user of a request', () => {
  it.each(Object.entries(doors))('is recorded: %s', async (endUser, [path, body, headers]) => {
    const answer = await send(path, { body: body(), ...(headers && { headers }) });
    expect([200, 202], JSON.stringify(answer.body)).toContain(answer.status);
    const query = `&endUser=${encodeURIComponent(endUser)}`;
    await untilHolds(async () =>
      expect(await readUsage(query)).toMatchObject([{ endUser, metadata: {} }]),
    );
    const [record] = await readUsage(query);
    const isChat = record?.jobId === undefined;
    const path2 = isChat ? '/api/v1/requests' : '/api/v1/studio/jobs';
    const list = await gateway.call<{ data: unknown }>(`${path2}?limit=50${query}`);
    expect(list.body.data).toMatchObject([{ endUser, metadata: {} }]);
    const { body: summary } = await gateway.call<{ rows: unknown }>(
      `/api/v1/usage/summary?groupBy=endUser${query}`,
    );
    expect(summary.rows).toMatchObject([{ endUser, requests: 1 }]);
  });

  it('of a rejected request is listed with it, unless the body was not read', async () => {
    await gateway.send('/api/v1/end-users/poor', {
      method: 'PUT',
      body: { limit: { credits: 0, per: 'total' } },
    });
    const minted = await gateway.call<{ data: { token: string } }>(
      '/api/v1/end-users/poor/tokens',
      { body: {} },
    );
    const { token } = minted.body.data;
    await send('/chat', { body: { ...chat, endUser: 'poor' } });
    await send('/studio/image/generate', { body: { prompt }, headers: header('poor') });
    await send('/chat', { body: {}, key: token });
    await send('/chat', { body: {}, headers: header('poor') });
    await gateway.api.services.rejectedRequests.flush();
    const list = async (query: string) =>
      (await gateway.call<{ data: object[] }>(`/api/v1/requests?${query}`)).body.data;
    const code = 'END_USER_LIMIT_EXCEEDED';
    expect(await list('endUser=poor')).toMatchObject([
      { endUser: 'poor', error: { code: 'INVALID_REQUEST' }, metadata: {} },
      { endUser: 'poor', kind: 'studio', error: { code } },
      { endUser: 'poor', kind: 'chat', error: { code } },
    ]);
    expect(await list('endUser=poor&metadata[team]=x')).toEqual([]);
    expect(await list('status=rejected&limit=1')).toMatchObject([{ endUser: null }]);
  });

  it('of a bulk job is that of its items, which may name others', async () => {
    const items = [item(prompt), item('b', { body: { prompt, endUser: 'bulk item' } })];
    const { bulkId } = await bulk.accept({ items, endUser: 'bulk', metadata: { name: 'x' } });
    expect(await bulk.untilDone(bulkId)).toMatchObject({
      endUser: 'bulk',
      metadata: { name: 'x' },
    });
    const byHeader = await bulk.start(
      { items: [item(prompt)] },
      { headers: header('bulk header') },
    );
    await bulk.untilDone(byHeader.body.data.bulkId);
    for (const endUser of ['bulk', 'bulk item', 'bulk header'])
      expect(await readUsage(`&endUser=${encodeURIComponent(endUser)}`)).toMatchObject([
        { endUser },
      ]);
  });

  it('of a recipe is that of its requests, and that of a pipeline that of its resumption', async () => {
    const recipe = { use: 'pipelines', body: { steps: [step], endUser: 'recipe' } };
    const saved = await gateway.call('/api/v1/studio/recipes/for-one', {
      method: 'PUT',
      body: recipe,
    });
    expect(saved.status, JSON.stringify(saved.body)).toBe(200);
    const made = await send('/studio/pipelines', { body: { recipe: 'for-one' } });
    const jobId = made.headers.get('x-job-id') ?? '';
    const resumed = await send(`/studio/jobs/${jobId}/resume`, { body: { from: 'art' } });
    expect(resumed.status, JSON.stringify(resumed.body)).toBe(200);
    expect(await readUsage('&endUser=recipe')).toMatchObject([
      { jobId: resumed.headers.get('x-job-id') },
      { jobId },
    ]);
  });

  it('is a part of what an Idempotency-Key identifies, and never a part of metadata', async () => {
    const statuses: number[] = [];
    for (const endUser of ['one', 'one', 'two', undefined]) {
      const headers = { 'idempotency-key': 'for-one', ...(endUser && header(endUser)) };
      statuses.push((await send('/chat', { body: chat, headers })).status);
    }
    expect(statuses).toEqual([200, 200, 422, 422]);
    const { body } = await send('/responses', { body: { ...response, endUser: 'one' } });
    expect(body).toMatchObject({ metadata: {} });
  });

  it('that OpenAI’s fields name may be any text: a long one is replaced by its hash', async () => {
    const user = 'x'.repeat(200);
    expect((await send('/chat/completions', { body: { ...chat, user } })).status).toBe(200);
    await untilHolds(async () =>
      expect(
        (await readUsage('')).some(({ endUser }) => /^[0-9a-f]{64}$/.test(endUser ?? '')),
      ).toBe(true),
    );
  });

  it.each([
    ['/studio/image/generate', { prompt, endUser: '' }, {}, 400, 'endUser'],
    ['/studio/image/generate', { prompt, endUser: '*' }, {}, 400, 'endUser'],
    ['/studio/image/generate', { prompt, endUser: '.' }, {}, 400, 'endUser'],
    ['/studio/image/generate', { prompt, endUser: '..' }, {}, 400, 'endUser'],
    ['/studio/image/generate', { prompt, endUser: 'x'.repeat(129) }, {}, 400, 'endUser'],
    ['/studio/image/generate', { prompt, endUser: 'a\nb' }, {}, 400, 'endUser'],
    ['/chat', { ...chat, endUser: 7 }, {}, 400, 'endUser'],
    ['/chat', { ...chat, metadata: { $endUser: 'x' } }, {}, 400, 'metadata'],
    ['/chat', chat, header('*'), 400, 'X-End-User'],
    ['/chat', chat, header('\u00ff'), 400, 'X-End-User'],
    ['/chat', { ...chat, endUser: 'a' }, header('b'), 400, 'endUser'],
    ['/studio/bulk', { items: [item('a')], endUser: 'a' }, header('b'), 400, 'endUser'],
  ])('is checked: %s %j %j', async (path, body, headers, status, field) => {
    const answer = await send(path, { body, headers });
    expect([answer.status, answer.body.details[0]?.path]).toEqual([status, field]);
  });

  it.each(['/api/v1/chat', '/mcp'])('must not be repeated in the header: %s', async (path) => {
    const { client, status, text } = openRequest(`${gateway.url}${path}`, {
      authorization: `Bearer ${gateway.caller.key}`,
      'content-type': 'application/json',
      'x-end-user': ['ann', 'bob'],
    });
    client.end(JSON.stringify(chat));
    expect([await status, JSON.parse(await text)]).toMatchObject([
      400,
      { message: 'X-End-User: must not be repeated' },
    ]);
  });
});
