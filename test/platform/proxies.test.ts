/** Outgoing connections through a proxy: what it is asked for, and what it is never asked for. */
import { readdir, readFile } from 'node:fs/promises';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { NativeConnection } from '@temporalio/worker';
import { graph } from '../../oxlint.config.ts';
import { createAgent, findProxy } from '../../platform/connector.ts';
import { loadConfig } from '../../platform/config.ts';
import { createLogger } from '../../platform/logger.ts';
import { createOutbound } from '../../platform/outbound.ts';
import { connectionOptions, connectTemporal } from '../../platform/temporal-connection.ts';
import { knownProviders } from '../../process/run-process.ts';
import { createExchange, createProviderAgent, sendCall } from '../../providers/provider-http.ts';
import { openS3 } from '../../storage/s3.ts';
import { during } from '../harness/during.ts';
import { newFolder } from '../harness/folders.ts';
import { startHttpServer } from '../harness/http-server.ts';
import { installTestRuntime } from '../harness/runtime.ts';

const proxy = during(startProxy);
const target = during(() => startHttpServer((_request, response) => response.end('{"here":true}')));

/** Starts a proxy that opens tunnels to Temporal and to tests on this machine, and refuses all others. */
async function startProxy() {
  /** First lines of the requests, with their credentials. */
  const asked: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.end('{"forwarded":true}');
  });
  server.on('connect', ({ url = '', headers }, near: Socket) => {
    const credentials = headers['proxy-authorization'];
    asked.push(`CONNECT ${url}${credentials === undefined ? '' : ` ${credentials}`}`);
    const { hostname, port } = new URL(`https://${url}`);
    near.on('error', () => {});
    sockets.add(near);
    const [host = '', farPort] =
      hostname === 'temporal.example' ? inject('temporalAddress').split(':') : ['127.0.0.1', port];
    if (!hostname.startsWith('te')) return near.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    const far = connect(Number(farPort), host, () => {
      near.write('HTTP/1.1 200 OK\r\n\r\n');
      near.pipe(far).pipe(near);
    });
    return far.on('error', () => near.destroy()).on('close', () => near.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = (): void => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { asked, host, close };
}

const names = ['HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY'].flatMap((name) => [
  name,
  name.toLowerCase(),
]);
beforeEach(() => {
  proxy.asked.length = 0;
  for (const name of names) vi.stubEnv(name, undefined);
});
afterEach(() => void vi.unstubAllEnvs());

/** Calls a provider. */
async function call(url: string): Promise<unknown> {
  const agent = createProviderAgent({ headersTimeout: 5000, bodyTimeout: 5000 });
  const signal = AbortSignal.timeout(10_000);
  try {
    const response = await sendCall(createExchange(agent, {})({ url, json: {}, signal }));
    const chunks = await response.body.toArray();
    return JSON.parse(Buffer.concat(chunks as Buffer[]).toString());
  } finally {
    await agent.destroy();
  }
}

describe('a call to a provider', () => {
  it.each(['HTTP_PROXY', 'http_proxy'])('goes through %s', async (name) => {
    vi.stubEnv(name, `http://${proxy.host}`);
    expect(await call('http://api.example/call')).toEqual({ forwarded: true });
    expect(proxy.asked).toEqual(['POST http://api.example/call']);
    vi.stubEnv('NO_PROXY', 'example');
    await expect(call('http://api.example/call')).rejects.toMatchObject({ kind: 'not_accepted' });
    vi.stubEnv('NO_PROXY', '');
    // A sandbox on this machine, for example.
    expect(await call(`${target.url}/call`)).toEqual({ here: true });
    expect(proxy.asked).toHaveLength(1);
  });

  it.each(['HTTPS_PROXY', 'https_proxy'])(
    'whose tunnel %s refuses is unsent, and the credentials reach the proxy only',
    async (name) => {
      vi.stubEnv(name, `http://user:p%40ss@${proxy.host}`);
      const failing = call('https://api.example/call');
      await expect(failing).rejects.toMatchObject({ kind: 'not_accepted' });
      const credentials = Buffer.from('user:p@ss').toString('base64');
      expect(proxy.asked).toEqual([`CONNECT api.example:443 Basic ${credentials}`]);
    },
  );

  it('whose proxy cannot be reached, or whose TLS fails in the tunnel, is unsent', async () => {
    vi.stubEnv('HTTPS_PROXY', 'http://127.0.0.1:1');
    await expect(call('https://api.example/')).rejects.toMatchObject({ kind: 'not_accepted' });
    vi.stubEnv('HTTPS_PROXY', `http://${proxy.host}`);
    const plain = `https://test.example:${target.port}/`;
    await expect(call(plain)).rejects.toMatchObject({ kind: 'not_accepted' });
    expect(proxy.asked).toEqual([`CONNECT test.example:${target.port}`]);
  });
});

it('the store is reached through the proxy', async () => {
  vi.stubEnv('HTTP_PROXY', `http://${proxy.host}`);
  const storage = await openS3({
    endpoint: 'http://store.example',
    region: 'eu',
    bucket: 'media',
    readCredentials: () => Promise.resolve({ accessKeyId: 'id', secretAccessKey: 'key' }),
    spoolDirectory: newFolder(),
  });
  await expect(storage.check()).rejects.toThrow('the store changed an object');
  expect(proxy.asked[0]).toBe('PUT http://store.example/media/studio-gateway-probe');
});

describe('a URL of a caller', () => {
  const addresses: Record<string, string[]> = {
    'public.example': ['93.184.216.34'],
    'six.example': ['2606:4700:4700::1111'],
    'private.example': ['10.0.0.8'],
    'mixed.example': ['93.184.216.34', '127.0.0.1'],
  };
  const open = () =>
    createOutbound({
      admittedOrigins: [],
      extraPorts: [8443],
      resolve: (host) =>
        Promise.resolve(
          (addresses[host] ?? []).map((address) => ({
            address,
            family: address.includes(':') ? 6 : 4,
          })),
        ),
    });
  const limits = { bytesMax: 1000, timeoutMs: 5000 };

  it.each([
    'https://private.example/',
    'https://mixed.example/',
    'https://unknown.example/',
    'https://127.0.0.1/',
    'https://[::1]/',
    'https://169.254.169.254/',
    'https://localhost/',
  ])('that leads to a private address, %s, is refused before the proxy is asked', async (url) => {
    for (const name of ['HTTPS_PROXY', 'HTTP_PROXY']) vi.stubEnv(name, `http://${proxy.host}`);
    const outbound = open();
    await expect(outbound.fetch(url, limits)).rejects.toMatchObject({ reason: 'blocked' });
    const message = { headers: {}, body: '', timeoutMs: 5000, responseBytesMax: 10 };
    await expect(outbound.post(url, message)).rejects.toMatchObject({ reason: 'blocked' });
    expect(proxy.asked).toEqual([]);
  });

  it.each([
    ['https://public.example/', '93.184.216.34:443'],
    ['https://public.example:8443/', '93.184.216.34:8443'],
    ['https://six.example/', '[2606:4700:4700::1111]:443'],
    ['https://93.184.216.34/', '93.184.216.34:443'],
  ])('%s gets a tunnel to the address that was checked, %s', async (url, tunnel) => {
    vi.stubEnv('HTTPS_PROXY', `http://${proxy.host}`);
    await expect(open().fetch(url, limits)).rejects.toMatchObject({ reason: 'unreachable' });
    expect(proxy.asked).toEqual([`CONNECT ${tunnel}`]);
  });

  it('of a host in NO_PROXY is judged without the proxy', async () => {
    vi.stubEnv('HTTPS_PROXY', `http://${proxy.host}`);
    vi.stubEnv('NO_PROXY', 'private.example');
    const fetching = open().fetch('https://private.example/', limits);
    await expect(fetching).rejects.toMatchObject({ reason: 'blocked' });
    expect(proxy.asked).toEqual([]);
  });
});

const settings = {
  DATABASE_URL: 'postgres://user:pass@127.0.0.1:5432/gateway',
  TEMPORAL_ADDRESS: 'temporal.example:7233',
  ...Object.fromEntries(
    [
      'STORAGE_SECRET',
      'KEY_PEPPER',
      'WEBHOOK_SECRET',
      'WEBHOOK_SIGNING_SECRET',
      'ADMIN_API_KEY',
    ].map((name, index) => [name, `${index}kE3vR9xQ2mN7pL5sT8wY1zB4cD6fG0hJ`]),
  ),
};

describe('Temporal', () => {
  const connectBoth = async (env: Record<string, string>): Promise<void> => {
    const config = loadConfig(knownProviders, { ...settings, ...env });
    const client = await connectTemporal(config, createLogger('test', 'silent'));
    await client.close();
    await (await NativeConnection.connect(await connectionOptions(config))).close();
  };

  it('is reached through the proxy by clients and workers, unless it is on this machine', async () => {
    installTestRuntime(createLogger('test', 'silent'));
    await connectBoth({ https_proxy: `http://user:word@${proxy.host}` });
    const credentials = Buffer.from('user:word').toString('base64');
    const tunnel = `CONNECT ${settings.TEMPORAL_ADDRESS} Basic ${credentials}`;
    expect(proxy.asked).toEqual([tunnel, tunnel]);
    proxy.asked.length = 0;
    // The library of the client would read this variable by itself.
    vi.stubEnv('https_proxy', `http://${proxy.host}`);
    await connectBoth({
      HTTPS_PROXY: `http://${proxy.host}`,
      TEMPORAL_ADDRESS: inject('temporalAddress'),
    });
    expect(proxy.asked).toEqual([]);
  });
});

describe('NO_PROXY', () => {
  const lists = [
    '',
    '*',
    '*:443',
    '*:80',
    'none.invalid, *',
    'a.example',
    '.a.example',
    '*.a.example',
    'A.example.',
    'a.example:443 b.example',
    'a.example:8443',
    'example',
    '::1',
    '[::1]:443',
    '[::1]:8443',
    '10.0.0.0/8',
  ];
  const hosts = [
    'localhost',
    'a.localhost',
    '127.0.0.1',
    'a.example',
    'x.a.example',
    'xa.example',
    'a.example:8443',
    '[::1]',
    '10.0.0.1',
  ];

  it.each(lists)('%j has the same meaning for Temporal as for all other requests', async (list) => {
    vi.stubEnv('HTTPS_PROXY', `http://${proxy.host}`);
    vi.stubEnv('NO_PROXY', list);
    for (const host of hosts) {
      proxy.asked.length = 0;
      const agent = createAgent({
        resolveTunnel: () => Promise.resolve('refused.example:443'),
        connect: (_target, callback) => callback(new Error('direct'), null),
      });
      const failing = agent.request({ origin: `https://${host}`, path: '/', method: 'GET' });
      await expect(failing).rejects.toThrow();
      const expected = proxy.asked.length > 0 ? proxy.host : null;
      const found = findProxy(host.endsWith(':8443') ? host : `${host}:443`, {
        HTTPS_PROXY: `http://${proxy.host}`,
        NO_PROXY: list,
      });
      expect(found?.host ?? null, host).toBe(expected);
      await agent.destroy();
    }
  });
});

it.each(['proxy:8080', 'https://proxy.example', 'socks5://proxy.example:1080', 'http://p/path'])(
  'the proxy %s is rejected',
  (HTTPS_PROXY) => {
    const loading = () => loadConfig(knownProviders, { ...settings, HTTPS_PROXY });
    expect(loading).toThrow('HTTPS_PROXY is wrong: must be http://host:port or http://user:pass');
  },
);

it('every outgoing connection has an agent that knows the proxy', async () => {
  const folders = Object.keys(graph).filter((name) => !/^(clients|dev)/.test(name));
  for (const folder of folders) {
    const files = await readdir(folder, { recursive: true });
    for (const file of files.filter((name) => name.endsWith('.ts'))) {
      const path = join(folder, file);
      if (path === 'platform/connector.ts') continue;
      expect(await readFile(path, 'utf8'), path).not.toMatch(
        /new (Agent|Pool|Client)\(\s*['"`{]?http|import \{[^}]*\b(Agent|Pool)\b[^}]*\} from 'undici'/,
      );
    }
  }
});
