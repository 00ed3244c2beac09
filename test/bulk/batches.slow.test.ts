/** Batches and files of OpenAI's API, with its official client, as its documentation shows them. */
import { toFile, type OpenAI } from 'openai';
import type { Batch } from 'openai/resources/batches';
import { describe, expect, it } from 'vitest';
import { readChats } from '../chat/chat-account.ts';
import { makeClients, useClients } from '../chat/chat-clients.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { until } from '../harness/until.ts';
import { drawDisc } from '../harness/media.ts';
import { makeForm, uploadFile } from '../harness/uploads.ts';
import { path, type Body } from './bulk-calls.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);
const model = 'gpt-5-nano';
const endpoint = '/v1/chat/completions';
const window = { completion_window: '24h' } as const;

const body = (content: string, fields: object = {}) => ({
  model,
  messages: [{ role: 'user', content }],
  max_tokens: 50,
  ...fields,
});
const line = (custom_id: string, of: object = body('ahoy'), fields: object = {}) =>
  JSON.stringify({ custom_id, method: 'POST', url: endpoint, body: of, ...fields });
const countCalls = async (): Promise<number> =>
  (await gateway.sandbox.counters())['chatCalls'] ?? 0;

async function upload(content: string | Uint8Array, openai: OpenAI = clients.openai) {
  const file = await toFile(Buffer.from(content), 'batch.jsonl');
  return openai.files.create({ file, purpose: 'batch' });
}

async function createBatch(
  content: string | Uint8Array,
  options: object = {},
  openai: OpenAI = clients.openai,
): Promise<Batch> {
  const file = await upload(content, openai);
  return openai.batches.create({ input_file_id: file.id, endpoint, ...window, ...options });
}

const running = new Set(['validating', 'in_progress', 'finalizing', 'cancelling']);
async function untilEnded(id: string, openai: OpenAI = clients.openai): Promise<Batch> {
  return until(async () => {
    const batch = await openai.batches.retrieve(id);
    return !running.has(batch.status) && batch;
  });
}

interface OutputLine {
  id: string;
  custom_id: string;
  response: { status_code: number; request_id: string; body: Record<string, unknown> } | null;
  error: { code: string; message: string } | null;
}
async function readLines(fileId: string | undefined): Promise<OutputLine[]> {
  const text = await (await clients.openai.files.content(fileId ?? '')).text();
  const { bytes } = await clients.openai.files.retrieve(fileId ?? '');
  expect(bytes).toBe(Buffer.byteLength(text));
  // Clients such as Python's `splitlines` end lines at more characters than a line feed.
  return text
    .split(/[\n\u0085\u2028\u2029]/)
    .filter(Boolean)
    .map((one) => JSON.parse(one) as OutputLine);
}

