/**
 * Bodies that are too large, or rejected for another reason before they have arrived: clients that
 * are still sending read the error response, on each kind of body.
 */
import { execFile } from 'node:child_process';
import { request, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { signUpload } from '../harness/uploads.ts';

const gateway = useGateway();
const megabyte = 1024 * 1024;
const boundary = 'a-boundary';
const form = (bytes: number) =>
  Buffer.concat([
    Buffer.from(
      `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n`,
    ),
    Buffer.alloc(bytes, 'x'),
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ]);

interface Door {
  path: string;
  type: string;
  body: Buffer;
  status?: number;
  key?: string;
}
const json = (bytes: number) => Buffer.from(`{"prompt": "${'x'.repeat(bytes)}"}`);
const doors: Record<string, Door> = {
  'a JSON body': {
    path: '/api/v1/studio/image/generate',
    type: 'application/json',
    body: json(8 * megabyte),
  },
  'a chat': {
    path: '/api/v1/chat/completions',
    type: 'application/json',
    body: json(24 * megabyte),
  },
  'an MCP message': { path: '/mcp', type: 'application/json', body: json(8 * megabyte) },
  'a form': {
    path: '/api/v1/studio/audio/transcribe',
    type: `multipart/form-data; boundary=${boundary}`,
    body: form(12 * megabyte),
  },
  'newline-delimited JSON': {
    path: '/api/v1/studio/bulk',
    type: 'application/x-ndjson',
    body: Buffer.alloc(70 * megabyte, 'x'),
  },
  'another type': {
    path: '/api/v1/chat',
    type: 'text/plain',
    body: json(8 * megabyte),
    status: 415,
  },
  'an unknown key': {
    path: '/api/v1/chat',
    type: 'application/json',
    body: json(8 * megabyte),
    status: 401,
    key: 'none',
  },
  'an unknown path': {
    path: '/api/v1/nothing',
    type: 'application/json',
    body: json(8 * megabyte),
    status: 404,
  },
};

interface Sent {
  url: string;
  headers: Record<string, string>;
  body: Buffer;
  method?: string;
}

/** Clients, which return the status and the body of the response. */
const clients: Record<string, (sent: Sent) => Promise<[number, string]>> = {
  async fetch({ url, ...sent }) {
    const response = await fetch(url, { method: 'POST', ...sent });
    return [response.status, await response.text()];
  },
  // Such as axios, whose adapter writes the whole body before it reads.
  async 'node:http'({ url, headers, body, method = 'POST' }) {
    const sent = request(url, {
      method,
      agent: false,
      headers: { ...headers, 'content-length': body.length },
    });
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      sent.once('response', resolve).once('error', reject);
      sent.end(body);
    });
    return [response.statusCode ?? 0, (await buffer(response)).toString()];
  },
  async 'node:http in chunks'({ url, headers, body, method = 'POST' }) {
    const sent = request(url, { method, agent: false, headers });
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      sent.once('response', resolve).once('error', reject);
      for (let at = 0; at < body.length; at += megabyte)
        sent.write(body.subarray(at, at + megabyte));
      sent.end();
    });
    return [response.statusCode ?? 0, (await buffer(response)).toString()];
  },
  async curl({ url, headers, body, method = 'POST' }) {
    const file = join(folder, `body-${body.length}`);
    await writeFile(file, body);
    const named = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
    const { stdout } = await promisify(execFile)('curl', [
      '-sS',
      '-X',
      method,
      '--data-binary',
      `@${file}`,
      '-w',
      '\n%{http_code}',
      ...named,
      url,
    ]);
    const end = stdout.lastIndexOf('\n');
    return [Number(stdout.slice(end)), stdout.slice(0, end)];
  },
};

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'large-bodies-'));
});
afterAll(() => rm(folder, { recursive: true }));

describe.each(Object.entries(clients))('%s reads the response to', (_client, send) => {
  it.each(Object.entries(doors))('%s', async (_door, { path, type, body, status = 413, key }) => {
    const headers = { authorization: `Bearer ${key ?? gateway.caller.key}`, 'content-type': type };
    const [received, text] = await send({ url: gateway.url + path, headers, body });
    expect(received, text).toBe(status);
    expect(JSON.parse(text)).toMatchObject({ error: expect.anything() });
  });

  it('an upload', async () => {
    const { uploadUrl, headers } = await signUpload(gateway, { contentType: 'image/png' });
    const body = Buffer.alloc(30 * megabyte);
    const [status, text] = await send({ url: uploadUrl, method: 'PUT', headers, body });
    expect(status, text).toBe(413);
    expect(JSON.parse(text)).toMatchObject({ error: 'FILE_TOO_LARGE' });
  });
});

it('the connection of a request with Connection: close is closed after its response, also of /mcp', async () => {
  const { hostname, port } = new URL(gateway.url);
  const message = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
  const bodies = { '/mcp': message, '/api/v1/chat/estimate': '{}' };
  for (const [path, body] of Object.entries(bodies)) {
    const socket = connect(Number(port), hostname);
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.caller.key}\r\n` +
        'accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n' +
        `connection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    const startedAt = performance.now();
    const received = (await buffer(socket)).toString();
    expect(received).toMatch(path === '/mcp' ? /HTTP\/1.1 200/ : /HTTP\/1.1 400/);
    expect(received.toLowerCase()).toContain('connection: close');
    expect(performance.now() - startedAt, path).toBeLessThan(20_000);
  }
});
