/** POST /mcp, called with the MCP SDK's own client. */
import { request as openRequest, type IncomingMessage } from 'node:http';
import { text as readText } from 'node:stream/consumers';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { CallToolResult, Progress } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { capabilities } from '../../studio/capabilities/capability-registry.ts';
import { jobKinds } from '../../studio/pipelines/job-kinds.ts';
import { catchFailure } from '../harness/failures.ts';
import { useGateway } from '../harness/gateway.ts';
import { startFurtherApi } from '../harness/running-gateway.ts';
import { drawDisc, download } from '../harness/media.ts';
import { until, untilHolds } from '../harness/until.ts';

const gateway = useGateway({ settled: 'last' });
const clients: Client[] = [];
let client: Client;
beforeAll(async () => {
  client = await connect(gateway.caller);
});
afterAll(async () => {
  await Promise.all(clients.map((each) => each.close()));
  await untilHolds(() => gateway.expectSettled());
});

async function connect({ key }: { key: string }): Promise<Client> {
  const connected = new Client({ name: 'test', version: '1' });
  clients.push(connected);
  const headers = { Authorization: `Bearer ${key}` };
  const url = new URL(`${gateway.url}/mcp`);
  await connected.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  return connected;
}

/** The fields of structured results that tests read. */
interface StructuredContent {
  jobId: string;
  uri: string;
  data: { tool: string; models: { id: string }[] }[];
  uploadUrl: string;
  method: string;
  headers: Record<string, string>;
  fileId: string;
}

/** Calls a tool; `text` is the first text of the result. */
async function call(
  name: string,
  parameters: Record<string, unknown>,
  caller = client,
  options: Parameters<Client['callTool']>[2] = {},
) {
  const request = { name, arguments: parameters };
  const result = (await caller.callTool(request, undefined, options)) as CallToolResult;
  const [first] = result.content;
  const text = first?.type === 'text' ? first.text : '';
  const structuredContent = result.structuredContent as unknown as StructuredContent;
  return { ...result, structuredContent, text };
}

/** Expects that a call fails with a message, and returns its structured result. */
async function expectFailure(name: string, parameters: object, message: RegExp, caller = client) {
  const result = await call(name, { ...parameters }, caller);
  expect(result).toMatchObject({ isError: true, text: expect.stringMatching(message) });
  return result.structuredContent;
}

describe('the tools', () => {
  it('take null for an argument that was left out', async () => {
    const { jobId } = (await call('imageGenerate', { prompt: 'a dune', model: null, seed: null }))
      .structuredContent;
    const results = await Promise.all([
      call('getJob', { jobId, wait: null }),
      call('listJobs', { status: null, limit: null }),
      call('createUploadUrl', { filename: null, contentType: null }),
      call('estimate', { tool: 'imageGenerate', arguments: { prompt: 'a dune', model: null } }),
    ]);
    expect(results.map(({ isError }) => isError ?? false)).toEqual([false, false, false, false]);
    await expectFailure('imageGenerate', { prompt: null }, /prompt/);
  });

  it('are the capabilities with their own schemas, and the tools for jobs', async () => {
    const { tools } = await client.listTools();
    const others = `estimate getJob listJobs cancelJob startBulk getBulk listBulkItems resumePipeline decideStep decideBulkItems createUploadUrl getStudioModel
      listStudioModels listStudioVoices`;
    expect(tools.map(({ name }) => name).toSorted()).toEqual(
      [...jobKinds.map(({ type }) => type), ...others.split(/\s+/)].toSorted(),
    );
    const findTool = (tool: string) => tools.find(({ name }) => name === tool);
    expect(findTool('imageGenerate')?.inputSchema).toMatchObject({
      type: 'object',
      required: ['prompt'],
      properties: {
        prompt: { type: 'string', minLength: 3, maxLength: 2000 },
        recipe: { type: 'string', maxLength: 81 },
      },
    });
    expect(findTool('getJob')).toMatchObject({
      inputSchema: { required: ['jobId'] },
      annotations: { readOnlyHint: true },
    });
  });

  it('are limited to the scopes of the key', async () => {
    const scopes = ['studio:read', 'studio:audio'] as const;
    const limited = await connect(await gateway.newCaller({ credits: 10, scopes }));
    const names = (await limited.listTools()).tools.map(({ name }) => name);
    expect(names).toContain('sfxGenerate');
    expect(names).not.toContain('imageGenerate');
    const message = /^FORBIDDEN: .*studio:image/;
    await expectFailure('imageGenerate', { prompt: 'a tree' }, message, limited);
  });
});

