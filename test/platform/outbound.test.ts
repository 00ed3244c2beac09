/**
 * The guard of foreign URLs. Canary listeners on the loopback addresses must see no connection, for
 * any spelling and any source of a URL. Other addresses are checked but never fetched.
 */
import type { LookupAddress } from 'node:dns';
import { readdir } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { createServer, type AddressInfo, type Server as TcpServer } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createArtifactStore } from '../../storage/artifacts.ts';
import { newId } from '../../domain/ids.ts';
import { isPublicAddress } from '../../platform/public-hosts.ts';
import {
  OutboundError,
  type ResolveName,
  createOutbound,
  type FetchLimits,
  type Outbound,
} from '../../platform/outbound.ts';
import { during } from '../harness/during.ts';
import { newFolder, openTestDisk } from '../harness/folders.ts';
import { startHttpServer } from '../harness/http-server.ts';

const limits = { bytesMax: 1_000_000, timeoutMs: 5000 };
const rejected = { name: 'OutboundError', reason: 'blocked' };

/** Returns a lookup result. */
const found = (...addresses: string[]): LookupAddress[] =>
  addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
/** Results of the lookups of each name, in order; the last result is repeated. */
const names: Record<string, LookupAddress[][]> = {
  'loopback.example': [found('127.0.0.1')],
  'loopback6.example': [found('::1')],
  'mapped.example': [found('::ffff:127.0.0.1')],
  'private.example': [found('10.0.0.8')],
  'linklocal.example': [found('169.254.169.254')],
  'mixed.example': [found('93.184.216.34', '127.0.0.1')],
  'public.example': [found('93.184.216.34')],
  'empty.example': [found()],
};
const asked: string[] = [];
const resolve: ResolveName = (host) => {
  asked.push(host);
  const answers = names[host.replace(/\.$/, '')];
  if (!answers) return Promise.reject(new OutboundError('unreachable', 'ENOTFOUND'));
  const [next = []] = answers.length > 1 ? answers.splice(0, 1) : answers;
  return Promise.resolve(next);
};

const canary = during(startCanary);
let outbound: Outbound;
beforeAll(() => {
  outbound = createOutbound({ admittedOrigins: [], extraPorts: [canary.port], resolve });
});
beforeEach(() => {
  asked.length = 0;
});

/** Starts a server on the loopback addresses that counts connections and never responds. */
async function startCanary() {
  let seen = 0;
  const servers: TcpServer[] = [];
  const listen = async (host: string, port: number): Promise<number> => {
    const server = createServer((socket) => {
      seen += 1;
      socket.on('error', () => {}).destroy();
    });
    await new Promise<void>((done, fail) => {
      server.once('error', fail);
      server.listen(port, host, done);
    });
    servers.push(server);
    return (server.address() as AddressInfo).port;
  };
  const port = await listen('127.0.0.1', 0);
  // A machine without IPv6 has no such loopback to protect.
  await listen('::1', port).catch(() => {});
  return { port, seen: () => seen, close: () => servers.forEach((server) => server.close()) };
}

/** Spellings of loopback addresses in URLs; `PORT` is the port of the canary. */
const loopbackUrls = [
  ...`127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.1 0177.0.0.1 017700000001 0177.0x0.0.1
    127.0.0.1. ①②⑦.0.0.1 127。0。0。1 %31%32%37.0.0.1 127.255.255.254 0.0.0.0 0
    [::1] [0:0:0:0:0:0:0:1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:127.0.0.1]
    [::127.0.0.1] [::1%25lo] [::ffff:0:127.0.0.1] [64:ff9b::127.0.0.1] [2002:7f00:1::]
    localhost LOCALHOST localhost. a.localhost loopback.example loopback.example.
    loopback6.example mapped.example empty.example user@127.0.0.1 public.example@127.0.0.1
    public.example:443@127.0.0.1`
    .split(/\s+/)
    .map((host) => `https://${host}:PORT/`),
  'https://127.0.0.1:PORT\\@public.example/',
  'https:\\\\127.0.0.1:PORT\\',
  'https:/127.0.0.1:PORT/',
  'https:127.0.0.1:PORT/',
  'https:///127.0.0.1:PORT/',
  'https://127.0.0.1:PORT/#@public.example',
  'https://127.0.0.1:PORT/?x=https://public.example',
  'ht\ttps://127.0.\n0.1:PORT/',
  ' https://127.0.0.1:PORT/ ',
  'http://127.0.0.1:PORT/',
  'http://localhost:PORT/',
  'ws://127.0.0.1:PORT/',
];
const spelled = (url: string): string => url.replaceAll('PORT', String(canary.port));