describe('a batch', () => {
  it('answers each line in the format of its endpoint, and charges it once', async () => {
    const calls = await countCalls();
    const metadata = { night: 'run' };
    const lines = [
      line('a', body('one\u2028\u0085\u2029one')),
      line('=b\u2028c', body('two')),
      line('c', body('[[answer:context-length-exceeded]]')),
    ];
    const created = await createBatch(`\uFEFF${lines.join('\r\n')}\r\n\n`, { metadata });
    expect(created).toMatchObject({
      object: 'batch',
      status: 'in_progress',
      endpoint,
      metadata,
      errors: null,
      output_file_id: null,
      request_counts: { total: 3 },
    });
    expect((created.expires_at ?? 0) - created.created_at).toBe(24 * 3600);
    const batch = await untilEnded(created.id);
    expect(batch).toMatchObject({
      status: 'completed',
      request_counts: { total: 3, completed: 2, failed: 1 },
    });
    const output = await readLines(batch.output_file_id);
    const rows = await readChats(gateway, clients.caller);
    expect(output.map(({ custom_id: id, response }) => [id, response?.body['object']])).toEqual([
      ['a', 'chat.completion'],
      ['=b\u2028c', 'chat.completion'],
    ]);
    expect(output[0]).toMatchObject({
      id: expect.stringMatching(/^batch_req_/),
      response: {
        status_code: 200,
        body: { choices: [{ message: { content: 'You said: one\u2028\u0085\u2029one' } }] },
      },
      error: null,
    });
    const charged = rows.filter(({ state }) => state === 'charged').map(({ id }) => id);
    expect(output.map(({ response }) => response?.request_id).toSorted()).toEqual(
      charged.toSorted(),
    );
    expect(await readLines(batch.error_file_id)).toMatchObject([
      {
        custom_id: 'c',
        response: {
          status_code: 400,
          body: { error: { code: 'context_length_exceeded', type: 'invalid_request_error' } },
        },
        error: null,
      },
    ]);
    expect(await countCalls()).toBe(calls + 3);
    // It is a bulk job.
    const bulk = await gateway.call<Body>(`${path}/${batch.id}`, { key: clients.caller.key });
    expect(bulk.body.data).toMatchObject({ status: 'completed', metadata, counts: { total: 3 } });
    const csv = await fetch(`${gateway.url}${path}/${batch.id}/results?format=csv`, {
      headers: { authorization: `Bearer ${clients.caller.key}` },
    });
    expect(await csv.text()).toContain(`,"'=b\u2028c",`);
  });

  it.each([
    ['/v1/responses', { model, input: 'ahoy', max_output_tokens: 50 }, { object: 'response' }],
    [
      '/v1/embeddings',
      { model: 'text-embedding-3-small', input: 'a', dimensions: 8 },
      { object: 'list' },
    ],
  ] as const)('of %s has its answers', async (url, sent, answer) => {
    const { id } = await createBatch(line('a', sent, { url }), { endpoint: url });
    const batch = await untilEnded(id);
    const output = await readLines(batch.output_file_id);
    expect(output).toMatchObject([
      { custom_id: 'a', response: { status_code: 200, body: answer } },
    ]);
  });

  it('has the errors of requests that their endpoint rejects in its error file', async () => {
    const bodies = {
      stream: body('a', { stream: true }),
      n: body('a', { n: 2 }),
      model: body('a', { model: 'x' }),
      messages: { model },
    };
    const lines = Object.entries(bodies).map(([id, sent]) => line(id, sent));
    const { id } = await createBatch([...lines, line('good')].join('\n'));
    const batch = await untilEnded(id);
    expect(batch.request_counts).toEqual({ total: 5, completed: 1, failed: 4 });
    const errors = await readLines(batch.error_file_id);
    expect(errors.map(({ custom_id: name, response }) => [name, response?.status_code])).toEqual([
      ['stream', 400],
      ['n', 400],
      ['model', 404],
      ['messages', 400],
    ]);
    for (const { custom_id: param, response } of errors) {
      expect(response?.body['error']).toMatchObject({
        param,
        message: expect.stringMatching(`^${param}`),
      });
    }
    expect(await readLines(batch.output_file_id)).toMatchObject([{ custom_id: 'good' }]);
    // They are not tried again.
    const retried = await gateway.call<Body>(`${path}/${id}/retry`, {
      method: 'POST',
      key: clients.caller.key,
    });
    expect(retried).toMatchObject({ status: 409, body: { error: 'BULK_ALREADY_DONE' } });
  });
});

it('numbers in tools reach the provider with their digits, from a bulk job and from a batch', async () => {
  const parameters = '{"type":"object","properties":{"id":{"maximum":18446744073709551615}}}';
  const tool = `{"type":"function","function":{"name":"t","parameters":${parameters}}}`;
  const sent = JSON.stringify(body('exact digits', { tools: ['t'] }));
  const withTool = sent.replace('["t"]', `[${tool}]`);
  const batch = await createBatch(line('a', {}).replace('{}', withTool));
  const item = `{"use":"chat/completions","body":${withTool}}`;
  const headers = { 'content-type': 'application/x-ndjson' };
  const { key } = clients.caller;
  await gateway.send(path, { key, body: `{"items":[${item}]}` });
  await gateway.send(path, { key, headers, body: item });
  await untilEnded(batch.id);
  const texts = await until(async () => {
    const found = await gateway.sandbox.chatTexts('exact digits');
    return found.length === 3 && found;
  });
  for (const text of texts) expect(text).toContain('"maximum":18446744073709551615}');
});