it('the models are listed in less than 10 KB, and described individually', async () => {
  const { text: _text, ...list } = await call('listStudioModels', {});
  expect(Buffer.byteLength(JSON.stringify(list))).toBeLessThan(10_000);
  const { data } = list.structuredContent;
  expect(data.map(({ tool }) => tool).toSorted()).toEqual(
    capabilities.map(({ type }) => type).toSorted(),
  );
  for (const { tool, models } of data) {
    for (const { id } of models) {
      const { structuredContent } = await call('getStudioModel', { tool, model: id });
      expect(structuredContent).toMatchObject({ data: [{ type: tool, models: [{ id }] }] });
    }
  }
  const wrong = { tool: 'videoGenerate', model: 'veo9' };
  await expectFailure('getStudioModel', wrong, /did you mean veo/);
});

it('a local picture is sent as a data URL, or with an upload URL', async () => {
  const picture = await drawDisc(200, 150);
  const url = `data:image/png;base64,${picture.toString('base64')}`;
  const inline = await call('imageEdit', { prompt: 'add a hat', imageUrls: [url] });
  expect(inline.structuredContent).toMatchObject({ status: 'completed' });
  const target = await call('createUploadUrl', { contentType: 'image/png' });
  const { uploadUrl, method, headers, fileId } = target.structuredContent;
  const put = await fetch(uploadUrl, { method, headers, body: new Blob([picture]) });
  expect(put.status).toBe(200);
  const edited = await call('imageEdit', { prompt: 'add a hat', imageUrls: [fileId] });
  expect(edited.structuredContent).toMatchObject({ status: 'completed' });
});

describe('generating a picture', () => {
  it('reports progress, and returns data, a link and the picture, which other organizations cannot read', async () => {
    const messages: string[] = [];
    const onprogress = ({ message = '' }: Progress): void => void messages.push(message);
    // Progress is reported every two seconds, so a shorter job could end without `generating`.
    const parameters = { prompt: '[[slow:5s]] a lighthouse for a model' };
    const result = await call('imageGenerate', parameters, client, { onprogress });
    const { content, structuredContent: job } = result;
    expect(result.isError).toBeUndefined();
    expect(messages.length).toBeGreaterThan(0);
    expect(messages[0]).toMatch(/^job_\w+ \w+(, queue position \d+)?(, about \d+ s left)?$/);
    expect(messages.join('\n')).toMatch(/ generating.*, about \d+ s left/);
    expect(job).toMatchObject({ status: 'completed', billing: { state: 'charged', charged: 3.9 } });
    const link = content.find(({ type }) => type === 'resource_link');
    expect(link).toMatchObject({ name: 'slow-5s-a-lighthouse-for-a-model-1.png' });
    const bytes = await download(link?.type === 'resource_link' ? link.uri : '');
    const picture = content.find(({ type }) => type === 'image');
    expect(picture).toMatchObject({ mimeType: 'image/png', data: bytes.toString('base64') });

    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toContain(job.uri);
    const { contents } = await client.readResource({ uri: job.uri });
    const [read] = contents;
    const shown = { jobId: job.jobId, status: 'completed' };
    expect(JSON.parse(read && 'text' in read ? read.text : '')).toMatchObject(shown);
    expect((await client.listResourceTemplates()).resourceTemplates).toHaveLength(1);

    const stranger = await connect(await gateway.newCaller({ credits: 1 }));
    await expectFailure('getJob', { jobId: job.jobId }, /^JOB_NOT_FOUND/, stranger);
    for (const jobId of ['../jobs/count', 'events'])
      await expect(call('getJob', { jobId })).rejects.toThrow(/No such/);
    await expect(stranger.readResource({ uri: job.uri })).rejects.toThrow(/resource/);
    expect((await stranger.listResources()).resources).toEqual([]);
  });

  it('returns a running job when the call is asynchronous', async () => {
    const started = await call('imageGenerate', {
      prompt: 'a later tree',
      async: true,
      metadata: { team: 'harbour' },
    });
    const { jobId } = started.structuredContent;
    const { structuredContent } = await call('getJob', { jobId, wait: 30 });
    expect(structuredContent).toMatchObject({ data: { status: 'completed', done: true } });
    const list = await call('listJobs', { limit: 2, metadata: { team: 'harbour' } });
    expect(list.structuredContent.data).toEqual([expect.objectContaining({ jobId })]);
  });

  it('creates one picture for one Idempotency-Key', async () => {
    const generate = () =>
      client.callTool({
        name: 'imageGenerate',
        arguments: { prompt: 'one tree' },
        _meta: { 'studio-gateway/idempotency-key': 'mcp-1' },
      });
    const { jobId } = (await generate()).structuredContent as { jobId: string };
    expect((await generate()).structuredContent).toMatchObject({ jobId });
    expect(await gateway.sandbox.submits({ match: 'one tree' })).toHaveLength(1);
    // Clients reject large pictures, so their results have only the link.
    const large = `WITH a AS (UPDATE artifact SET size_bytes = 524289 WHERE job_id = $1)
      UPDATE job SET outputs = jsonb_set(outputs, '{0,artifacts,0,sizeBytes}', '524289') WHERE id = $1`;
    await gateway.database.query(large, [jobId]);
    expect((await generate()).content).toMatchObject([{ type: 'text' }, { type: 'resource_link' }]);
  });
});

