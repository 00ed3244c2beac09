/**
 * Server-side request forgery: every URL field with every kind of private address. Canary servers
 * listen on this machine; they receive no request, and no credits move.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
const canaries: Server[] = [];
let port = 0;
let connections = 0;
/** This machine's address in its own network; the loopback where it has none. */
const ownAddress =
  Object.values(networkInterfaces())
    .flat()
    .find((entry) => entry?.family === 'IPv4' && !entry.internal)?.address ?? '127.0.0.1';

beforeAll(async () => {
  port = await listen('127.0.0.1', 0);
  for (const host of ['::1', ownAddress]) {
    // A machine without such an address has nothing to protect.
    if (host !== '127.0.0.1') await listen(host, port).catch(() => 0);
  }
});
afterAll(() => {
  for (const server of canaries) server.close();
});

async function listen(host: string, at: number): Promise<number> {
  const server = createServer((socket) => {
    connections += 1;
    socket.on('error', () => {}).destroy();
  });
  await once(server.listen(at, host), 'listening');
  canaries.push(server);
  return (server.address() as AddressInfo).port;
}

/** Returns one URL of each kind; test/platform/outbound.test.ts has all spellings. */
const spellUrls = (): string[] =>
  [
    'https://127.0.0.1:PORT/x.png',
    'https://[::1]:PORT/x.png',
    'https://OWN:PORT/x.png',
    'https://[::ffff:OWN]:PORT/x.png',
    'https://localhost:PORT/x.png',
    'https://0x7f000001:PORT/x.png',
    'https://169.254.169.254/latest/meta-data/',
    'https://user@127.0.0.1:PORT/',
    'https://127.0.0.1:PORT\\@example.com/',
    'https://example.com:22/',
    'http://127.0.0.1:PORT/',
    'file:///etc/passwd',
    'storage:org_x/job_y/0-0.png',
    `https://127.0.0.1:PORT/${'a'.repeat(9000)}`,
  ].map((url) => url.replaceAll('PORT', String(port)).replaceAll('OWN', ownAddress));

const prompt = 'a tall tree';
/** Every field of the API that takes a URL. */
const sinks: Record<string, [string, (url: string) => object]> = {
  'imageUrls, one': ['studio/image/generate', (url) => ({ prompt, imageUrls: url })],
  'imageUrls, several': ['studio/image/generate', (url) => ({ prompt, imageUrls: [url] })],
  'imageUrls of an edit': ['studio/image/edit', (url) => ({ prompt, imageUrls: url })],
  'imageUrl to enlarge': ['studio/image/upscale', (imageUrl) => ({ imageUrl })],
  'imageUrl to cut out': ['studio/image/remove-background', (imageUrl) => ({ imageUrl })],
  'imageUrls of a batch': [
    'studio/image/batch',
    (url) => ({ operation: 'upscale', imageUrls: [url] }),
  ],
  'videoUrl to enlarge': ['studio/video/upscale', (videoUrl) => ({ videoUrl })],
  'videoUrl to cut out': ['studio/video/remove-background', (videoUrl) => ({ videoUrl })],
  'videoUrls to merge': ['studio/video/merge', (url) => ({ videoUrls: [url], audioUrl: url })],
  'referenceUrls of a film': ['studio/video/generate', (url) => ({ prompt, referenceUrls: [url] })],
  'audioUrl to transcribe': ['studio/audio/transcribe', (audioUrl) => ({ audioUrl })],
  webhookUrl: ['studio/image/generate', (webhookUrl) => ({ prompt, async: true, webhookUrl })],
  'url of a webhook endpoint': [
    'webhook-endpoints',
    (url) => ({ url, events: ['studio.job.failed'] }),
  ],
  'a picture in a chat': [
    'chat/completions',
    (url) => ({
      model: 'gpt-5-mini',
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
    }),
  ],
};

describe('a private URL', () => {
  it.each(Object.entries(sinks))(
    'is rejected, not requested and not charged: %s',
    async (_name, [path, makeBody]) => {
      const readCounts = async () => [
        connections,
        await gateway.database.query('SELECT count(*) FROM reservation'),
      ];
      const before = await readCounts();
      for (const url of spellUrls()) {
        const { status, body } = await gateway.call(`/api/v1/${path}`, { body: makeBody(url) });
        const details = body.details ?? [];
        expect(details, url).not.toEqual([]);
        expect({ url, status, details }).toMatchObject({
          url,
          status: 400,
          details: details.map(() => ({ path: expect.stringMatching(/url/i) })),
        });
      }
      expect(await readCounts()).toEqual(before);
    },
  );

  it('reaches the canary servers when a program does request it', async () => {
    const before = connections;
    await fetch(`http://127.0.0.1:${port}/`).catch(() => {});
    expect(connections).toBe(before + 1);
  });

  it("in a provider's result is not requested: the job fails without a charge", async () => {
    const before = connections;
    for (const path of ['image/generate', 'video/generate']) {
      const body = { prompt: '[[private-url]] a tall tree', async: true };
      const started = await gateway.call(`/api/v1/studio/${path}`, { body });
      const done = await gateway.untilDone(started.body.data.jobId);
      expect(done.body.data).toMatchObject({
        status: 'failed',
        billing: { state: 'released', charged: 0 },
      });
    }
    expect(connections).toBe(before);
    await gateway.expectSettled();
  });
});
