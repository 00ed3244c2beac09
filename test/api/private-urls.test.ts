/**
 * Server-side request forgery: every URL field with every spelling of a private address. Canary
 * servers listen on this machine; they receive no request, and no credits move.
 */
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
afterAll(async () => {
  for (const server of canaries) server.close();
});

async function listen(host: string, spellings: number): Promise<number> {
  const server = createServer((socket) => {
    connections += 1;
    socket.on('error', () => {}).destroy();
  });
  await new Promise<void>((done, fail) => {
    server.once('error', fail);
    server.listen(spellings, host, done);
  });
  canaries.push(server);
  return (server.address() as AddressInfo).port;
}

/** Hosts that are not public, in every notation; each is tried plainly and with the canary's port. */
const hosts =
  `127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7F.1 0177.0.0.1 017700000001 0177.0x0.0.1
  127.0.0.1. ①②⑦.0.0.1 127。0。0。1 %31%32%37.0.0.1 127.255.255.254 0.0.0.0 0 OWN
  localhost LOCALHOST localhost. a.localhost ip6-localhost metadata metadata.google.internal
  10.0.0.1 172.16.0.1 192.168.0.1 100.64.0.1 100.100.100.200 169.254.169.254 0xa9fea9fe 2852039166
  192.0.0.1 198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 168.63.129.16
  [::1] [::] [0:0:0:0:0:0:0:1] [::1%25lo] [::ffff:127.0.0.1] [::FFFF:7F00:1] [::ffff:0:127.0.0.1]
  [::127.0.0.1] [::ffff:169.254.169.254] [64:ff9b::127.0.0.1] [64:ff9b:1::7f00:1] [2002:7f00:1::]
  [2002:a9fe:a9fe::1] [2001:0:7f00:1::] [2001:0:0:0:0:0:80ff:fffe] [fe80::1] [fe80::1%25eth0]
  [fc00::1] [fd00:ec2::254] [fec0::1] [ff02::1] [2001:db8::1] [::ffff:OWN]`
    .trim()
    .split(/\s+/);
/** Whole URLs: other schemes, other parsers' readings, users before the host. */
const urls = [
  'http://127.0.0.1:PORT/',
  'https://user@127.0.0.1:PORT/',
  'https://example.com@127.0.0.1:PORT/',
  'https://example.com:443@127.0.0.1:PORT/',
  'https://127.0.0.1:PORT\\@example.com/',
  'https://127.0.0.1:PORT#@example.com/',
  'https://127.0.0.1:PORT?@example.com/',
  'https:\\\\127.0.0.1:PORT\\x',
  'https:/127.0.0.1:PORT/',
  'https:127.0.0.1:PORT/',
  'https:///127.0.0.1:PORT/',
  'ht\ttps://127.0.\n0.1:PORT/',
  ' https://127.0.0.1:PORT/ ',
  'https://example.com:22/',
  'https://example.com:5432/',
  'https://example.com:7233/',
  '//127.0.0.1:PORT/',
  'file:///etc/passwd',
  'gopher://127.0.0.1:PORT/_x',
  'ftp://127.0.0.1:PORT/x',
  'dict://127.0.0.1:PORT/x',
  'ws://127.0.0.1:PORT/',
  'blob:https://example.com/1',
  'javascript:fetch(1)',
  'jar:https://example.com!/',
  'storage:org_x/job_y/0-0.png',
  `https://127.0.0.1:PORT/${'a'.repeat(9000)}`,
];
const spelled = (): string[] =>
  [
    ...hosts.flatMap((host) => [`https://${host}/x.png`, `https://${host}:PORT/x.png`]),
    ...urls,
  ].map((url) => url.replaceAll('PORT', String(port)).replaceAll('OWN', ownAddress));

/** Every field of the API that takes a URL. */
const sinks: Record<string, (url: string) => [string, object]> = {
  'imageUrls, one': (url) => ['studio/image/generate', { prompt: 'a tall tree', imageUrls: url }],
  'imageUrls, several': (url) => [
    'studio/image/generate',
    { prompt: 'a tall tree', imageUrls: [url] },
  ],
  'imageUrls of an edit': (url) => ['studio/image/edit', { prompt: 'a tall tree', imageUrls: url }],
  'imageUrl to enlarge': (url) => ['studio/image/upscale', { imageUrl: url }],
  'imageUrl to cut out': (url) => ['studio/image/remove-background', { imageUrl: url }],
  'imageUrls of a batch': (url) => [
    'studio/image/batch',
    { operation: 'upscale', imageUrls: [url] },
  ],
  'videoUrl to enlarge': (url) => ['studio/video/upscale', { videoUrl: url }],
  'videoUrl to cut out': (url) => ['studio/video/remove-background', { videoUrl: url }],
  'referenceUrls of a film': (url) => [
    'studio/video/generate',
    { prompt: 'a tall tree', referenceUrls: [url] },
  ],
  'audioUrl to transcribe': (url) => ['studio/audio/transcribe', { audioUrl: url }],
  webhookUrl: (url) => [
    'studio/image/generate',
    { prompt: 'a tall tree', async: true, webhookUrl: url },
  ],
  'a picture in a chat': (url) => [
    'chat/completions',
    {
      model: 'gpt-5-mini',
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
    },
  ],
};

/** Fields with separate code. */
const all = new Set([
  'webhookUrl',
  'imageUrls, one',
  'audioUrl to transcribe',
  'a picture in a chat',
]);

describe('a private URL', () => {
  it('is tested in many spellings and fields', () => {
    expect(spelled().length).toBeGreaterThanOrEqual(128);
    expect(Object.keys(sinks).length).toBeGreaterThanOrEqual(8);
  });

  it.each(Object.keys(sinks))('is rejected, not requested and not charged: %s', async (name) => {
    const count = 'SELECT count(*)::int AS n FROM reservation';
    const before = await gateway.database.query(count);
    const connectionsBefore = connections;
    const taken: unknown[] = [];
    // All of them where the field is one of many; every second one where the code is the same.
    const spellings = spelled().filter((_url, at) => all.has(name) || at % 2 === 1);
    for (const url of spellings) {
      const [path, body] = sinks[name]?.(url) ?? ['', {}];
      const answer = await gateway.call(`/api/v1/${path}`, { body });
      const field = answer.body.details?.[0]?.path ?? '';
      const refused = answer.status === 400 && /url/i.test(field);
      if (!refused) taken.push({ url, status: answer.status, body: answer.body });
    }
    expect(taken).toEqual([]);
    expect(connections).toBe(connectionsBefore);
    expect(await gateway.database.query(count)).toEqual(before);
  });

  it('reaches the canary servers when a program does request it', async () => {
    const before = connections;
    await fetch(`http://127.0.0.1:${port}/`).catch(() => {});
    expect(connections).toBe(before + 1);
  });

  it("in a provider's result is not requested: the job fails without a charge", async () => {
    const before = connections;
    for (const path of ['image/generate', 'video/generate']) {
      const started = await gateway.call(`/api/v1/studio/${path}`, {
        body: { prompt: '[[private-url]] a tall tree', async: true },
      });
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