it('an estimate equals the reservation of the tool, and starts nothing', async () => {
  const poor = await connect(await gateway.newCaller({ credits: 1 }));
  const parameters = { tool: 'imageGenerate', arguments: { prompt: 'a tree', numImages: 2 } };
  const { structuredContent } = await call('estimate', parameters, poor);
  expect(structuredContent).toMatchObject({ data: { credits: 7.8 } });
  await expectFailure('estimate', { tool: 'paint', arguments: {} }, /^NOT_FOUND/, poor);
  expect((await poor.listResources()).resources).toEqual([]);
});

it('a bulk job starts and is read by its tools', async () => {
  const body = { prompt: 'a tree of many' };
  const step = { id: 'art', use: 'image/generate', approve: true, body };
  const items = [
    { use: 'image/generate', body },
    { id: 'choice', use: 'pipelines', body: { steps: [step] } },
  ];
  const started = await call('startBulk', { items, maxCredits: 50 });
  const { bulkId } = (started.structuredContent as unknown as { data: { bulkId: string } }).data;
  await until(async () => {
    const waiting = await call('listBulkItems', { bulkId, state: 'awaiting_approval' });
    return JSON.stringify(waiting.structuredContent).includes('"id":"choice"');
  });
  const decision = { decision: 'reject', reason: 'too many' };
  await expectFailure('decideBulkItems', { bulkId, items: ['x'], ...decision }, /items.0/);
  const decided = await call('decideBulkItems', { bulkId, items: ['choice'], ...decision });
  expect(decided.structuredContent).toMatchObject({
    data: { decided: 1, remaining: 0, items: [{ id: 'choice', error: null }] },
  });
  const read = await call('getBulk', { bulkId, wait: 60 });
  expect(read.structuredContent).toMatchObject({
    data: { bulkId, counts: { completed: 1, canceled: 1 } },
  });
});

it('a step is approved by its tool', async () => {
  const step = { id: 'art', use: 'image/generate', approve: true, body: { prompt: 'a dune' } };
  // The tool that starts the pipeline returns once a step waits for a decision.
  const waiting = await call('pipeline', { steps: [step] }, client, { onprogress: () => {} });
  expect(waiting.structuredContent).toMatchObject({
    phase: 'awaiting_approval',
    awaiting: [{ step: 'art' }],
  });
  const { jobId } = waiting.structuredContent;
  await expectFailure('decideStep', { jobId, stepId: 'film', decision: 'reject' }, /no step film/);
  const approval = { jobId, stepId: 'art', decision: 'approve' };
  await expectFailure('decideStep', { ...approval, body: { prompt: null } }, /prompt: is required/);
  const { structuredContent } = await call('decideStep', {
    jobId,
    stepId: 'art',
    decision: 'approve',
  });
  expect(structuredContent).toMatchObject({ data: { jobId, awaiting: [] } });
  expect((await gateway.untilDone(jobId)).body.data.billing.charged).toBe(3.9);
});