/** Other addresses, and names that are no public hosts; they are never fetched. */
const hostsElsewhere = `
  10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 100.100.100.200
  100.127.255.255 169.254.169.254 169.254.170.2 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1
  198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1
  255.255.255.255 168.63.129.16 0.1.2.3 3232235777 0xa9fea9fe 0251.0376.1
  [fe80::1] [fe80::1%25eth0] [fc00::1] [fd00:ec2::254] [fec0::1] [ff02::1] [::ffff:10.0.0.1]
  [::ffff:a9fe:a9fe] [::ffff:0:10.0.0.1] [::a00:1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::a00:1]
  [2002:a9fe:a9fe::] [2001:0:a00:1::] [2001:db8::1] [3fff::1] [100::1] [5f00::1] [2001:2::1]
  [2001:10::1] [2002:a9fe:a9fe::1] [2001:0:0:0:0:0:80ff:fffe] ip6-localhost private.example linklocal.example mixed.example metadata.google.internal metadata
  router.local db.internal. nas.lan x.home.arpa x.test x.invalid x.onion`;
const neverFetched = hostsElsewhere
  .trim()
  .split(/\s+/)
  .map((host) => `https://${host}/latest/meta-data/`);
const neverUrls = [
  ...[22, 25, 80, 5432, 6379, 7233, 8233, 8443].map((port) => `https://public.example:${port}/`),
  'file:///etc/passwd',
  'gopher://public.example/',
  'ftp://public.example/x',
  'dict://public.example/x',
  'jar:https://public.example!/',
  'storage:org_x/job_y/0-0.png',
  'data:image/png;base64,AAAA',
  'javascript:alert(1)',
  'blob:https://public.example/1',
  'http://public.example/',
  'https://user:pass@public.example/',
  'https://user@public.example/',
  'https://',
  '//public.example/',
  '/etc/passwd',
  'public.example',
  '',
  `https://public.example/${'a'.repeat(9000)}`,
];

describe('the check of foreign URLs', () => {
  it.each([...loopbackUrls, ...neverFetched, ...neverUrls].map((url) => [url.slice(0, 80), url]))(
    'rejects %s',
    async (_short, url) => {
      const before = canary.seen();
      await expect(outbound.checkAddresses(spelled(url))).rejects.toMatchObject(rejected);
      expect(canary.seen()).toBe(before);
    },
  );

  it('accepts public hosts, as parsed', async () => {
    for (const [url, href] of [
      ['https://public.example/a b?c#d', 'https://public.example/a%20b?c'],
      ['https://PUBLIC.example:443', 'https://public.example/'],
      ['https://8.8.8.8/', 'https://8.8.8.8/'],
      ['https://[2606:4700:4700::1111]/x', 'https://[2606:4700:4700::1111]/x'],
    ] as const) {
      expect((await outbound.checkAddresses(url)).href).toBe(href);
    }
  });

  it('reports a host as unreachable if its name does not resolve or its resolver hangs', async () => {
    const hanging = createOutbound({ admittedOrigins: [], resolve: () => new Promise(() => {}) });
    const startedAt = Date.now();
    for (const [from, host] of [
      [outbound, 'unknown.example'],
      [hanging, 'public.example'],
    ] as const) {
      const checking = from.checkAddresses(`https://${host}/`);
      await expect(checking).rejects.toMatchObject({ reason: 'unreachable' });
    }
    expect(Date.now() - startedAt).toBeLessThan(30_000);
  });

  it('identifies public addresses by their bytes', () => {
    expect(['1.1.1.1', '2606:4700:4700::1111', '2a00:1450::1'].every(isPublicAddress)).toBe(true);
    const others = ['', 'x', '1.1.1', '::ffff:1.1.1.1', '64:ff9b::1.1.1.1'];
    expect(others.some(isPublicAddress)).toBe(false);
  });
});

