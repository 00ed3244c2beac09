/**
 * Chat under production conditions (reliability §3.6): silence, and readers at one byte a second.
 * Each chat ends in one settlement within its reservation.
 */
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../platform/config.ts';
import { knownProviders } from '../../process/run-process.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { isWhole } from '../harness/whole.ts';
import { readChats, untilSettled, untilAllSettled } from './chat-account.ts';
import { makeClients, say } from './chat-clients.ts';
import { formatBody, openChat, postChat, readRest, type SentChat } from './raw-chat.ts';

/**
 * Parallel slow readers; reliability §3.6 requires `SLOW_READERS=200`. Each takes some 10 MB
 * of the kernel's socket buffers, so 5 MB would not stall a reader.
 */
const slowReaders = Number(process.env['SLOW_READERS'] ?? (isWhole ? 20 : 8));

const gateway = useGateway({ env: { CHAT_KEEPALIVE_MS: '150' } });

const newCaller = (): Promise<TestCaller> => gateway.newCaller({ credits: 1000 });

type Sent = SentChat & { base?: string };
const open = ({ base = gateway.url, ...sent }: Sent) => openChat(base, sent);

describe('a silent stream', () => {
  it('sends comments before the first token and between tokens', async () => {
    const caller = await newCaller();
    const { answer } = await open({
      caller,
      content: '[[slow:2s]] [[words:3]] [[slow-chunks:1s]]',
    });
    const text = await readRest(answer);
    const [before = ''] = text.split('data: ');
    expect(before.split(': keepalive\n').length - 1).toBeGreaterThanOrEqual(2);
    const between = text.slice(text.indexOf('data: '), text.lastIndexOf('"type":"delta"'));
    expect(between).toContain(': keepalive\n');
    expect(text.trim().endsWith('data: [DONE]')).toBe(true);
    expect(await untilSettled(gateway, caller)).toMatchObject({ output_tokens: 3 });
  });

  it('ends with an error event and without a charge if its upstream then fails', async () => {
    const caller = await newCaller();
    const { answer } = await open({ caller, content: '[[slow:2s]] [[words:3]] [[stream-cut:0]]' });
    expect(answer.statusCode).toBe(200);
    const text = await readRest(answer);
    expect(text).toContain('"error":"PROVIDER_ERROR"');
    expect(text).not.toContain('[DONE]');
    expect(await untilSettled(gateway, caller)).toMatchObject({ state: 'released', charged: 0 });
  });

  it.each([
    // Codex shortens the chat at this code.
    ['before its output', 'error-after-the-role', 'context_length_exceeded', []],
    ['after its output', 'error-after-output', 'server_error', ['incomplete']],
  ])('that breaks %s ends as OpenAI’s Responses API ends it', async (_when, name, code, items) => {
    const caller = await newCaller();
    // Headers that are sent before the failure make an event of it.
    const input = `[[answer:${name}]] [[slow:1s]] x`;
    const body = { model: 'gpt-4o', input, stream: true };
    const response = await postChat(gateway, caller, { path: '/responses', body });
    const events = [...(await response.text()).matchAll(/^data: (.*)$/gm)].map(
      ([, data = '']) => JSON.parse(data) as Record<string, unknown>,
    );
    expect(events.map((event) => event['sequence_number'])).toEqual([...events.keys()]);
    expect(events.slice(0, 2).map(({ type }) => type)).toEqual([
      'response.created',
      'response.in_progress',
    ]);
    const [error, failed] = events.slice(-2);
    expect(error).toMatchObject({ type: 'error', message: expect.any(String) });
    expect(failed).toMatchObject({
      type: 'response.failed',
      response: {
        status: 'failed',
        error: { code, message: error?.['message'] },
        output: items.map((status) => ({ type: 'message', status })),
      },
    });
    await untilSettled(gateway, caller);
  });

  it('has `ping` events on `/messages`, which Anthropic’s client skips', async () => {
    const caller = await newCaller();
    const request = { model: 'claude-sonnet-5', max_tokens: 100, messages: say('[[slow:1s]] x') };
    const body = { ...request, stream: true };
    const response = await postChat(gateway, caller, { path: '/messages', body });
    const text = await response.text();
    expect(text).toMatch(/^event: ping\ndata: \{"type":"ping"\}\n\n/);
    expect(text).toContain('event: message_stop');
    const { anthropic } = makeClients(gateway, caller);
    const message = await anthropic.messages.stream(request).finalMessage();
    expect(message.content).toMatchObject([{ type: 'text', text: 'You said: x' }]);
    await untilAllSettled(gateway, caller);
  });

  it('cannot be configured to send comments less often than every 15 s', () => {
    const env = { ...gateway.env, CHAT_KEEPALIVE_MS: '15001' };
    expect(() => loadConfig(knownProviders, env)).toThrow('CHAT_KEEPALIVE_MS');
    expect(loadConfig(knownProviders, { ...env, CHAT_KEEPALIVE_MS: '' }).CHAT_KEEPALIVE_MS).toBe(
      10_000,
    );
  });
});

