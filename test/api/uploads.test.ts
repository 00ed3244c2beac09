/** Upload URLs (spec §4.5, design §7) on the embedded storage: accepted and rejected uploads. */
import { createHash, randomBytes } from 'node:crypto';
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { crc32, deflateSync } from 'node:zlib';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway();
let png: Buffer;
beforeAll(async () => {
  png = await sharp({ create: { width: 40, height: 30, channels: 3, background: '#3366cc' } })
    .png()
    .toBuffer();
});

interface UploadUrl {
  fileId: string;
  uploadUrl: string;
  method: string;
  headers: Record<string, string>;
  publicUrl: string;
  url: string;
  storagePath: string;
  maxBytes: number;
  expiresAt: string;
  error: string;
}

async function uploadUrl(body: object = {}, key?: string): Promise<UploadUrl> {
  const answer = await gateway.call<UploadUrl>('/api/v1/storage/upload-url', {
    method: 'POST',
    body,
    ...(key !== undefined && { key }),
  });
  expect(answer).toMatchObject({ status: 200 });
  return answer.body;
}

interface RawRequest {
  method?: string;
  /** Path and query exactly as they go over the wire. */
  target: string;
  headers?: OutgoingHttpHeaders;
  body?: Buffer;
}

/** Sends a request without the normalization of a client library. */
async function send(raw: RawRequest): Promise<{ status: number; body: Record<string, unknown> }> {
  const { hostname, port } = new URL(gateway.url);
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const request = httpRequest(
      {
        hostname,
        port,
        agent: false,
        method: raw.method ?? 'PUT',
        path: raw.target,
        headers: raw.headers ?? {},
      },
      resolve,
    );
    request.on('error', reject);
    request.end(raw.body);
  });
  const isJson = answer.headers['content-type']?.includes('json') ?? false;
  const body = isJson ? ((await json(answer)) as Record<string, unknown>) : {};
  answer.resume();
  return { status: answer.statusCode ?? 0, body };
}

const targetOf = (url: string): string => url.slice(gateway.url.length);
const put = (signed: UploadUrl, body: Buffer = png) =>
  send({
    target: targetOf(signed.uploadUrl),
    headers: { ...signed.headers, 'content-length': body.length },
    body,
  });

/** Lists the stored files. */
async function stored(): Promise<string[]> {
  const directory = gateway.config.STORAGE_DIR;
  const below = (name: string) =>
    readdir(join(directory, name), { recursive: true }).catch(() => []);
  const [objects, spool] = await Promise.all([below('objects'), below('spool')]);
  return [...objects.filter((name) => name.includes('.')), ...spool].toSorted();
}

const rowOf = async (fileId: string) => {
  const [row] = await gateway.database.query<Record<string, unknown>>(
    'SELECT *, completed_at IS NOT NULL AS completed FROM upload WHERE id = $1',
    [fileId],
  );
  return row;
};

