/**
 * Malformed HTTP requests, sent byte by byte over a socket: request smuggling, invalid syntax, slow
 * clients and header injection.
 */
import { connect, type Socket } from 'node:net';
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
/** Slow connections, opened first and checked last, so that the other tests run meanwhile. */
let slow: { socket: Socket; lasted: Promise<number> }[];
beforeAll(async () => {
  slow = Array.from({ length: 200 }, (_, index) => openSlow(index));
});

const openSocket = (): Socket => {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  return socket;
};

/** Opens a connection that sends a header line each second but never ends its headers, or sends nothing. */
function openSlow(index: number): (typeof slow)[number] {
  const socket = openSocket();
  const closed = new Promise((done) => socket.once('close', done));
  socket.resume();
  if (index % 2 === 0) {
    socket.write(`GET /api/v1/usage HTTP/1.1\r\nHost: x\r\n`);
    const drip = setInterval(() => socket.write(`X-${index}: 1\r\n`), 1000);
    void closed.then(() => clearInterval(drip));
  }
  const openedAt = Date.now();
  return { socket, lasted: closed.then(() => Date.now() - openedAt) };
}

/** Sends bytes, and returns the received text when the server closes or a timeout has passed. */
async function sendRaw(bytes: string): Promise<string> {
  const socket = openSocket().setEncoding('latin1');
  socket.write(bytes, 'latin1');
  const timeout = setTimeout(() => socket.destroy(), 20_000);
  let answer = '';
  socket.on('data', (chunk: string) => (answer += chunk));
  await new Promise((resolve) => socket.once('close', resolve));
  clearTimeout(timeout);
  return answer;
}