describe('an input file with invalid lines', () => {
  const cases: [name: string, content: string | Uint8Array, errors: object[]][] = [
    [
      'no JSON',
      `${line('a')}\n{"custom_id"\n`,
      [
        {
          line: 2,
          code: 'invalid_json_line',
          param: null,
          message: 'must be JSON; the error is in column 13',
        },
      ],
    ],
    [
      'no UTF-8',
      Buffer.concat([Buffer.from('{"custom_id":"'), Buffer.from([0xff]), Buffer.from('"}')]),
      [{ line: 1, code: 'invalid_json_line' }],
    ],
    ['a list', '[]', [{ line: 1, code: 'invalid_json_line' }]],
    [
      'too long a line',
      line('a', body('x'.repeat(1_100_000))),
      [{ line: 1, code: 'invalid_json_line' }],
    ],
    [
      'the id of another line',
      `${line('a')}\n\n${line('a')}`,
      [{ line: 3, code: 'duplicate_custom_id', param: 'custom_id' }],
    ],
    [
      'no fields',
      '{}',
      ['custom_id', 'method', 'url', 'body'].map((param) => ({
        line: 1,
        code: 'missing_required_parameter',
        param,
      })),
    ],
    [
      'another method',
      line('a', body('a'), { method: 'GET' }),
      [{ code: 'invalid_method', param: 'method' }],
    ],
    [
      'another endpoint',
      line('a', body('a'), { url: '/v1/responses' }),
      [{ code: 'url_mismatch', param: 'url' }],
    ],
    [
      'an id that is no text',
      line('a', body('a'), { custom_id: 7 }),
      [{ code: 'invalid_custom_id', param: 'custom_id' }],
    ],
    [
      'a body that is a text',
      line('a', body('a'), { body: 'x' }),
      [{ code: 'invalid_body', param: 'body' }],
    ],
    ['no lines', '\n \n', [{ line: null, code: 'empty_file' }]],
    [
      'too many lines',
      `${line('a')}\n`.repeat(10_001),
      [{ code: 'too_many_tasks', message: expect.stringContaining('10000') }],
    ],
  ];
  it.each(cases)('%s: the batch fails, and nothing starts', async (_, content, errors) => {
    const calls = await countCalls();
    const batch = await createBatch(content);
    expect(batch).toMatchObject({
      status: 'failed',
      errors: { object: 'list', data: errors },
      output_file_id: null,
      error_file_id: null,
      request_counts: { total: 0, completed: 0, failed: 0 },
    });
    expect(batch.failed_at).toBeGreaterThan(0);
    expect(await clients.openai.batches.retrieve(batch.id)).toEqual(batch);
    const resumed = await gateway.call<Body>(`${path}/${batch.id}/resume`, {
      method: 'POST',
      key: clients.caller.key,
    });
    expect(resumed).toMatchObject({ status: 409, body: { error: 'BULK_ALREADY_DONE' } });
    expect(await countCalls()).toBe(calls);
  });
});