describe('POST /storage/upload-url', () => {
  it('returns a signed PUT URL, the public URL, and the rate headers', async () => {
    const answer = await gateway.call<UploadUrl>('/api/v1/storage/upload-url', {
      method: 'POST',
      body: { filename: 'cat.jpeg', size: 1234, purpose: 'image-edit' },
    });
    expect(answer.status).toBe(200);
    const { body } = answer;
    const key = `${gateway.caller.organizationId}/${body.fileId}.jpg`;
    expect(body).toEqual({
      fileId: expect.stringMatching(/^file_[0-9a-f]{32}$/),
      uploadUrl: expect.stringContaining(`${gateway.url}/uploads/${key}?`),
      method: 'PUT',
      headers: { 'Content-Type': 'image/jpeg' },
      publicUrl: expect.stringContaining(`${gateway.url}/files/${key}?`),
      url: body.publicUrl,
      storagePath: key,
      maxBytes: 1234,
      expiresAt: expect.any(String),
      publicUrlExpiresAt: expect.any(String),
    });
    const { publicUrlExpiresAt } = body as unknown as { publicUrlExpiresAt: string };
    const expires = new URL(body.publicUrl).searchParams.get('expires');
    expect(Math.abs(Date.parse(publicUrlExpiresAt) / 1000 - Number(expires))).toBeLessThan(2);
    // What is left of ten minutes: counted from before the request it could be more.
    const lifeMs = Date.parse(body.expiresAt) - Date.now();
    expect(lifeMs).toBeGreaterThan(590_000);
    expect(lifeMs).toBeLessThanOrEqual(600_000);
    for (const name of ['limit', 'remaining', 'reset']) {
      expect(answer.headers.get(`x-ratelimit-${name}`)).toMatch(/^\d+$/);
    }
    expect(answer.headers.get('x-request-id')).toBeTruthy();
  });

  it('needs no request body', async () => {
    const answer = await gateway.call<UploadUrl>('/api/v1/storage/upload-url', { method: 'POST' });
    expect(answer.status).toBe(200);
    expect(answer.body.maxBytes).toBe(200 * 1024 * 1024);
  });

  it.each<[object, number, string]>([
    [{ contentType: 'image/svg+xml' }, 415, 'contentType'],
    [{ contentType: 'text/html' }, 415, 'contentType'],
    [{ filename: 'page.html' }, 415, 'filename'],
    [{ filename: 'drawing.svg' }, 415, 'filename'],
    [{ contentType: 'image/png', size: 25 * 1024 * 1024 + 1 }, 413, 'size'],
    [{ contentType: 'audio/mpeg', size: 100 * 1024 * 1024 + 1 }, 413, 'size'],
    [{ contentType: 'video/mp4', size: 200 * 1024 * 1024 + 1 }, 413, 'size'],
    [{ size: 0 }, 400, 'size'],
    [{ size: 1.5 }, 400, 'size'],
    [{ size: '12' }, 400, 'size'],
    [{ filename: '' }, 400, 'filename'],
    [{ purpose: 'Not A Word' }, 400, 'purpose'],
    [{ key: 'org_1/x.png' }, 400, 'key'],
  ])('rejects %j with %i', async (body, status, path) => {
    const answer = await gateway.call('/api/v1/storage/upload-url', { method: 'POST', body });
    expect(answer).toMatchObject({ status, body: { details: [{ path }] } });
  });

  it.each([
    ['image/png', 25],
    ['audio/x-wav', 100],
    ['video/quicktime', 200],
  ])('accepts %s up to %i MB', async (contentType, megabytes) => {
    const size = megabytes * 1024 * 1024;
    expect((await uploadUrl({ contentType, size })).maxBytes).toBe(size);
  });
});

