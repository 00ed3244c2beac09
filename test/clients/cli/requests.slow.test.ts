/** Requests and responses of `studio`, with servers that fail on purpose. */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { during } from '../../harness/during.ts';
import { newFolder } from '../../harness/folders.ts';
import { startHttpServer } from '../../harness/http-server.ts';
import type { Ended } from '../../harness/programs.ts';
import { studio } from './studio.ts';

interface Seen {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  text: string;
}
type Handler = (response: ServerResponse, seen: Seen, count: number) => void | Promise<void>;

const server = during(() =>
  startHttpServer((request, response) => void receive(request, response)),
);
/** Handlers by the key that a call uses, so that calls can run in parallel. */
const handlers = new Map<string, Handler>();
const seen = new Map<string, Seen[]>();

async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const key = request.headers.authorization?.replace('Bearer ', '') ?? '';
  const { method = '', url: path = '', headers } = request;
  const arrived = { method, path, headers, text: Buffer.concat(chunks).toString('latin1') };
  const all = [...(seen.get(key) ?? []), arrived];
  seen.set(key, all);
  await handlers.get(key)?.(response, arrived, all.length);
}

/** Runs a command against a handler of its own; returns what it printed and what arrived. */
async function run(
  line: string | string[],
  handler: Handler,
): Promise<Ended & { requests: Seen[] }> {
  const key = `key-${handlers.size}`;
  handlers.set(key, handler);
  const env = { STUDIO_API_URL: `${server.url}/`, STUDIO_API_KEY: key };
  return { ...(await studio(line, env)), requests: seen.get(key) ?? [] };
}

/** Answers with JSON. */
const answer =
  (body: object, status = 200, headers: OutgoingHttpHeaders = {}): Handler =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  };
const done = answer({ success: true, data: { text: 'heard' } });
const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;

describe('studio chat', () => {
  it('prints the answer as it arrives, however the stream is split', async () => {
    const usage = { inputTokens: 7, outputTokens: 2 };
    const events = [
      event({ type: 'delta', delta: 'Grü' }),
      event({ type: 'delta', delta: 'ße' }),
      event({ type: 'done', usage, creditsConsumed: 0.25 }),
    ];
    const text = Buffer.from(`: keepalive\n${events.join('')}data: [DONE]\n\n`);
    const chat = await run('chat -m a/b -s "Be brief" --metadata a=b=c say ü', async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (let first = 0; first < text.length; first += 9) {
        response.write(text.subarray(first, first + 9));
        await sleep(2);
      }
      response.end();
    });
    expect(chat).toMatchObject({ status: 0, stdout: 'Grüße\n' });
    expect(chat.stderr).toBe('7 input tokens, 2 output tokens, 0.25 credits\n');
    expect(chat.requests[0]).toMatchObject({ method: 'POST', path: '/api/v1/chat' });
    expect(JSON.parse(Buffer.from(chat.requests[0]?.text ?? '', 'latin1').toString())).toEqual({
      model: 'a/b',
      messages: [
        { role: 'system', content: 'Be brief' },
        { role: 'user', content: 'say ü' },
      ],
      stream: true,
      metadata: { a: 'b=c' },
    });
  });

  const begin = event({ type: 'delta', delta: 'Gr' });
  const failure = event({ type: 'error', error: 'PROVIDER_ERROR', message: 'It failed.' });
  it.each([
    ['cut off', '', ''],
    ['ended by an error', failure, ': PROVIDER_ERROR: It failed.'],
  ])('reports a stream that is %s', async (_end, text, reason) => {
    const chat = await run('chat -m m hello', (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(begin + text);
    });
    const stderr = `studio: the answer ended unexpectedly${reason}\n`;
    expect(chat).toMatchObject({ status: 1, stderr, stdout: expect.stringMatching(/^Gr/) });
  });

  it('never repeats a chat without the user', async () => {
    const busy = answer({ error: 'SERVICE_UNAVAILABLE' }, 503, { 'retry-after': '0' });
    const chat = await run('chat -m m hello --no-stream', busy);
    expect(chat.status).toBe(1);
    expect(chat.requests).toHaveLength(1);
  });
});

describe('studio keys', () => {
  const meta = { keyId: 'key_1', keyPrefix: 'gk_live_ab', name: 'ci' };
  const limit = { credits: 500, per: 'month' };

  it('sets the limit of a key with create and limit', async () => {
    const created = answer({ ...meta, key: 'gk_live_abc', limit });
    const made = await run('keys create ci --limit 500/month', created);
    expect(JSON.parse(made.requests[0]?.text ?? '')).toEqual({ name: 'ci', limit });
    const none = await run('keys limit key_1 --to none', answer({ ...meta, limit: null }));
    expect(none.requests[0]).toMatchObject({
      method: 'PUT',
      path: '/api/v1/api-keys/key_1/limit',
      text: '{"limit":null}',
    });
    const line = 'limit key_1 --to 9/day --rate-limit 120 --jobs-max none';
    const changed = { limit: { credits: 9, per: 'day' }, rateLimit: 120, jobsMax: null };
    const all = await run(`keys ${line}`, answer(meta));
    expect(JSON.parse(all.requests[0]?.text ?? '')).toEqual(changed);
    const wrong = await run('keys create ci --limit much', () => {});
    expect(wrong).toMatchObject({ status: 2, requests: [] });
  });

  it('shows the remaining credits of a key', async () => {
    const resetsAt = '2026-12-01T00:00:00.000Z';
    const budget = { limit: 500, per: 'month', used: 120, remaining: 380, resetsAt };
    const own = { ...meta, organizationName: 'Harbour', role: 'owner', limit, budget };
    const { stdout } = await run('keys show', answer(own));
    expect(stdout).toMatch(/^limit +500\/month$/m);
    expect(stdout).toMatch(/^remaining +380$/m);
    expect(stdout).toMatch(/^resets +2026-12-01/m);
  });
});