it('a pipeline is resumed by its tool', async () => {
  const step = { id: 'art', use: 'image/generate', body: { prompt: 'a tree of steps' } };
  const steps = [step, { ...step, id: 'two', body: { prompt: '[[policy]] a tree of steps' } }];
  const parent = await call('pipeline', { steps });
  const { jobId } = parent.structuredContent;
  const bodies = { two: { prompt: 'a tree of steps' } };
  const { structuredContent } = await call('resumePipeline', { jobId, bodies });
  expect(structuredContent).toMatchObject({
    parentJobId: jobId,
    status: 'completed',
    result: { successful: 2 },
  });
  await expectFailure('resumePipeline', { jobId, from: 'x' }, /art, two/);
});

describe('a failed call', () => {
  it('returns the code and the message', async () => {
    const failing = { prompt: '[[fail:422]] a tree' };
    const message = /^PROVIDER_REJECTED_INPUT: .+ \(job_/;
    const failure = await expectFailure('imageGenerate', failing, message);
    expect(failure).toMatchObject({ billing: { state: 'released', charged: 0 } });
    await expectFailure('imageGenerate', { prompt: 'x' }, /^INVALID_REQUEST: prompt/);
    await expect(client.callTool({ name: 'paint' })).rejects.toThrow(/Unknown tool paint/);
    await expect(client.readResource({ uri: 'studio://jobs/other' })).rejects.toThrow(/resource/);
  });

  it('names the argument that is too long, for every tool', async () => {
    const { tools } = await client.listTools();
    expect(tools.length).toBeGreaterThan(15);
    const wide = 'x'.repeat(100_000);
    const failures = await Promise.all(
      tools.map(async ({ name, inputSchema }) => {
        const [field = 'anything'] = Object.keys(inputSchema.properties ?? {});
        const text = await client.callTool({ name, arguments: { [field]: wide } }).then(
          ({ isError, content }) => (isError ? JSON.stringify(content) : 'accepted'),
          (error: unknown) => String(error),
        );
        const isClear = /-32602|INVALID_REQUEST|NOT_FOUND|UNKNOWN_MODEL/.test(text);
        return isClear && !text.includes('-32603') ? [] : [`${name}: ${text.slice(0, 200)}`];
      }),
    );
    expect(failures.flat()).toEqual([]);
    await expect(
      client.callTool({ name: 'listJobs', arguments: { 'metadata[team]': wide } }),
    ).rejects.toThrow(
      /The arguments must have at most 4000 characters in total .*the longest is metadata\[team\]/,
    );
  });

  it('without enough credits returns the required credits', async () => {
    const poor = await connect(await gateway.newCaller({ credits: 1 }));
    const message = /^INSUFFICIENT_CREDITS/;
    const failure = await expectFailure('imageGenerate', { prompt: 'a tree' }, message, poor);
    expect(failure).toMatchObject({ required: 3.9, available: 1 });
  });

  it('is 401 without a key, 403 without the scope, and 405 with another method', async () => {
    await expect(connect({ key: 'gk_live_wrong' })).rejects.toThrow(/Unauthorized/);
    const blind = await gateway.newCaller({ credits: 1, scopes: ['studio:image'] });
    await expect(connect(blind)).rejects.toThrow(/FORBIDDEN/);
    const { status, headers } = await gateway.call('/mcp');
    expect([status, headers.get('allow')]).toEqual([405, 'POST']);
  });

  it('is 400 for a body that is not one message', async () => {
    const headers = { accept: 'application/json, text/event-stream' };
    const post = (body: unknown) => gateway.call('/mcp', { body, headers });
    expect((await post({ hello: 1 })).status).toBe(400);
    const batch = [{ jsonrpc: '2.0', id: 1, method: 'tools/list' }];
    expect((await post(batch)).status).toBe(400);
    const refused = await gateway.call('/mcp', {
      body: batch[0],
      headers: { accept: 'image/png' },
    });
    expect(refused.status).toBe(406);
  });
});

describe('a program without a client of the protocol', () => {
  const initialize = {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'curl', version: '1' },
  };
  const messages = {
    initialize: [initialize, { serverInfo: { name: 'studio-gateway' } }],
    'tools/list': [
      {},
      { tools: expect.arrayContaining([expect.objectContaining({ name: 'imageGenerate' })]) },
    ],
    'tools/call': [
      { name: 'listStudioModels', arguments: {} },
      { structuredContent: { data: expect.any(Array) }, content: [{ type: 'text' }] },
    ],
  };
  it.each(
    Object.entries(messages).flatMap(([method, [params, result]]) =>
      ['*/*', 'application/json', 'application/*', undefined, 'text/event-stream'].map(
        (accept) => ({ method, params, result, accept }),
      ),
    ),
  )('receives the result of $method with Accept: $accept', async (row) => {
    const { method, params, result, accept } = row;
    const headers = {
      authorization: `Bearer ${gateway.caller.key}`,
      'content-type': 'application/json',
      ...(accept !== undefined && { accept }),
    };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 7, method, params });
    const { promise, resolve } = Promise.withResolvers<IncomingMessage>();
    // `fetch` always sends an Accept header. Without an agent, the request has Connection: close.
    const options = { method: 'POST', headers, agent: false };
    openRequest(`${gateway.url}/mcp`, options, resolve).end(body);
    const response = await promise;
    const received = await readText(response);
    const isStream = accept === 'text/event-stream';
    const { connection, 'content-type': type } = response.headers;
    expect([response.statusCode, connection, type]).toEqual([
      200,
      'close',
      expect.stringContaining(isStream ? 'text/event-stream' : 'application/json'),
    ]);
    const json = isStream ? (/^data: (.+)$/m.exec(received)?.[1] ?? '') : received;
    expect(JSON.parse(json)).toMatchObject({ jsonrpc: '2.0', id: 7, result });
  });
});