describe('an upload', () => {
  it('is accepted once, recorded, and readable at the public URL', async () => {
    const signed = await uploadUrl({ contentType: 'image/png', size: png.length });
    const sha256 = createHash('sha256').update(png).digest('hex');
    expect(await put(signed)).toEqual({
      status: 200,
      body: {
        fileId: signed.fileId,
        storagePath: signed.storagePath,
        contentType: 'image/png',
        size: png.length,
        sha256,
      },
    });
    expect(await rowOf(signed.fileId)).toMatchObject({
      organization_id: gateway.caller.organizationId,
      content_type: 'image/png',
      size_bytes: String(png.length),
      sha256,
      completed: true,
    });
    const answer = await fetch(signed.publicUrl);
    expect(answer.status).toBe(200);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'image/png',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
      'content-disposition': expect.stringMatching(/^inline; /),
    });
    expect(answer.headers.get('set-cookie')).toBeNull();
    expect(Buffer.from(await answer.arrayBuffer()).equals(png)).toBe(true);
    expect(await put(signed)).toMatchObject({ status: 409, body: { error: 'ALREADY_UPLOADED' } });
  });

  it('may have no size, chunked encoding and no type: the bytes determine the type', async () => {
    const signed = await uploadUrl();
    const answer = await send({
      target: targetOf(signed.uploadUrl),
      headers: { 'transfer-encoding': 'chunked' },
      body: png,
    });
    expect(answer).toMatchObject({ status: 200, body: { contentType: 'image/png' } });
    expect((await fetch(signed.publicUrl)).headers.get('content-type')).toBe('image/png');
  });

  it('is streamed without being held in memory', async () => {
    // 150 MB of video: a process that kept it would grow by at least that.
    const signed = await uploadUrl({ contentType: 'video/mp4' });
    const head = Buffer.concat([Buffer.from([0, 0, 0, 24]), Buffer.from('ftypisom0000isomiso2')]);
    const block = randomBytes(1024 * 1024);
    async function* film() {
      yield head;
      for (let megabyte = 0; megabyte < 150; megabyte += 1) yield block;
    }
    const before = process.memoryUsage();
    let peak = 0;
    const watch = setInterval(() => {
      const now = process.memoryUsage();
      peak = Math.max(peak, now.arrayBuffers + now.heapUsed);
    }, 20);
    const answer = await fetch(signed.uploadUrl, {
      method: 'PUT',
      headers: signed.headers,
      body: ReadableStream.from(film()),
      duplex: 'half',
    });
    clearInterval(watch);
    expect(answer.status).toBe(200);
    // V8 lets what lies outside its heap grow by 64 MB before it looks for what is garbage there.
    expect(peak - before.arrayBuffers - before.heapUsed).toBeLessThan(100 * 1024 * 1024);
    expect(await rowOf(signed.fileId)).toMatchObject({
      size_bytes: String(head.length + 150 * block.length),
    });
  });

  it('is stored completely or not at all when two arrive at once', async () => {
    const other = await sharp(png).negate().png().toBuffer();
    for (let round = 0; round < 10; round += 1) {
      const signed = await uploadUrl({ contentType: 'image/png' });
      const answers = await Promise.all([put(signed, png), put(signed, other)]);
      expect(answers.map((answer) => answer.status).toSorted()).toEqual([200, 409]);
      const winner = answers[0]?.status === 200 ? png : other;
      const bytes = Buffer.from(await (await fetch(signed.publicUrl)).arrayBuffer());
      expect(bytes.equals(winner)).toBe(true);
      const sha256 = createHash('sha256').update(winner).digest('hex');
      expect(await rowOf(signed.fileId)).toMatchObject({ sha256, completed: true });
    }
  });

  it('leaves nothing when its sender disconnects', async () => {
    const before = await stored();
    const signed = await uploadUrl({ contentType: 'image/png', size: 5_000_000 });
    const { hostname, port } = new URL(gateway.url);
    const request = httpRequest({
      hostname,
      port,
      method: 'PUT',
      path: targetOf(signed.uploadUrl),
      headers: { ...signed.headers, 'content-length': 5_000_000 },
    });
    request.on('error', () => {});
    request.write(png);
    await expect.poll(stored).not.toEqual(before);
    request.destroy();
    await expect.poll(stored).toEqual(before);
    expect(await rowOf(signed.fileId)).toMatchObject({ completed: false });
  });
});

interface Tampering {
  signed: UploadUrl;
  target: string;
  query: URLSearchParams;
  /** Target with a changed query. */
  withQuery: (change: (query: URLSearchParams) => void) => string;
  /** Target with another key, raw. */
  withKey: (key: string) => string;
}
type Tamper = (given: Tampering) => RawRequest | Promise<RawRequest>;

const onTarget =
  (change: (given: Tampering) => string): Tamper =>
  (given) => ({
    target: change(given),
  });
const onHeaders =
  (headers: OutgoingHttpHeaders): Tamper =>
  ({ target }) => ({ target, headers });
const swapCase = (word: string): string =>
  word.replaceAll(/[a-z]/gi, (c) => (c === c.toLowerCase() ? c.toUpperCase() : c.toLowerCase()));