describe('--estimate', () => {
  const items = [{ unit: 'image', quantity: 2, creditsPerUnit: 3.9, credits: 7.8 }];
  const estimate = { success: true, data: { model: 'nano-banana', credits: 7.8, items } };
  it.each([
    ['image "a tree" -n 2', '/api/v1/studio/image/generate/estimate'],
    ['chat hello -m x/one', '/api/v1/chat/estimate'],
    ['transcribe https://example.com/a.mp3', '/api/v1/studio/audio/transcribe/estimate'],
  ])('for %s requests only the price', async (line, path) => {
    const { stdout, status, requests } = await run(`${line} --estimate`, answer(estimate));
    expect(status).toBe(0);
    expect(requests.map((request) => request.path)).toEqual([path]);
    expect(stdout).toMatch(/^credits +7\.8$/m);
    expect(stdout).toMatch(/^image +2 +7\.8/m);
  });
});

describe('studio models', () => {
  it('shows the price of an example for each model with --studio', async () => {
    const example = { request: { prompt: 'a tree' }, credits: 3.9 };
    const models = [{ id: 'nano-banana', displayName: 'Nano Banana', example }];
    const data = [{ type: 'imageGenerate', models }];
    const { stdout } = await run('models --studio nano', answer({ success: true, data }));
    expect(stdout).toMatch(/imageGenerate +nano-banana +Nano Banana +3\.9 +\{"prompt":"a tree"\}/);
  });

  it('shows prices and limits of the named models', async () => {
    const model = (id: string, name: string) => ({
      id,
      name,
      cost: { input: 1.25, output: 10 },
      limit: { context: 200_000, output: 64_000 },
    });
    const listed = [model('x/one', 'One'), model('y/two', 'Two\u001B[2J')];
    const models = answer({ data: [], models: listed });
    const [all, some] = await Promise.all([run('models', models), run('models TWO', models)]);
    expect(all.stdout).toMatch(/^x\/one +One +1.25 +10 +200000 +64000$/m);
    expect(some.stdout).not.toContain('x/one');
    // Names of models contain no control sequences of terminals.
    expect(some.stdout).not.toContain('\u001B');
  });
});

describe('Studio commands', () => {
  const pictures = ['https://x.test/1.png', 'https://x.test/2.png'];
  const sized = ['image', 'a cat', ...pictures.flatMap((url) => ['--image-url', url])];
  const fileId = `file_${'a'.repeat(32)}`;

  it.each<[string | string[], string, object]>([
    [
      'tts Good day --voice anna',
      'voiceover/generate',
      { text: 'Good day', title: 'Good day', voice: 'anna' },
    ],
    [
      'music "a waltz" --duration 20 --mode audio-only',
      'music/generate',
      { prompt: 'a waltz', durationSeconds: 20, mode: 'audio-only' },
    ],
    ['sfx thunder --duration 2.5', 'sfx/generate', { prompt: 'thunder', durationSeconds: 2.5 }],
    [
      'video "a wave" -m veo --image-url https://x.test/a.png -w',
      'video/generate',
      { prompt: 'a wave', model: 'veo', imageUrl: 'https://x.test/a.png' },
    ],
    [
      [...sized, '--set', 'imageSize={"width":512,"height":512}'],
      'image/generate',
      { prompt: 'a cat', imageUrls: pictures, imageSize: { width: 512, height: 512 } },
    ],
    [
      'transcribe https://x.test/a.mp3 -l de',
      'audio/transcribe',
      { audioUrl: 'https://x.test/a.mp3', language: 'de' },
    ],
    [`transcribe ${fileId}`, 'audio/transcribe', { fileId }],
  ])('send the request of the specification: %s', async (line, path, body) => {
    const called = await run(line, done);
    expect(called).toMatchObject({ status: 0, stdout: 'text  heard\n' });
    expect(called.requests[0]).toMatchObject({ method: 'POST', path: `/api/v1/studio/${path}` });
    expect(JSON.parse(called.requests[0]?.text ?? '')).toEqual(body);
  });

  it('send a local file as a form', async () => {
    const directory = newFolder();
    const path = join(directory, 'speech.mp3');
    await writeFile(path, 'not really speech');
    const called = await run(['transcribe', path, '--language', 'en'], done);
    expect(called.status).toBe(0);
    const [request] = called.requests;
    expect(request?.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/);
    expect(request?.text).toMatch(/name="file"; filename="speech.mp3"[^]*not really speech/);
    expect(request?.text).toMatch(/name="language"[^]*en/);
    const missing = await run(['transcribe', join(directory, 'none.mp3')], done);
    expect(missing).toMatchObject({ status: 1, requests: [] });
    expect(missing.stderr).toContain('cannot be read');
  });

  it('repeat a request without a response under the same Idempotency-Key', async () => {
    const busy = answer({ error: 'BUSY' }, 503, { 'retry-after': '0' });
    const called = await run('sfx thunder', (response, request, count) =>
      count === 1 ? void response.destroy() : (count > 2 ? done : busy)(response, request, count),
    );
    expect(called).toMatchObject({ status: 0, stdout: 'text  heard\n' });
    const keys = called.requests.map((request) => request.headers['idempotency-key']);
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('never send a key to a redirect target', async () => {
    const called = await run('usage', (response, request, count) => {
      if (count > 9) return done(response, request, count);
      response.writeHead(307, { location: `http://localhost:${server.port}/elsewhere` });
      response.end();
    });
    expect(called.status).toBe(1);
    expect(called.requests.map((request) => request.path)).not.toContain('/elsewhere');
  });
});