const readStatuses = (answer: string): number[] =>
  [...answer.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
const request = (first: string, headers: string[], body = ''): string =>
  [first, ...headers, 'Connection: close', '', body].join('\r\n');
const auth = (): string => `Authorization: Bearer ${gateway.caller.key}`;
const host = (): string => `Host: ${new URL(gateway.url).host}`;
const json = 'Content-Type: application/json';
const get = (target: string, ...headers: string[]): string =>
  request(`GET ${target} HTTP/1.1`, [host(), auth(), ...headers]);
const usage = (...headers: string[]): string => get('/api/v1/usage', ...headers);
const post = (target: string, headers: string[], body: string): string =>
  request(`POST ${target} HTTP/1.1`, [host(), auth(), json, ...headers], body);
const smuggled = 'GET /api/v1/usage HTTP/1.1\r\nHost: x\r\nX-Smuggled: 1\r\n\r\n';

const chunked = 'Transfer-Encoding: chunked';
const fourBytes = 'Content-Length: 4';
const hiddenInChunks = `0\r\n\r\n${smuggled}`;
/** Chat requests whose length two programs could read differently: headers and the rest of the bytes. */
const ambiguousChats: [string, string[], string][] = [
  ['a length and chunks', [fourBytes, chunked], hiddenInChunks],
  ['chunks and a length', [chunked, fourBytes], hiddenInChunks],
  ['two lengths', ['Content-Length: 2', 'Content-Length: 60'], `{}${smuggled}`],
  ['a list of lengths', ['Content-Length: 2, 2'], `{}${smuggled}`],
  ['a signed length', ['Content-Length: +2'], `{}${smuggled}`],
  ['a negative length', ['Content-Length: -1'], `{}${smuggled}`],
  ['a length in hexadecimal', ['Content-Length: 0x2'], `{}${smuggled}`],
  ['a length beyond 64 bits', ['Content-Length: 99999999999999999999'], '{}'],
  ['an unknown transfer coding', ['Transfer-Encoding: xchunked'], hiddenInChunks],
  ['chunked twice', [chunked, 'Transfer-Encoding: identity'], hiddenInChunks],
  ['a space before the colon', ['Transfer-Encoding : chunked', fourBytes], hiddenInChunks],
  ['a folded header', [`X: a\r\n ${chunked}`, fourBytes], hiddenInChunks],
  ['a bad chunk size', [chunked], `zz\r\n{}\r\n0\r\n\r\n`],
  ['a chunk size with a sign', [chunked], `-2\r\n{}\r\n0\r\n\r\n`],
  ['a huge chunk size', [chunked], `ffffffffffffffffff\r\n{}\r\n0\r\n\r\n`],
];

describe('ambiguous requests', () => {
  it.each<[string, () => string]>([
    ...ambiguousChats.map(([name, headers, rest]): [string, () => string] => [
      name,
      () => post('/api/v1/chat', headers, rest),
    ]),
    ['bare line feeds', () => usage().replaceAll('\r\n', '\n')],
    ['bare carriage returns', () => usage().replaceAll('\r\n', '\r')],
    ['a NUL in a header', () => usage('X: a\0b')],
    ['a NUL in the target', () => get('/api/v1/us\0age')],
    ['a header without a colon', () => usage('garbage')],
    ['a header without a name', () => usage(': x')],
    ['no host', () => request('GET /api/v1/usage HTTP/1.1', [auth()])],
    ['an unknown version', () => request('GET /api/v1/usage HTTP/9.9', [host(), auth()])],
    ['an unknown method', () => request('HACK /api/v1/usage HTTP/1.1', [host(), auth()])],
    ['no HTTP', () => 'SSH-2.0-OpenSSH_9.6\r\n\r\n'],
    ['a TLS handshake', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['an HTTP/2 preface', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ])('are rejected: %s', async (_name, bytes) => {
    const statuses = readStatuses(await sendRaw(bytes()));
    // At most one response: the request hidden in the body gets none.
    expect(statuses.length).toBeLessThanOrEqual(1);
    expect(statuses.filter((status) => status === 200 || status >= 500)).toEqual([]);
  });

  it('would be visible as a second response, as for two valid requests in one write', async () => {
    const two = await sendRaw(
      `GET /healthz HTTP/1.1\r\n${host()}\r\n\r\n${request('GET /healthz HTTP/1.1', [host()])}`,
    );
    expect(readStatuses(two)).toEqual([200, 200]);
  });
});

describe('malformed input', () => {
  it.each<[string, () => string, number[]]>([
    ['a header of 20 KB', () => usage(`X: ${'x'.repeat(20_000)}`), [431]],
    ['100 KB of headers', () => usage(...Array(1000).fill(`X: ${'x'.repeat(96)}`)), [431]],
    ['a target of 20 KB', () => get(`/api/v1/usage?x=${'x'.repeat(20_000)}`), [400, 431]],
    ['TRACE', () => request('TRACE /api/v1/usage HTTP/1.1', [host(), auth()]), [404, 405]],
    ['CONNECT', () => request('CONNECT 127.0.0.1:22 HTTP/1.1', [host(), auth()]), [400, 404, 405]],
    ['another host in the target', () => get('http://127.0.0.1:1/api/v1/usage'), [200, 400, 404]],
    ['an upgrade', () => usage('Upgrade: websocket'), [200, 400]],
    ['a method override', () => usage('X-HTTP-Method-Override: DELETE'), [200]],
    [
      'an unsatisfiable expectation',
      () => post('/api/v1/chat', ['Expect: magic', 'Content-Length: 2'], '{}'),
      [400, 417],
    ],
  ])('gets an error or a closed connection: %s', async (_name, bytes, expected) => {
    const [status = 'closed', ...more] = readStatuses(await sendRaw(bytes()));
    expect(more).toEqual([]);
    expect([...expected, 'closed']).toContain(status);
  });

  it.each([
    '/api/v1/../admin/v1/organizations',
    '/api/v1/%2e%2e/admin/v1/organizations',
    '/api/v1/..%2fadmin%2fv1%2forganizations',
    '//api/admin/v1/organizations',
    '/api/admin/v1;/organizations',
    '/api/v1\\..\\admin\\v1\\organizations',
    '/api/admin/v1/organizations%00',
    '/files/../../../../etc/passwd',
    '/files/%2e%2e/%2e%2e/%2e%2e/etc/passwd',
    '/files/..%2f..%2f..%2fetc%2fpasswd',
    '/files/%252e%252e%252fetc%252fpasswd',
    '/files/org_x/%00.png',
    '/docs/..%2f..%2fpackage.json',
    '/docs/__proto__',
    '/api/v1/models/__proto__',
    '/api/v1/models/%ff',
    '/api/v1/studio/jobs/%',
    '/api/v1/studio/jobs/%00',
    `/api/v1/studio/jobs/job_${'0'.repeat(10_000)}`,
    '/api/v1/studio/jobs/job_0%27%20OR%201%3D1%20--',
    '/api/v1/studio/jobs?limit=1&limit=2',
    '/api/v1/studio/jobs?limit[]=1',
    '/api/v1/studio/jobs?__proto__[x]=1',
    '/api/v1/studio/jobs?status=%00',
    '/api/v1/usage?after=%00',
    '/hooks/fal/%ff/0/x',
    '/%',
    '*',
  ])('in the path opens no route: %s', async (target) => {
    const answer = await sendRaw(get(target));
    expect(readStatuses(answer)[0]).toBeOneOf([400, 401, 404, 405]);
    expect(answer).not.toMatch(/root:|"organizations"|"name": ?"studio-gateway"/);
  });
});

describe('an echoed value', () => {
  it('never contains an invalid X-Request-Id of the request', async () => {
    for (const id of [
      'a\r\nX-Evil: 1',
      'a%0d%0aX-Evil:1',
      'é'.repeat(20),
      '<script>12345',
      'a'.repeat(65),
      'short',
    ]) {
      const [head = ''] = (await sendRaw(get('/healthz', `X-Request-Id: ${id}`))).split('\r\n\r\n');
      expect(head).toMatch(/x-request-id: req_[0-9a-f]{32}/i);
      expect(head).not.toMatch(/x-evil/i);
    }
    const kept = await sendRaw(get('/healthz', 'X-Request-Id: my-own-request-1'));
    expect(kept).toMatch(/x-request-id: my-own-request-1/i);
  });

  it('never contains the Host header of the request', async () => {
    const body = JSON.stringify({ prompt: 'a tall tree', async: true });
    for (const hostHeader of [
      'evil.example',
      'evil.example:80@x',
      '"><script>',
      '127.0.0.1:1\t',
      'a'.repeat(4000),
    ]) {
      const headers = [
        `Host: ${hostHeader}`,
        'X-Forwarded-Host: evil.example',
        'Forwarded: host=evil.example',
        'X-Forwarded-Proto: gopher',
        `Content-Length: ${body.length}`,
        json,
        auth(),
      ];
      const path = '/api/v1/studio/image/generate';
      const answer = await sendRaw(request(`POST ${path} HTTP/1.1`, headers, body));
      expect(readStatuses(answer)[0]).toBeOneOf([200, 202, 400]);
      expect(answer).not.toMatch(/evil\.example|<script>|gopher/);
    }
  });

  it('includes only a generated storage path for a malicious file name', async () => {
    for (const filename of [
      'a\r\nSet-Cookie: x=1.png',
      'a".png',
      '../../x.png',
      'a\0.png',
      '\u202egnp.exe.png',
      '.htaccess',
    ]) {
      const answer = await gateway.call<{ storagePath?: string }>('/api/v1/storage/upload-url', {
        body: { filename, contentType: 'image/png' },
      });
      expect(answer.status).toBeOneOf([200, 400]);
      const path = answer.body.storagePath ?? '';
      expect(path).toMatch(/^(org_[0-9a-f]{32}\/file_[0-9a-f]{32}\.png)?$/);
    }
  });
});

describe('slow clients', () => {
  it('delay no other client, and are disconnected', async () => {
    const startedAt = performance.now();
    for (let round = 0; round < 20; round += 1) {
      expect((await gateway.call('/healthz')).status).toBe(200);
    }
    expect(performance.now() - startedAt).toBeLessThan(30_000);
    const lasted = await Promise.all(slow.map((each) => each.lasted));
    // Half a minute, plus the delay of a busy machine.
    expect(Math.max(...lasted)).toBeLessThan(60_000);
    await gateway.expectSettled();
  });
});