const flipLast = (word: string): string => word.slice(0, -1) + (word.endsWith('A') ? 'B' : 'A');
const dateIn = (seconds: number): string => String(Math.floor(Date.now() / 1000) + seconds);

/** Changes to a signed request that make it invalid. */
const tamperings: [string, Tamper][] = [
  ['another file', onTarget((t) => t.withKey(t.signed.storagePath.replace(/file_./, 'file_f')))],
  [
    'another organization',
    onTarget((t) => t.withKey(t.signed.storagePath.replace(/^org_\w+/, newId('organization')))),
  ],
  ['another extension', onTarget((t) => t.withKey(t.signed.storagePath.replace('.png', '.mp4')))],
  ['../', onTarget((t) => t.withKey(`../${t.signed.storagePath}`))],
  ['../ inside', onTarget((t) => t.withKey(t.signed.storagePath.replace('/', '/../')))],
  ['%2e%2e%2f', onTarget((t) => t.withKey(`%2e%2e%2f${t.signed.storagePath}`))],
  ['double-encoded', onTarget((t) => t.withKey(`%252e%252e%252f${t.signed.storagePath}`))],
  ['a double slash', onTarget((t) => t.withKey(t.signed.storagePath.replace('/', '//')))],
  ['a backslash', onTarget((t) => t.withKey(t.signed.storagePath.replace('/', '%5c')))],
  ['a NUL', onTarget((t) => t.withKey(`${t.signed.storagePath}%00`))],
  ['unicode dots', onTarget((t) => t.withKey(`%EF%BC%8E%EF%BC%8E/${t.signed.storagePath}`))],
  ['an absolute key', onTarget((t) => t.withKey(`/etc/${t.signed.storagePath}`))],
  ['bad percent-encoding', onTarget((t) => t.withKey(`%zz${t.signed.storagePath}`))],
  ['GET', ({ target }) => ({ target, method: 'GET' })],
  ['DELETE', ({ target }) => ({ target, method: 'DELETE' })],
  ['POST', ({ target }) => ({ target, method: 'POST' })],
  ['PUT to the reading URL', ({ signed }) => ({ target: targetOf(signed.publicUrl) })],
  [
    'the reading signature',
    onTarget((t) => {
      const reading = new URL(t.signed.publicUrl).searchParams;
      return t.withQuery((query) => {
        for (const name of ['expires', 'signature']) query.set(name, reading.get(name) ?? '');
      });
    }),
  ],
  ['another Content-Type', onHeaders({ 'content-type': 'image/jpeg' })],
  ['no Content-Type', onHeaders({ 'content-type': undefined })],
  ['HTML', onHeaders({ 'content-type': 'text/html' })],
  ['SVG', onHeaders({ 'content-type': 'image/svg+xml' })],
  ['a Content-Encoding', onHeaders({ 'content-encoding': 'gzip' })],
  ['one byte more', ({ target }) => ({ target, body: Buffer.concat([png, Buffer.from('x')]) })],
  ['one byte less', ({ target }) => ({ target, body: png.subarray(0, -1) })],
  ['nothing', ({ target }) => ({ target, body: Buffer.alloc(0) })],
  ['an untold length', onHeaders({ 'transfer-encoding': 'chunked', 'content-length': undefined })],
  ['another size in the URL', onTarget((t) => t.withQuery((q) => q.set('size', '1')))],
  ['no size in the URL', onTarget((t) => t.withQuery((q) => q.delete('size')))],
  ['a raised expiry', onTarget((t) => t.withQuery((q) => q.set('expires', dateIn(3600))))],
  ['no expiry', onTarget((t) => t.withQuery((q) => q.delete('expires')))],
  ['two expiries', onTarget((t) => `${t.target}&expires=${t.query.get('expires')}`)],
  ['an expiry in the past', onTarget((t) => t.withQuery((q) => q.set('expires', dateIn(-1))))],
  ['a short signature', onTarget((t) => t.withQuery((q) => edit(q, (s) => s.slice(0, -1))))],
  ['a long signature', onTarget((t) => t.withQuery((q) => edit(q, (s) => `${s}A`)))],
  ['a swapped case', onTarget((t) => t.withQuery((q) => edit(q, swapCase)))],
  ['another last character', onTarget((t) => t.withQuery((q) => edit(q, flipLast)))],
  ['no signature', onTarget((t) => t.withQuery((q) => q.delete('signature')))],
  ['two signatures', onTarget((t) => `${t.target}&signature=${t.query.get('signature')}`)],
  ['an extra parameter', onTarget((t) => `${t.target}&acl=public`)],
  [
    "another upload's signature",
    async (t) => {
      const other = await uploadUrl({ contentType: 'image/png', size: png.length });
      const signature = new URL(other.uploadUrl).searchParams.get('signature') ?? '';
      return { target: t.withQuery((q) => q.set('signature', signature)) };
    },
  ],
];