describe('a batch that does not run to its end', () => {
  const slow = (count: number) =>
    Array.from({ length: count }, (_, index) => line(`${index}`, body('[[slow:60s]] ahoy')));
  const startSlow = async (): Promise<Batch> => {
    const calls = await countCalls();
    const batch = await createBatch(slow(34).join('\n'));
    await until(async () => (await countCalls()) >= calls + 32);
    return batch;
  };

  it('is cancelled: requests that were sent are awaited, and the others are not sent', async () => {
    const { id } = await startSlow();
    const canceled = await clients.openai.batches.cancel(id);
    expect(canceled.status).toBe('cancelling');
    await gateway.sandbox.clearFaults();
    const batch = await untilEnded(id);
    expect(batch).toMatchObject({
      status: 'cancelled',
      request_counts: { total: 34, completed: 32 },
    });
    const codes = (await readLines(batch.error_file_id)).map(({ response, error }) => [
      response,
      error?.code,
    ]);
    expect(codes).toEqual([
      [null, 'batch_cancelled'],
      [null, 'batch_cancelled'],
    ]);
    await expect(clients.openai.batches.cancel(id)).rejects.toMatchObject({ status: 409 });
  });

  it('expires after 24 hours: what was not sent is not sent', async () => {
    const { id } = await startSlow();
    await gateway.database.query(`UPDATE bulk SET expires_at = now() WHERE id = $1`, [id]);
    await sweepOnce(gateway);
    expect((await clients.openai.batches.retrieve(id)).status).toBe('finalizing');
    await gateway.sandbox.clearFaults();
    const batch = await untilEnded(id);
    expect(batch).toMatchObject({ status: 'expired', request_counts: { completed: 32 } });
    const codes = (await readLines(batch.error_file_id)).map(({ error }) => error?.code);
    expect(codes).toEqual(['batch_expired', 'batch_expired']);
  });
});

it('a batch that was stopped stays failed, and its error file has what a cancel adds', async () => {
  const lines = [line('a', { model }), ...['b', 'c', 'd'].map((id) => line(id))].join('\n');
  const tooLow = await createBatch(lines, { maxCredits: 0.000001 }).catch(String);
  const price = Number(/at least ([\d.]+)/.exec(JSON.stringify(tooLow))?.[1]);
  const { id } = await createBatch(lines, { maxCredits: price });
  const stopped = await untilEnded(id);
  expect(stopped).toMatchObject({
    status: 'failed',
    errors: { data: [{ code: 'max_credits' }] },
    request_counts: { total: 4, completed: 1, failed: 1 },
  });
  expect(await readLines(stopped.output_file_id)).toHaveLength(1);
  expect(await readLines(stopped.error_file_id)).toHaveLength(1);
  await gateway.database.query(`UPDATE bulk SET expires_at = now() WHERE id = $1`, [id]);
  await sweepOnce(gateway);
  expect((await clients.openai.batches.retrieve(id)).status).toBe('failed');
  await clients.openai.batches.cancel(id);
  const batch = await untilEnded(id);
  expect(batch.status).toBe('cancelled');
  expect(await readLines(batch.output_file_id)).toHaveLength(1);
  expect((await readLines(batch.error_file_id)).map(({ error }) => error?.code)).toEqual([
    undefined,
    'batch_cancelled',
    'batch_cancelled',
  ]);
});