describe('a page', () => {
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  it('of an origin that the operator does not allow is rejected', async () => {
    const api = await startFurtherApi(gateway, { CORS_ORIGINS: 'https://app.example' });
    const ask = (headers: Record<string, string>) =>
      gateway.call('/mcp', { base: api.url, body: list, headers });
    expect(await ask({ origin: 'https://evil.example' })).toMatchObject({
      status: 403,
      body: { error: 'FORBIDDEN', message: expect.stringContaining('https://evil.example') },
    });
    for (const headers of [{}, { origin: 'https://app.example' }, { origin: api.url }]) {
      const { status, body } = await ask(headers);
      expect([status, body]).toMatchObject([200, { result: { tools: expect.any(Array) } }]);
    }
    await api.close();
  });
});

describe('a job', () => {
  it('continues when its client disconnects, and is charged once', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const disconnecting = await connect(caller);
    const parameters = { prompt: '[[slow:900s]] a tree left alone' };
    const failure = catchFailure(call('imageGenerate', parameters, disconnecting), Error);
    await expect.poll(() => gateway.sandbox.submits({ match: 'left alone' })).toHaveLength(1);
    await disconnecting.close();
    await failure;
    await gateway.sandbox.clearFaults();
    const [{ id } = { id: '' }] = await gateway.database.jobs(caller.organizationId);
    const done = await gateway.untilDone(id, caller.key);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
    expect(await gateway.database.entryKinds(id)).toEqual(['reserve', 'charge']);
  });

  it('is canceled by its tool', async () => {
    const prompt = '[[slow:900s]] [[no-webhook]] a slow tree';
    const started = await call('imageGenerate', { prompt, async: true });
    const { jobId } = started.structuredContent;
    expect((await call('cancelJob', { jobId })).isError).toBeUndefined();
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({ status: 'canceled', billing: { state: 'released' } });
  });
});