function edit(query: URLSearchParams, change: (signature: string) => string): void {
  query.set('signature', change(query.get('signature') ?? ''));
}

describe('a tampered upload is rejected and writes nothing', () => {
  it.each(tamperings)('%s', async (_name, tamper) => {
    const signed = await uploadUrl({ contentType: 'image/png', size: png.length });
    const target = targetOf(signed.uploadUrl);
    const before = await stored();
    const raw = await tamper({
      signed,
      target,
      query: new URL(signed.uploadUrl).searchParams,
      withQuery(change) {
        const url = new URL(signed.uploadUrl);
        change(url.searchParams);
        return targetOf(url.href);
      },
      withKey: (key) => target.replace(signed.storagePath, key),
    });
    const body = raw.body ?? png;
    const headers = { ...signed.headers, 'content-length': body.length };
    const lower = Object.fromEntries(
      Object.entries({ ...headers, ...raw.headers }).map(([k, v]) => [k.toLowerCase(), v]),
    );
    const sent = Object.fromEntries(
      Object.entries(lower).filter(([, value]) => value !== undefined),
    );
    const answer = await send({ ...raw, headers: sent, body });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
    expect(await stored()).toEqual(before);
    expect(await rowOf(signed.fileId)).toMatchObject({ completed: false });
    // The original URL is valid, so the change caused the rejection.
    expect((await put(signed)).status).toBe(200);
  });

  it('after its expiry', async () => {
    const { storagePath: key } = await uploadUrl({ contentType: 'image/png' });
    const sign = (ttlMs: number) =>
      gateway.api.services.storage.signUpload({ key, sizeBytes: png.length, ttlMs });
    const statuses = [await sign(-1000), await sign(60_000)].map(
      async ({ url, headers }) => (await fetch(url, { method: 'PUT', headers, body: png })).status,
    );
    expect(await Promise.all(statuses)).toEqual([403, 200]);
  });
});

describe('content with a false or dangerous type', () => {
  const bomb = pngHeader(50_000, 50_000);
  it.each<[string, string | undefined, () => Buffer, number]>([
    ['HTML as PNG', 'image/png', () => Buffer.from('<html><script>alert(1)</script>'), 415],
    ['JPEG as PNG', 'image/png', () => Buffer.from('ffd8ffe000104a464946', 'hex'), 415],
    ['SVG without a type', undefined, () => Buffer.from('<svg xmlns="http://w3.org"/>'), 415],
    ['an executable without a type', undefined, () => Buffer.from('7f454c46020101', 'hex'), 415],
    ['a picture of 2.5 gigapixels', 'image/png', () => bomb, 413],
    ['a picture of 2.5 gigapixels without a type', undefined, () => bomb, 413],
    ['a picture without a header', 'image/png', () => png.subarray(0, 12), 415],
    ['an image of 26 MB', undefined, () => padded(26), 413],
  ])('%s is rejected', async (_name, contentType, bytes, status) => {
    const before = await stored();
    const signed = await uploadUrl(contentType === undefined ? {} : { contentType });
    const answer = await put(signed, bytes());
    expect(answer.status).toBe(status);
    expect(await stored()).toEqual(before);
    expect(await rowOf(signed.fileId)).toMatchObject({ completed: false });
  });

  it('an endless body is cut off at the size limit', async () => {
    const signed = await uploadUrl({ contentType: 'image/png' });
    const { hostname, port } = new URL(gateway.url);
    let sentBytes = 0;
    const status = await new Promise<number>((resolve, reject) => {
      const request = httpRequest({
        hostname,
        port,
        method: 'PUT',
        path: targetOf(signed.uploadUrl),
        headers: { ...signed.headers, 'transfer-encoding': 'chunked' },
      });
      request.on('response', (answer) => {
        resolve(answer.statusCode ?? 0);
        request.destroy();
      });
      request.on('error', reject);
      const block = padded(1);
      const pump = (): void => {
        if (request.destroyed) return;
        sentBytes += block.length;
        request.write(block, () => setImmediate(pump));
      };
      pump();
    });
    expect(status).toBe(413);
    expect(sentBytes).toBeLessThan(60 * 1024 * 1024);
  });

  function padded(megabytes: number): Buffer {
    return Buffer.concat([png, Buffer.alloc(megabytes * 1024 * 1024)]);
  }
});