/** Resident memory of a process, bytes (Linux). */
async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
}

const openFiles = async (pid: number): Promise<number> => (await readdir(`/proc/${pid}/fd`)).length;

/** Requests a stream and reads a byte of it per second. */
function readByteByByte(port: number, sent: SentChat): Socket {
  const bytes = Buffer.alloc(1);
  const body = formatBody(sent);
  const socket: Socket = connect({
    port,
    host: '127.0.0.1',
    onread: {
      buffer: bytes,
      callback: () => {
        setTimeout(() => socket.resume(), 1000).unref();
        return false;
      },
    },
  });
  socket.on('error', () => {});
  socket.write(
    [
      'POST /api/v1/chat HTTP/1.1',
      'Host: gateway',
      `Authorization: Bearer ${sent.caller.key}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(body)}`,
      '',
      body,
    ].join('\r\n'),
  );
  return socket;
}

describe.runIf(process.platform === 'linux')(`${slowReaders} readers at one byte a second`, () => {
  it('use little memory, are disconnected and settled, and leave nothing open', async () => {
    const { child, port } = await gateway.spawn('api', {
      API_PORT: '0',
      // The sweeper must not settle chats of this process on a busy machine.
      CHAT_RESERVATION_TTL_MS: '60000',
    });
    const pid = child.pid ?? 0;
    const base = `http://127.0.0.1:${port}`;
    const sent = { content: '[[words:4000;size=5000]]', maxTokens: 4000, base };
    // Warms the heap up with five readers that read everything.
    const quick = await newCaller();
    const sizes = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const { answer } = await open({ ...sent, caller: quick });
        return (await readRest(answer)).length;
      }),
    );
    expect(Math.min(...sizes)).toBeGreaterThan(20_000_000);
    const before = { bytes: await residentBytes(pid), files: await openFiles(pid) };
    const leftBefore = (await gateway.sandbox.counters())['chatCallsLeft'] ?? 0;

    const slow = await newCaller();
    let peakBytes = 0;
    const sampling = setInterval(() => {
      void residentBytes(pid).then((bytes) => (peakBytes = Math.max(peakBytes, bytes)));
    }, 50);
    const readers = Array.from({ length: slowReaders }, () =>
      readByteByByte(port, { ...sent, caller: slow }),
    );
    try {
      await expect.poll(async () => (await readChats(gateway, slow)).length).toBe(slowReaders);
      const rows = await untilAllSettled(gateway, slow);
      for (const row of rows) {
        expect(row).toMatchObject({ state: 'charged', reason: 'chat left' });
        expect(row.charged).toBeLessThanOrEqual(row.amount);
        // The provider sends 4,000 words of 1,250 tokens.
        expect(row.output_tokens).toBeLessThan(5_000_000);
      }
    } finally {
      clearInterval(sampling);
    }
    // Measured: 14 MB for 20, 76 for 100, 103 to 116 for 200, on a warm heap.
    const boundMiB = 32 + slowReaders;
    expect(peakBytes - before.bytes).toBeLessThan(boundMiB * 1024 * 1024);
    // The upstreams were aborted (but for one that the kernel's buffers swallowed whole), and no
    // handler holds a socket.
    await expect
      .poll(async () => (await gateway.sandbox.counters())['chatCallsLeft'])
      .toBeGreaterThanOrEqual(leftBefore + slowReaders / 2);
    await expect.poll(() => openFiles(pid)).toBeLessThan(before.files + 20);
    for (const reader of readers) reader.destroy();

    // The process still serves requests, and ends without an error.
    const { answer } = await open({ base, caller: quick, content: 'and now' });
    expect(await readRest(answer)).toContain('[DONE]');
    child.kill('SIGTERM');
    const [code] = (await once(child, 'exit')) as [number | null];
    expect(code).toBe(0);
  });
});