describe('the canary listener', () => {
  it('counts a connection if one is made', async () => {
    const admitted = createOutbound({ admittedOrigins: [spelled('http://127.0.0.1:PORT')] });
    const before = canary.seen();
    const fetching = admitted.fetch(spelled('http://127.0.0.1:PORT/'), limits);
    await expect(fetching).rejects.toMatchObject({ reason: 'unreachable' });
    expect(canary.seen()).toBe(before + 1);
  });

  it.each(loopbackUrls)('sees no connection for %s', async (url) => {
    const before = canary.seen();
    await expect(outbound.fetch(spelled(url), limits)).rejects.toThrow(OutboundError);
    expect(canary.seen()).toBe(before);
  });

  it('sees no connection for a name that resolves to a public address first and a private one later', async () => {
    for (let round = 0; round < 50; round += 1) {
      const host = `rebinding-${round}.example`;
      names[host] = [found('93.184.216.34'), found(round % 2 ? '127.0.0.1' : '::1')];
      const url = `https://${host}:${canary.port}/`;
      await outbound.checkAddresses(url);
      await expect(outbound.fetch(url, limits)).rejects.toMatchObject(rejected);
    }
    expect(asked).toHaveLength(100);
  });
});

describe('redirects', () => {
  const location: { to: string; status: number } = { to: '', status: 302 };
  let hops: Outbound;
  let requests = 0;
  const far = during(() =>
    startHttpServer(({ url = '' }, response) => {
      requests += 1;
      const [, left] = /^\/chain\/(\d+)/.exec(url) ?? [];
      if (left === '0') response.end('arrived');
      else if (left !== undefined) {
        response.writeHead(302, { location: `/chain/${Number(left) - 1}` }).end('gone on');
      } else response.writeHead(location.status, { location: location.to }).end('elsewhere');
    }),
  );
  beforeAll(() => {
    hops = createOutbound({ admittedOrigins: [far.url], extraPorts: [canary.port], resolve });
  });

  it.each(loopbackUrls)('to %s are rejected', async (url) => {
    const before = canary.seen();
    // A header holds no line breaks and no characters beyond Latin-1.
    location.to = encodeURI(spelled(url).trim()).replaceAll('%25', '%').replaceAll('%5C', '\\');
    location.status = 302;
    await expect(hops.fetch(`${far.url}/`, limits)).rejects.toThrow(OutboundError);
    expect(canary.seen()).toBe(before);
  });

  it.each([301, 302, 303, 307, 308])('with status %i are checked', async (status) => {
    for (const to of 'https://[::1]/ //localhost/ https://10.0.0.1/ http://[ file:///x'.split(
      ' ',
    )) {
      Object.assign(location, { to, status });
      await expect(hops.fetch(`${far.url}/`, limits)).rejects.toMatchObject(rejected);
    }
  });

  it('are followed three times at most', async () => {
    requests = 0;
    const three = await hops.fetch(`${far.url}/chain/3`, limits);
    expect((await buffer(three)).toString()).toBe('arrived');
    expect(requests).toBe(4);
    requests = 0;
    await expect(hops.fetch(`${far.url}/chain/20`, limits)).rejects.toMatchObject(rejected);
    expect(requests).toBe(4);
  });
});

const directory = newFolder();