describe('files', () => {
  it('are listed page by page, read back, and deleted', async () => {
    const ids: string[] = [];
    for (const content of ['one', 'two', 'three']) ids.push((await upload(`${content} é`)).id);
    const listed = [];
    for await (const file of clients.openai.files.list({ limit: 2, order: 'asc' }))
      listed.push(file);
    expect(listed.map(({ id }) => id)).toEqual(ids);
    expect(listed[0]).toMatchObject({
      object: 'file',
      bytes: 6,
      filename: 'batch.jsonl',
      purpose: 'batch',
      status: 'processed',
    });
    const newest = await clients.openai.files.list({ limit: 1 });
    expect(newest.data.map(({ id }) => id)).toEqual(ids.slice(-1));
    const [first = ''] = ids;
    expect(await (await clients.openai.files.content(first)).text()).toBe('one é');
    expect(await clients.openai.files.delete(first)).toEqual({
      id: first,
      object: 'file',
      deleted: true,
    });
    await expect(clients.openai.files.retrieve(first)).rejects.toMatchObject({ status: 404 });
    await expect(
      clients.openai.batches.create({ input_file_id: first, endpoint, ...window }),
    ).rejects.toMatchObject({ status: 404, param: 'input_file_id' });
    expect((await clients.openai.files.list({ purpose: 'batch_output' })).data).toEqual([]);
  });

  it('are all deleted by a loop that lists them, and an unknown `after` is rejected', async () => {
    for (const content of ['one', 'two', 'three']) await upload(content);
    const { id } = await createBatch([line('a'), line('b', { model })].join('\n'));
    await untilEnded(id);
    const deleted: string[] = [];
    for await (const file of clients.openai.files.list({ limit: 1 })) {
      await clients.openai.files.delete(file.id);
      deleted.push(file.id);
    }
    expect(deleted).toHaveLength(6);
    expect((await clients.openai.files.list()).data).toEqual([]);
    const stranger = makeClients(gateway, await gateway.newCaller()).openai;
    for (const after of [...deleted.slice(0, 1), ...deleted.slice(-1)]) {
      await expect(stranger.files.list({ after })).rejects.toMatchObject({
        status: 400,
        param: 'after',
      });
    }
  });

  it('of a batch: the input may be deleted meanwhile; deleting the output deletes the answers', async () => {
    const input = await upload(
      [line('a'), line('b', body('[[answer:context-length-exceeded]]'))].join('\n'),
    );
    const { id } = await clients.openai.batches.create({
      input_file_id: input.id,
      endpoint,
      ...window,
    });
    await clients.openai.files.delete(input.id);
    const batch = await untilEnded(id);
    expect(batch.request_counts).toEqual({ total: 2, completed: 1, failed: 1 });
    const outputs = await clients.openai.files.list({ purpose: 'batch_output' });
    expect(outputs.data.map((file) => file.id).toSorted()).toEqual(
      [batch.output_file_id, batch.error_file_id].toSorted(),
    );
    await clients.openai.files.delete(batch.output_file_id ?? '');
    await clients.openai.files.delete(batch.error_file_id ?? '');
    expect(await clients.openai.batches.retrieve(id)).toMatchObject({
      output_file_id: null,
      error_file_id: null,
    });
    await expect(clients.openai.files.content(batch.output_file_id ?? '')).rejects.toMatchObject({
      status: 404,
    });
    const rows = await gateway.database.query(
      `SELECT answer FROM bulk_item WHERE bulk_id = $1 AND answer IS NOT NULL`,
      [id],
    );
    expect(rows).toEqual([]);
    // A retry that fails again has no further answers.
    await gateway.send(`${path}/${id}/retry`, { method: 'POST', key: clients.caller.key });
    expect(await untilEnded(id)).toMatchObject({
      output_file_id: null,
      error_file_id: batch.error_file_id,
    });
    expect(await readLines(batch.error_file_id)).toMatchObject([{ custom_id: 'b' }]);
  });

  it('of a batch: the answers are deleted 30 days after its end, and the errors stay', async () => {
    const { id } = await createBatch([line('a'), line('b', { model })].join('\n'));
    await untilEnded(id);
    const [ended] = await gateway.database.query<{ bytes: number }>(
      `UPDATE bulk SET completed_at = now() - interval '31 days' WHERE id = $1 RETURNING stored_bytes::int AS bytes`,
      [id],
    );
    expect(ended?.bytes).toBeGreaterThan(2 * 256);
    await sweepOnce(gateway);
    const batch = await clients.openai.batches.retrieve(id);
    expect(batch).toMatchObject({ output_file_id: null, request_counts: { completed: 1 } });
    expect(await readLines(batch.error_file_id)).toMatchObject([{ custom_id: 'b' }]);
    const [row] = await gateway.database.query<{ bytes: number }>(
      `SELECT stored_bytes::int AS bytes FROM bulk WHERE id = $1`,
      [id],
    );
    expect(row?.bytes).toBe(2 * 256);
  });

  it('are uploads: counted in the storage quota, listed and deleted with them, and no picture', async () => {
    const { key } = clients.caller;
    const read = async () =>
      (await gateway.call<{ storage: { used: number } }>('/api/v1/usage', { key })).body.storage
        .used;
    const before = await read();
    const { id, bytes } = await upload(line('a'));
    expect((await read()) - before).toBe(bytes);
    const files = await gateway.call<{ data: object[] }>('/api/v1/storage/files', { key });
    expect(files.body.data).toMatchObject([
      { kind: 'upload', fileId: id, filename: 'batch.jsonl', contentType: 'application/jsonl' },
    ]);
    const asPicture = await gateway.call('/api/v1/studio/image/generate', {
      key,
      body: { prompt: 'a tree', imageUrls: id },
    });
    expect(asPicture).toMatchObject({ status: 400, body: { details: [{ path: 'imageUrls.0' }] } });
    await gateway.send(`/api/v1/storage/files/${id}`, { key, method: 'DELETE' });
    expect(await read()).toBe(before);
    const picture = await uploadFile(
      gateway,
      await drawDisc(8, 8),
      { contentType: 'image/png', purpose: 'batch' },
      key,
    );
    await expect(clients.openai.files.retrieve(picture.fileId)).rejects.toMatchObject({
      status: 404,
    });
  });

  it.each([
    ['another purpose', { file: new File(['{}'], 'a.jsonl'), purpose: 'vision' }, 'purpose'],
    ['no purpose', { file: new File(['{}'], 'a.jsonl') }, 'purpose'],
    ['no file', { purpose: 'batch' }, 'file'],
    ['an empty file', { file: new File([], 'a.jsonl'), purpose: 'batch' }, 'file'],
    [
      'an expiry',
      {
        file: new File(['{}'], 'a.jsonl'),
        purpose: 'batch',
        'expires_after[anchor]': 'created_at',
      },
      'expires_after[anchor]',
    ],
  ])('with %s are rejected', async (_, parts, param) => {
    const { key } = clients.caller;
    const answer = await gateway.call('/api/v1/files', { key, body: makeForm(parts) });
    expect(answer).toMatchObject({ status: 400, body: { error: { param } } });
    const [row] = await gateway.database.query<{ count: number }>(
      `SELECT count(*)::int FROM upload WHERE organization_id = $1`,
      [clients.caller.organizationId],
    );
    expect(row?.count).toBe(0);
  });
});