/** A small PNG that claims this size. */
function pngHeader(width: number, height: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.writeUInt8(8, 8);
  header.writeUInt8(2, 9);
  const magic = Buffer.from('89504e470d0a1a0a', 'hex');
  const pixels = deflateSync(Buffer.alloc(1000));
  return Buffer.concat([magic, chunk('IHDR', header), chunk('IDAT', pixels), chunk('IEND')]);
}

function chunk(name: string, data = Buffer.alloc(0)): Buffer {
  const content = Buffer.concat([Buffer.from(name), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(content));
  return Buffer.concat([length, content, sum]);
}

describe('inputs of a job', () => {
  const path = '/api/v1/studio/image/generate';
  const generate = (imageUrls: string[] | string, key?: string) =>
    gateway.call(path, {
      body: { prompt: `after a reference ${newId('request')}`, imageUrls },
      ...(key !== undefined && { key }),
    });
  async function uploaded(key?: string): Promise<UploadUrl> {
    const signed = await uploadUrl({ contentType: 'image/png' }, key);
    expect((await put(signed)).status).toBe(200);
    return signed;
  }

  it('may be an upload of the same organization: the provider gets a readable URL, and the workflow gets none', async () => {
    const signed = await uploaded();
    const answer = await generate(signed.publicUrl);
    expect(answer.status).toBe(200);
    const [submit] = await gateway.sandbox.submits({ match: signed.fileId });
    const [given] = (submit?.body['image_urls'] ?? []) as string[];
    expect(given).toContain(`/files/${signed.storagePath}?`);
    expect(given).not.toBe(signed.publicUrl);
    expect((await fetch(given ?? '')).status).toBe(200);
  });

  it('may be the result of an earlier job', async () => {
    const first = await gateway.call(path, { body: { prompt: 'a first picture' } });
    const [image] = first.body.data.images;
    expect((await generate(image?.url ?? '')).status).toBe(200);
  });

  it('get the same rejection when they are unknown and when they belong to another organization', async () => {
    const mine = await uploaded();
    const other = await gateway.newCaller({ credits: 100 });
    const foreign = await generate(mine.fileId, other.key);
    const unsigned = await generate(mine.publicUrl.replace(/\?.*/, ''), other.key);
    const unknownUrl = mine.publicUrl.replace(/org_\w+\/file_\w+/, () =>
      [newId('organization'), newId('upload')].join('/'),
    );
    const unknown = await generate(unknownUrl, other.key);
    const strip = ({ status, body: { requestId: _id, ...body } }: typeof foreign) => ({
      status,
      body,
    });
    expect(strip(foreign)).toEqual({
      status: 400,
      body: {
        error: 'INVALID_INPUT_URL',
        message: 'imageUrls.0: is not a file of this organization',
        details: [{ path: 'imageUrls.0', message: 'is not a file of this organization' }],
      },
    });
    expect(strip(unknown)).toEqual(strip(foreign));
    expect(strip(unsigned)).toEqual(strip(foreign));
  });

  it('of another organization are accepted by their signed URL, like every public URL', async () => {
    const mine = await uploaded();
    const other = await gateway.newCaller({ credits: 100 });
    expect((await generate(mine.publicUrl, other.key)).status).toBe(200);
    const [submit] = await gateway.sandbox.submits({ match: mine.fileId });
    expect(JSON.stringify(submit)).toContain(new URL(mine.publicUrl).search);
  });

  it('are rejected before any credits are reserved, each with its field', async () => {
    const pending = await uploadUrl({ contentType: 'image/png' });
    const good = await uploaded();
    const count = 'SELECT count(*)::int AS n FROM reservation';
    const before = await gateway.database.query(count);
    const answer = await generate([
      good.publicUrl,
      pending.publicUrl,
      'https://127.0.0.1/x.png',
      `${gateway.url}/api/v1/models`,
      'http://example.com/x.png',
    ]);
    expect(answer).toMatchObject({ status: 400, body: { error: 'INVALID_INPUT_URL' } });
    expect(answer.body.details).toEqual([
      { path: 'imageUrls.1', message: 'has not been uploaded yet' },
      {
        path: 'imageUrls.2',
        message: 'cannot be read: the host does not have a public address',
      },
      { path: 'imageUrls.3', message: 'is not a file of this organization' },
      { path: 'imageUrls.4', message: 'cannot be read: must be an https URL' },
    ]);
    expect(await gateway.database.query(count)).toEqual(before);
    expect(await gateway.sandbox.submits({ match: pending.fileId })).toEqual([]);
  });

  it('are rejected when they have another media type than the field', async () => {
    const sound = Buffer.concat([Buffer.from('RIFF\0\0\0\0WAVEfmt '), Buffer.alloc(500)]);
    const signed = await uploadUrl({ filename: 'hum.wav' });
    expect((await put(signed, sound)).status).toBe(200);
    expect(await generate(signed.publicUrl)).toMatchObject({
      status: 400,
      body: {
        details: [
          { path: 'imageUrls.0', message: 'must be a file of the type image, not audio/wav' },
        ],
      },
    });
  });

  it('are not read from a prompt that looks like a file reference', async () => {
    const mine = await uploaded();
    const other = await gateway.newCaller({ credits: 100 });
    const prompt = `storage:${mine.storagePath}`;
    const answer = await gateway.call(path, { body: { prompt }, key: other.key });
    expect(answer.status).toBe(200);
    const [submit] = await gateway.sandbox.submits({ match: mine.fileId });
    expect(submit?.body['prompt']).toBe(prompt);
  });
});

describe('uploads that never arrived', () => {
  const age = (fileId: string, interval: string) =>
    gateway.database.query(
      `UPDATE upload SET expires_at = clock_timestamp() - $2::interval WHERE id = $1`,
      [fileId, interval],
    );

  it('are removed an hour after their URL expired; an upload that did arrive is completed', async () => {
    const [never, recent, crashed] = await Promise.all([uploadUrl(), uploadUrl(), uploadUrl()]);
    await age(never.fileId, '61 minutes');
    await age(recent.fileId, '59 minutes');
    await age(crashed.fileId, '61 minutes');
    // The object is stored, but the process stopped before it updated the row.
    const { storage, uploads } = gateway.api.services;
    const spooled = await storage.spoolPath();
    await writeFile(spooled, png);
    await storage.put(crashed.storagePath, spooled);
    await uploads.sweep();
    expect(await rowOf(never.fileId)).toBeUndefined();
    expect(await rowOf(recent.fileId)).toMatchObject({ completed: false });
    expect(await rowOf(crashed.fileId)).toMatchObject({
      completed: true,
      content_type: 'image/png',
      size_bytes: String(png.length),
    });
  });
});