it.each(loopbackUrls)('result URLs of a provider are not fetched from %s', async (url) => {
  const storage = await openTestDisk(directory);
  const artifacts = createArtifactStore({ storage, outbound, marksOutputs: true });
  const before = canary.seen();
  const ids = { organizationId: newId('organization'), jobId: newId('job') };
  const place = { ...ids, callIndex: 0, outputIndex: 0 };
  const output = { medium: 'image', format: null } as const;
  const mark = { model: null, hasCallerMedia: false };
  const options = { output, place, mark, signal: AbortSignal.timeout(5000) };
  const storing = artifacts.store({ kind: 'url', url: spelled(url) }, options);
  await expect(storing).rejects.toMatchObject({ name: 'ProviderFailure' });
  expect(canary.seen()).toBe(before);
  expect(await readdir(join(directory, 'spool'))).toEqual([]);
});

describe('a fetch of a foreign URL', () => {
  let sentBytes = 0;
  let cut = 0;
  let seenHeaders: Record<string, unknown> = {};
  const block = Buffer.alloc(256 * 1024, 'x');
  // Compressed before a request waits for it.
  const zeros = gzipSync(Buffer.alloc(50_000_000), { level: 1 });
  const answers: Record<string, (response: ServerResponse) => void> = {
    '/plain': (response) => response.writeHead(200, { 'content-length': '5' }).end('bytes'),
    '/endless': (response) => {
      const pump = (): void => {
        let taken = true;
        while (taken && !response.destroyed) {
          sentBytes += block.length;
          taken = response.write(block);
        }
      };
      response.on('drain', pump);
      pump();
    },
    '/announced': (response) =>
      response.writeHead(200, { 'content-length': '10000000000' }).write(block),
    '/gzip': (response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(zeros),
    '/encodings': (response) =>
      response
        .writeHead(200, { 'content-encoding': Array(300).fill('gzip').join(', ') })
        .end(block),
    '/drip': (response) => {
      const drip = setInterval(() => response.write('x'), 50);
      response.on('close', () => clearInterval(drip));
    },
    '/silent': () => {},
    '/broken': (response) => {
      response.writeHead(200, { 'content-length': '1000' }).write('half');
      setTimeout(() => response.destroy(), 50);
    },
  };
  const far = during(() =>
    startHttpServer(({ headers, url = '' }, response) => {
      seenHeaders = headers;
      response.on('close', () => {
        if (!response.writableFinished) cut += 1;
      });
      answers[url]?.(response);
    }),
  );
  async function readAll(path: string, more: Partial<FetchLimits> = {}): Promise<Buffer> {
    const admitting = createOutbound({ admittedOrigins: [far.url] });
    return buffer(await admitting.fetch(`${far.url}${path}`, { ...limits, ...more }));
  }

  it('sends no cookies, credentials or compression headers', async () => {
    expect((await readAll('/plain', { bytesMax: 5 })).toString()).toBe('bytes');
    expect(seenHeaders['accept-encoding']).toBe('identity');
    const sent = ['accept-encoding', 'connection', 'host', 'user-agent'];
    expect(Object.keys(seenHeaders).toSorted()).toEqual(sent);
  });

  it('ends an endless body at the size limit, in constant memory', async () => {
    const before = process.memoryUsage().rss;
    const cutBefore = cut;
    const reading = readAll('/endless', { bytesMax: 25_000_000 });
    await expect(reading).rejects.toMatchObject({ reason: 'too_large' });
    await expect.poll(() => cut).toBe(cutBefore + 1);
    expect(sentBytes).toBeLessThan(60_000_000);
    expect(process.memoryUsage().rss - before).toBeLessThan(128 * 1024 * 1024);
  });

  it.each([
    ['/announced', 'too_large'],
    ['/gzip', 'broken'],
    ['/encodings', 'broken'],
    ['/broken', 'broken'],
  ])('rejects %s', async (path, reason) => {
    await expect(readAll(path)).rejects.toMatchObject({ name: 'OutboundError', reason });
  });

  it.each(['/drip', '/silent'])('waits for %s only until its timeout', async (path) => {
    const startedAt = Date.now();
    const { signal } = new AbortController();
    await expect(readAll(path, { timeoutMs: 400, signal })).rejects.toThrow(OutboundError);
    expect(Date.now() - startedAt).toBeLessThan(limits.timeoutMs);
  });
});