describe('a repeated request', () => {
  const repeat = { headers: { 'Idempotency-Key': 'night-1' } };
  it('returns the first file', async () => {
    const send = async (content: string) =>
      clients.openai.files.create(
        { file: await toFile(Buffer.from(content), 'a.jsonl'), purpose: 'batch' },
        repeat,
      );
    const first = await send('a');
    // It stores nothing, so it needs no room.
    const fill = (bytes: number) =>
      gateway.database.query(
        `UPDATE organization SET upload_bytes = upload_bytes + $2 WHERE id = $1`,
        [clients.caller.organizationId, bytes],
      );
    await fill(1e15);
    expect(await send('a')).toEqual(first);
    await fill(-1e15);
    await expect(send('b')).rejects.toMatchObject({ status: 422, code: 'IDEMPOTENCY_KEY_REUSED' });
    await until(async () => (await clients.openai.files.list()).data.length === 1);
  });

  it('returns the first batch, also after its file was deleted', async () => {
    const file = await upload(line('a'));
    const request = { input_file_id: file.id, endpoint, ...window } as const;
    const first = await clients.openai.batches.create(request, repeat);
    await clients.openai.files.delete(file.id);
    expect(await clients.openai.batches.create(request, repeat)).toMatchObject({ id: first.id });
    const other = { ...request, metadata: { a: 'b' } };
    await expect(clients.openai.batches.create(other, repeat)).rejects.toMatchObject({
      status: 422,
    });
    await untilEnded(first.id);
    expect((await clients.openai.batches.list()).data).toHaveLength(1);
  });
});

