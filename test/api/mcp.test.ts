/** POST /mcp, called with the MCP SDK's own client. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { CallToolResult, Progress } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, describe, expect, it } from 'vitest';
import { capabilities } from '../../studio/registry.ts';
import { useGateway } from '../harness/gateway.ts';
import { discPicture, download } from '../harness/media.ts';
import { untilHolds } from '../harness/until.ts';

const gateway = useGateway({ settled: 'last' });
const clients: Client[] = [];
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await untilHolds(() => gateway.expectSettled());
});

async function connect(key: string = gateway.caller.key): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' });
  clients.push(client);
  const headers = { Authorization: `Bearer ${key}` };
  const url = new URL(`${gateway.url}/mcp`);
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers } });
  await client.connect(transport);
  return client;
}

interface ShownJob {
  jobId: string;
  uri: string;
}

async function call(
  client: Client,
  name: string,
  given: Record<string, unknown>,
  options: Parameters<Client['callTool']>[2] = {},
): Promise<CallToolResult & { job: ShownJob; text: string }> {
  const asked = { name, arguments: given };
  const result = (await client.callTool(asked, undefined, options)) as CallToolResult;
  const [first] = result.content;
  const text = first?.type === 'text' ? first.text : '';
  return { ...result, job: result.structuredContent as unknown as ShownJob, text };
}

describe('the tools', () => {
  it('are the capabilities with their own schemas, and the tools for jobs', async () => {
    const { tools } = await (await connect()).listTools();
    const others = `estimate getJob listJobs cancelJob createUploadUrl getStudioModel
      listStudioModels listStudioVoices`;
    expect(tools.map(({ name }) => name).toSorted()).toEqual(
      [...capabilities.map(({ type }) => type), ...others.split(/\s+/)].toSorted(),
    );
    const toolOf = (tool: string) => tools.find(({ name }) => name === tool);
    expect(toolOf('imageGenerate')?.inputSchema).toMatchObject({
      type: 'object',
      required: ['prompt'],
      properties: { prompt: { type: 'string', minLength: 3, maxLength: 2000 } },
    });
    expect(toolOf('getJob')).toMatchObject({
      inputSchema: { required: ['jobId'] },
      annotations: { readOnlyHint: true },
    });
  });

  it('are limited to the scopes of the key', async () => {
    const scopes = ['studio:read', 'studio:audio'] as const;
    const caller = await gateway.newCaller({ credits: 10, scopes });
    const client = await connect(caller.key);
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names).toContain('sfxGenerate');
    expect(names).not.toContain('imageGenerate');
    const { isError, text } = await call(client, 'imageGenerate', { prompt: 'a tree' });
    expect([isError, text]).toEqual([true, expect.stringMatching(/^FORBIDDEN: .*studio:image/)]);
  });
});

describe('the models', () => {
  it('are listed in less than 10 KB, and described individually', async () => {
    const client = await connect();
    const list = await client.callTool({ name: 'listStudioModels', arguments: {} });
    expect(Buffer.byteLength(JSON.stringify(list))).toBeLessThan(10_000);
    const { data } = list.structuredContent as {
      data: { tool: string; models: { id: string }[] }[];
    };
    expect(data.map(({ tool }) => tool).toSorted()).toEqual(
      capabilities.map(({ type }) => type).toSorted(),
    );
    for (const { tool, models } of data) {
      for (const { id } of models) {
        const { structuredContent } = await call(client, 'getStudioModel', { tool, model: id });
        expect(structuredContent).toMatchObject({ data: [{ type: tool, models: [{ id }] }] });
      }
    }
    const wrong = await call(client, 'getStudioModel', { tool: 'videoGenerate', model: 'veo9' });
    expect([wrong.isError, wrong.text]).toEqual([true, expect.stringMatching(/did you mean veo/)]);
  });
});

describe('a local picture', () => {
  it('is sent as a data URL, or with an upload URL', async () => {
    const client = await connect();
    const picture = await discPicture(200, 150);
    const url = `data:image/png;base64,${picture.toString('base64')}`;
    const inline = await call(client, 'imageEdit', { prompt: 'add a hat', imageUrls: [url] });
    expect(inline.job).toMatchObject({ status: 'completed' });
    const target = await call(client, 'createUploadUrl', { contentType: 'image/png' });
    const { uploadUrl, method, headers, fileId } = target.structuredContent as {
      uploadUrl: string;
      method: string;
      headers: Record<string, string>;
      fileId: string;
    };
    expect((await fetch(uploadUrl, { method, headers, body: new Blob([picture]) })).status).toBe(
      200,
    );
    const edited = await call(client, 'imageEdit', { prompt: 'add a hat', imageUrls: [fileId] });
    expect(edited.job).toMatchObject({ status: 'completed' });
  });
});

describe('generating a picture', () => {
  it('reports progress, and returns data, a link and the picture, which other organizations cannot read', async () => {
    const client = await connect();
    const told: string[] = [];
    const onprogress = ({ message = '' }: Progress): void => void told.push(message);
    // Progress is reported every two seconds, so a shorter job could end without `generating`.
    const given = { prompt: '[[slow:5s]] a lighthouse for a model' };
    const { content, job, isError } = await call(client, 'imageGenerate', given, { onprogress });
    expect(isError).toBeUndefined();
    expect(told.length).toBeGreaterThan(0);
    expect(told[0]).toMatch(/^job_\w+ \w+(, queue position \d+)?(, about \d+ s left)?$/);
    expect(told.join('\n')).toMatch(/ generating.*, about \d+ s left/);
    expect(job).toMatchObject({ status: 'completed', billing: { state: 'charged', charged: 3.9 } });
    const link = content.find(({ type }) => type === 'resource_link');
    const bytes = await download(link?.type === 'resource_link' ? link.uri : '');
    const picture = content.find(({ type }) => type === 'image');
    expect(picture).toMatchObject({ mimeType: 'image/png', data: bytes.toString('base64') });

    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toContain(job.uri);
    const { contents } = await client.readResource({ uri: job.uri });
    const [read] = contents;
    expect(JSON.parse(read && 'text' in read ? read.text : '')).toMatchObject({
      jobId: job.jobId,
      status: 'completed',
    });
    expect((await client.listResourceTemplates()).resourceTemplates).toHaveLength(1);

    const stranger = await connect((await gateway.newCaller({ credits: 1 })).key);
    const looked = await call(stranger, 'getJob', { jobId: job.jobId });
    expect([looked.isError, looked.text]).toEqual([true, expect.stringMatching(/^JOB_NOT_FOUND/)]);
    await expect(stranger.readResource({ uri: job.uri })).rejects.toThrow(/resource/);
    expect((await stranger.listResources()).resources).toEqual([]);
  });

  it('returns a running job when the call is asynchronous', async () => {
    const client = await connect();
    const { job } = await call(client, 'imageGenerate', { prompt: 'a later tree', async: true });
    const { job: answer } = await call(client, 'getJob', { jobId: job.jobId, wait: 30 });
    expect(answer).toMatchObject({ data: { status: 'completed', done: true } });
    const list = await call(client, 'listJobs', { limit: 1, type: 'imageGenerate' });
    expect(list.structuredContent).toMatchObject({ data: [{ type: 'imageGenerate' }] });
  });

  it('creates one picture for one Idempotency-Key', async () => {
    const client = await connect();
    const ask = async () =>
      (await client.callTool({
        name: 'imageGenerate',
        arguments: { prompt: 'one tree' },
        _meta: { 'studio-gateway/idempotency-key': 'mcp-1' },
      })) as { structuredContent: { jobId?: string; images?: unknown[] } };
    const first = await ask();
    const second = await ask();
    expect(second.structuredContent.jobId).toBe(first.structuredContent.jobId);
    expect(await gateway.sandbox.submits({ match: 'one tree' })).toHaveLength(1);
  });
});

describe('an estimate', () => {
  it('equals the reservation of the tool, and starts nothing', async () => {
    const caller = await gateway.newCaller({ credits: 1 });
    const client = await connect(caller.key);
    const given = { tool: 'imageGenerate', arguments: { prompt: 'a tree', numImages: 2 } };
    const { structuredContent } = await call(client, 'estimate', given);
    expect(structuredContent).toMatchObject({ data: { credits: 7.8 } });
    const wrong = await call(client, 'estimate', { tool: 'paint', arguments: {} });
    expect([wrong.isError, wrong.text]).toEqual([true, expect.stringMatching(/^NOT_FOUND/)]);
    expect((await client.listResources()).resources).toEqual([]);
  });
});

describe('a failed call', () => {
  it('returns the code and the message', async () => {
    const client = await connect();
    const failed = await call(client, 'imageGenerate', { prompt: '[[fail:422]] a tree' });
    expect(failed.isError).toBe(true);
    expect(failed.text).toMatch(/^PROVIDER_REJECTED_INPUT: .+ \(job_/);
    expect(failed.job).toMatchObject({ billing: { state: 'released', charged: 0 } });
    const rejected = await call(client, 'imageGenerate', { prompt: 'x' });
    expect(rejected.isError).toBe(true);
    expect(rejected.text).toMatch(/^INVALID_REQUEST: prompt/);
    await expect(client.callTool({ name: 'paint' })).rejects.toThrow(/Unknown tool paint/);
    await expect(client.readResource({ uri: 'studio://jobs/other' })).rejects.toThrow(/resource/);
  });

  it('names the argument that is too long, for every tool', async () => {
    const client = await connect();
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
    const poor = await connect((await gateway.newCaller({ credits: 1 })).key);
    const { isError, text, structuredContent } = await call(poor, 'imageGenerate', {
      prompt: 'a tree',
    });
    expect([isError, text]).toEqual([true, expect.stringMatching(/^INSUFFICIENT_CREDITS/)]);
    expect(structuredContent).toMatchObject({ required: 3.9, available: 1 });
  });

  it('is 401 without a key, 403 without the scope, and 405 with another method', async () => {
    await expect(connect('gk_live_wrong')).rejects.toThrow(/Unauthorized/);
    const blind = await gateway.newCaller({ credits: 1, scopes: ['studio:image'] });
    await expect(connect(blind.key)).rejects.toThrow(/FORBIDDEN/);
    const listened = await gateway.call('/mcp');
    expect([listened.status, listened.headers.get('allow')]).toEqual([405, 'POST']);
  });

  it('is 400 for a body that is not one message', async () => {
    const headers = { accept: 'application/json, text/event-stream' };
    const post = (body: unknown) => gateway.call('/mcp', { body, headers });
    expect((await post({ hello: 1 })).status).toBe(400);
    const batch = [{ jsonrpc: '2.0', id: 1, method: 'tools/list' }];
    expect((await post(batch)).status).toBe(400);
    expect((await gateway.call('/mcp', { body: batch[0] })).status).toBe(406);
  });
});

describe('a job', () => {
  it('continues when its client disconnects, and is charged once', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const client = await connect(caller.key);
    const lost = call(client, 'imageGenerate', { prompt: '[[slow:1s]] a tree left alone' }).catch(
      (error: unknown) => error,
    );
    await untilHolds(async () =>
      expect(await gateway.sandbox.submits({ match: 'tree left alone' })).toHaveLength(1),
    );
    await client.close();
    expect(await lost).toBeInstanceOf(Error);
    const [row] = await gateway.database.query<{ id: string }>(
      `SELECT id FROM job WHERE request->>'prompt' LIKE '%left alone'`,
    );
    const jobId = row?.id ?? '';
    const done = await gateway.untilDone(jobId, caller.key);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
    const charges = `SELECT 1 FROM ledger_entry WHERE reservation_id = $1 AND kind = 'charge'`;
    expect(await gateway.database.query(charges, [jobId])).toHaveLength(1);
  });

  it('is canceled by its tool', async () => {
    const client = await connect();
    const { job } = await call(client, 'imageGenerate', {
      prompt: '[[slow:900s]] [[no-webhook]] a slow tree',
      async: true,
    });
    const canceled = await call(client, 'cancelJob', { jobId: job.jobId });
    expect(canceled.isError).toBeUndefined();
    const done = await gateway.untilDone(job.jobId);
    expect(done.body.data).toMatchObject({ status: 'canceled', billing: { state: 'released' } });
  });
});