describe('the rules of chats', () => {
  const withKey = (caller: TestCaller) => makeClients(gateway, caller).openai;

  it('hold for a batch: scopes, models, credits', async () => {
    const scopes = ['storage:write', 'studio:read', 'files:delete', 'studio:image'] as const;
    const mute = withKey(await gateway.newCaller({ scopes }));
    await expect(createBatch(line('a'), {}, mute)).rejects.toMatchObject({ status: 403 });
    const other = withKey(await gateway.newCaller({ allowedModels: ['gpt-4o'] }));
    await expect(createBatch(line('a'), {}, other)).rejects.toMatchObject({ status: 403 });
    expect((await other.batches.list()).data).toEqual([]);
    const poor = withKey(await gateway.newCaller({ credits: 0 }));
    await expect(createBatch(line('a'), {}, poor)).rejects.toMatchObject({
      status: 402,
      code: 'insufficient_quota',
    });
    await expect(createBatch(line('a'), { maxCredits: 0.000001 })).rejects.toMatchObject({
      status: 400,
      param: 'maxCredits',
    });
    await expect(createBatch(line('a'), { completion_window: '1h' })).rejects.toMatchObject({
      status: 400,
      param: 'completion_window',
    });
    await expect(createBatch('\n'.repeat(20_001))).rejects.toMatchObject({
      status: 400,
      param: 'input_file_id',
    });
    await expect(createBatch(line('a'), { endpoint: '/v1/completions' })).rejects.toMatchObject({
      status: 400,
      param: 'endpoint',
    });
  });

  it('hold for the end users of lines', async () => {
    const sent = [
      line('a', body('one', { user: 'u-1' })),
      line('b', body('two', { safety_identifier: 'u-2' })),
      line('c'),
    ];
    await untilEnded((await createBatch(sent.join('\n'))).id);
    await untilEnded((await createBatch(line('d'), { endUser: 'u-0' })).id);
    const rows = await gateway.database.query<{ user: string | null }>(
      `SELECT metadata->>'$endUser' AS user FROM reservation WHERE organization_id = $1 ORDER BY 1`,
      [clients.caller.organizationId],
    );
    expect(rows.map(({ user }) => user)).toEqual(['u-0', 'u-1', 'u-2', null]);
  });

  it('hold for metadata: that of the batch leaves room for that of a line', async () => {
    const pairs = (of: string, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`${of}${index}`, of]));
    const metadata = pairs('b', 16);
    const lines = [line('a', body('one', { metadata: pairs('own', 2) })), line('b')];
    const batch = await untilEnded((await createBatch(lines.join('\n'), { metadata })).id);
    expect(batch).toMatchObject({ metadata, request_counts: { completed: 2, failed: 0 } });
    const rows = await gateway.database.query<{ metadata: object }>(
      `SELECT metadata FROM reservation WHERE organization_id = $1 ORDER BY metadata ? 'own0' DESC`,
      [clients.caller.organizationId],
    );
    expect(rows).toEqual([{ metadata: { ...pairs('own', 2), ...pairs('b', 14) } }, { metadata }]);
  });

  it('hold for other organizations: files and batches are unknown to them', async () => {
    const input = await upload(line('a'));
    const { id } = await clients.openai.batches.create({
      input_file_id: input.id,
      endpoint,
      ...window,
    });
    const batch = await untilEnded(id);
    const stranger = withKey(await gateway.newCaller());
    const attempts: (() => Promise<unknown>)[] = [
      ...[input.id, batch.output_file_id ?? ''].flatMap((file) => [
        () => stranger.files.retrieve(file),
        () => stranger.files.content(file),
        () => stranger.files.delete(file),
      ]),
      () => stranger.batches.retrieve(id),
      () => stranger.batches.cancel(id),
      () => stranger.batches.create({ input_file_id: input.id, endpoint, ...window }),
    ];
    for (const attempt of attempts) await expect(attempt()).rejects.toMatchObject({ status: 404 });
    expect((await stranger.files.list()).data).toEqual([]);
    expect((await stranger.batches.list()).data).toEqual([]);
    expect(await readLines(batch.output_file_id)).toHaveLength(1);
  });
});
