/** Upload URLs (spec §4.5) on the embedded storage: accepted and rejected uploads. */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { crc32 } from 'node:zlib';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { UploadUrl } from '../../api/endpoints/upload-urls.ts';
import { checkObject } from '../../storage/uploads.ts';
import type { UploadsDeps } from '../../storage/upload-rows.ts';
import { useGateway } from '../harness/gateway.ts';
import { openRequest } from '../harness/raw-requests.ts';
import { makeFilm, makeSpeech } from '../harness/media.ts';
import { signUpload, uploadFile } from '../harness/uploads.ts';

const gateway = useGateway({ settled: 'last' });
let png: Buffer;
beforeAll(async () => {
  png = await sharp({ create: { width: 40, height: 30, channels: 3, background: '#3366cc' } })
    .png()
    .toBuffer();
});

const signPath = '/api/v1/storage/upload-url';
const sign = (body: object = {}) => signUpload(gateway, body);
const ofPng = { contentType: 'image/png' };

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
  const { method = 'PUT', target: path, headers = {} } = raw;
  const request = httpRequest({ hostname, port, agent: false, method, path, headers });
  request.on('error', () => {}).end(raw.body);
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  const isJson = answer.headers['content-type']?.includes('json') ?? false;
  const body = isJson ? ((await json(answer)) as Record<string, unknown>) : {};
  answer.resume();
  return { status: answer.statusCode ?? 0, body };
}

const toTarget = (url: string): string => url.slice(gateway.url.length);
const put = (signed: UploadUrl, body: Buffer = png) =>
  send({
    target: toTarget(signed.uploadUrl),
    headers: { ...signed.headers, 'content-length': body.length },
    body,
  });

/** Begins a PUT whose body the test writes. */
const openPut = ({ uploadUrl, headers }: UploadUrl, more: OutgoingHttpHeaders) =>
  openRequest(uploadUrl, { ...headers, ...more }, 'PUT');

/** Lists the stored files. */
async function listStored(): Promise<string[]> {
  const directory = gateway.config.STORAGE_DIR;
  const below = (name: string) =>
    readdir(join(directory, name), { recursive: true }).catch(() => []);
  const [objects, spool] = await Promise.all([below('objects'), below('spool')]);
  return [...objects.filter((name) => name.includes('.')), ...spool].toSorted();
}

const readRow = async (fileId: string) => {
  const [row] = await gateway.database.query<Record<string, unknown>>(
    'SELECT *, completed_at IS NOT NULL AS completed FROM upload WHERE id = $1',
    [fileId],
  );
  return row;
};

describe('POST /storage/upload-url', () => {
  it('returns a signed PUT URL and the public URL', async () => {
    const body = await sign({ filename: 'cat.jpeg', size: 1234, purpose: 'image-edit' });
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
    const expires = Number(readField(body.publicUrl, 'expires'));
    expect(Math.abs(Date.parse(body.publicUrlExpiresAt) / 1000 - expires)).toBeLessThan(2);
    // What is left of ten minutes: counted from before the request it could be more.
    const lifeMs = Date.parse(body.expiresAt) - Date.now();
    expect(lifeMs).toBeGreaterThan(590_000);
    expect(lifeMs).toBeLessThanOrEqual(600_000);
  });

  it('needs no request body', async () => {
    const answer = await gateway.call<UploadUrl>(signPath, { method: 'POST' });
    expect([answer.status, answer.body.maxBytes]).toEqual([200, 200 * 1024 * 1024]);
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
  ])('rejects %j with %i', async (body, status, field) => {
    const answer = await gateway.call(signPath, { body });
    expect(answer).toMatchObject({ status, body: { details: [{ path: field }] } });
  });

  it.each([
    ['image/png', 25],
    ['audio/x-wav', 100],
    ['video/quicktime', 200],
  ])('accepts %s up to %i MB', async (contentType, megabytes) => {
    const size = megabytes * 1024 * 1024;
    expect((await sign({ contentType, size })).maxBytes).toBe(size);
  });
});

describe('an upload', () => {
  it('is accepted once, recorded, and readable at the public URL', async () => {
    const signed = await sign({ contentType: 'image/png', size: png.length });
    const sha256 = createHash('sha256').update(png).digest('hex');
    expect(await put(signed)).toEqual({
      status: 200,
      body: {
        fileId: signed.fileId,
        storagePath: signed.storagePath,
        contentType: 'image/png',
        size: png.length,
        convertedFrom: null,
        sha256,
      },
    });
    expect(await readRow(signed.fileId)).toMatchObject({
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
      'content-disposition': `inline; filename="${signed.fileId}.png"`,
    });
    expect(answer.headers.get('set-cookie')).toBeNull();
    expect(Buffer.from(await answer.arrayBuffer()).equals(png)).toBe(true);
    expect(await put(signed)).toMatchObject({ status: 409, body: { error: 'ALREADY_UPLOADED' } });
  });

  it.each([
    [
      'Große Möwe (2).heif',
      'inline; filename="Gro_e-M_we-2.png"; filename*=UTF-8\'\'Gro%C3%9Fe-M%C3%B6we-2.png',
    ],
    ['../../x";y.png', 'inline; filename="x-y.png"'],
    ['photo.jpg', 'inline; filename="photo.png"'],
  ])('named %s is downloaded under a name with its own extension', async (filename, header) => {
    const signed = await sign({ filename });
    expect(await put(signed)).toMatchObject({ status: 200 });
    const answer = await fetch(signed.publicUrl);
    expect(answer.headers.get('content-disposition')).toBe(header);
    expect(answer.headers.get('content-type')).toBe('image/png');
  });

  it.each([
    [{ contentType: 'image/tiff' }, 'contentType: is TIFF; ', /; export it as PNG or JPEG$/],
    [{ filename: 'SCAN.TIF' }, 'filename: is TIFF; ', /; export it as PNG or JPEG$/],
    [{ filename: 'drawing.svg' }, 'filename: is XML or SVG; ', /; export it as PNG or JPEG$/],
    [{ filename: 'memo.amr' }, 'filename: is AMR; ', /; convert it to WAV, FLAC or MP3$/],
    [{ contentType: 'video/x-msvideo' }, 'contentType: is AVI; ', /; convert it to MP4$/],
  ])('of %j is rejected with what to do, before it is sent', async (body, start, end) => {
    const answer = await gateway.call(signPath, { body });
    expect(answer).toMatchObject({ status: 415, body: { error: 'UNSUPPORTED_MEDIA_TYPE' } });
    const { message } = answer.body;
    expect(message.startsWith(start), message).toBe(true);
    expect(message).toMatch(end);
  });

  it('may have no size, chunked encoding and no type: the bytes determine the type', async () => {
    const signed = await sign();
    const answer = await send({
      target: toTarget(signed.uploadUrl),
      headers: { 'transfer-encoding': 'chunked' },
      body: png,
    });
    expect(answer).toMatchObject({ status: 200, body: { contentType: 'image/png' } });
    expect((await fetch(signed.publicUrl)).headers.get('content-type')).toBe('image/png');
  });

  it('is streamed without being held in memory', async () => {
    // A process that kept this video would grow by at least its size.
    const signed = await sign({ contentType: 'video/mp4' });
    const block = randomBytes(1024 * 1024);
    const padding = Buffer.from('\0\0\0\0free', 'latin1');
    padding.writeUInt32BE(8 + 110 * block.length);
    const head = Buffer.concat([await makeFilm(), padding]);
    const usedBytes = (): number => {
      const { arrayBuffers, heapUsed } = process.memoryUsage();
      return arrayBuffers + heapUsed;
    };
    const before = usedBytes();
    let peak = 0;
    const { client: sending, status } = openPut(signed, { 'transfer-encoding': 'chunked' });
    sending.write(head);
    for (let megabyte = 0; megabyte < 110; megabyte += 1) {
      await new Promise((written) => sending.write(block, written));
      peak = Math.max(peak, usedBytes());
    }
    sending.end();
    expect(await status).toBe(200);
    // V8 lets what lies outside its heap grow by 64 MB before it looks for what is garbage there.
    expect(peak - before).toBeLessThan(100 * 1024 * 1024);
    expect(await readRow(signed.fileId)).toMatchObject({
      size_bytes: String(head.length + 110 * block.length),
    });
  });

  it('leaves nothing when its sender disconnects', async () => {
    const before = await listStored();
    const signed = await sign({ contentType: 'image/png', size: 5_000_000 });
    const { client: sending } = openPut(signed, { 'content-length': 5_000_000 });
    sending.write(png);
    await expect.poll(listStored).not.toEqual(before);
    sending.destroy();
    await expect.poll(listStored).toEqual(before);
    expect(await readRow(signed.fileId)).toMatchObject({ completed: false });
  });
});

const swapCase = (word: string): string =>
  word.replaceAll(/[a-z]/gi, (c) => (c === c.toLowerCase() ? c.toUpperCase() : c.toLowerCase()));
const flipLast = (word: string): string => word.slice(0, -1) + (word.endsWith('A') ? 'B' : 'A');
const dateIn = (seconds: number): string => String(Math.floor(Date.now() / 1000) + seconds);
const readField = (url: string, name: string): string => new URL(url).searchParams.get(name) ?? '';

/** Returns changes of a signed request that each make it invalid. */
function makeTamperings(signed: UploadUrl, other: UploadUrl): Record<string, Partial<RawRequest>> {
  const { uploadUrl: url, publicUrl: reading, storagePath } = signed;
  const key = (changed: string) => ({ target: toTarget(url).replace(storagePath, changed) });
  const query = (changes: Record<string, string | null>) => {
    const changed = new URL(url);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) changed.searchParams.delete(name);
      else changed.searchParams.set(name, value);
    }
    return { target: toTarget(changed.href) };
  };
  const [expires, signature] = [readField(url, 'expires'), readField(url, 'signature')];
  const again = (field: string) => ({ target: `${toTarget(url)}&${field}` });
  const headers = (changed: OutgoingHttpHeaders) => ({ headers: changed });
  return {
    'another file': key(storagePath.replace(/file_./, 'file_f')),
    'another organization': key(storagePath.replace(/^org_\w+/, newId('organization'))),
    'another extension': key(storagePath.replace('.png', '.mp4')),
    '../': key(`../${storagePath}`),
    '../ inside': key(storagePath.replace('/', '/../')),
    '%2e%2e%2f': key(`%2e%2e%2f${storagePath}`),
    'double-encoded': key(`%252e%252e%252f${storagePath}`),
    'a double slash': key(storagePath.replace('/', '//')),
    'a backslash': key(storagePath.replace('/', '%5c')),
    'a NUL': key(`${storagePath}%00`),
    'unicode dots': key(`%EF%BC%8E%EF%BC%8E/${storagePath}`),
    'an absolute key': key(`/etc/${storagePath}`),
    'bad percent-encoding': key(`%zz${storagePath}`),
    GET: { method: 'GET' },
    DELETE: { method: 'DELETE' },
    POST: { method: 'POST' },
    'PUT to the reading URL': { target: toTarget(reading) },
    'the reading signature': query({
      expires: readField(reading, 'expires'),
      signature: readField(reading, 'signature'),
    }),
    'another Content-Type': headers({ 'content-type': 'image/jpeg' }),
    'no Content-Type': headers({ 'content-type': undefined }),
    HTML: headers({ 'content-type': 'text/html' }),
    SVG: headers({ 'content-type': 'image/svg+xml' }),
    'a Content-Encoding': headers({ 'content-encoding': 'gzip' }),
    'an untold length': headers({ 'transfer-encoding': 'chunked', 'content-length': undefined }),
    'one byte more': { body: Buffer.concat([png, Buffer.from('x')]) },
    'one byte less': { body: png.subarray(0, -1) },
    nothing: { body: Buffer.alloc(0) },
    'another size in the URL': query({ size: '1' }),
    'no size in the URL': query({ size: null }),
    'a raised expiry': query({ expires: dateIn(3600) }),
    'an expiry in the past': query({ expires: dateIn(-1) }),
    'no expiry': query({ expires: null }),
    'two expiries': again(`expires=${expires}`),
    'a short signature': query({ signature: signature.slice(0, -1) }),
    'a long signature': query({ signature: `${signature}A` }),
    'a swapped case': query({ signature: swapCase(signature) }),
    'another last character': query({ signature: flipLast(signature) }),
    'no signature': query({ signature: null }),
    'two signatures': again(`signature=${signature}`),
    'an extra parameter': again('acl=public'),
    "another upload's signature": query({ signature: readField(other.uploadUrl, 'signature') }),
  };
}

describe('a tampered upload', () => {
  it('is rejected and writes nothing, whichever part was changed', async () => {
    const properties = { contentType: 'image/png', size: png.length };
    const [signed, other] = [await sign(properties), await sign(properties)];
    const before = await listStored();
    const accepted: string[] = [];
    for (const [name, changes] of Object.entries(makeTamperings(signed, other))) {
      const { body = png, headers, ...raw } = changes;
      const lower = { 'content-type': 'image/png', 'content-length': body.length, ...headers };
      const sent = Object.entries(lower).filter(([, value]) => value !== undefined);
      const { status } = await send({
        target: toTarget(signed.uploadUrl),
        ...raw,
        headers: Object.fromEntries(sent),
        body,
      });
      // A conflict with an earlier request would also be 4xx.
      if (status < 400 || status >= 500 || status === 409) accepted.push(`${name}: ${status}`);
    }
    expect(accepted).toEqual([]);
    expect(await listStored()).toEqual(before);
    expect(await readRow(signed.fileId)).toMatchObject({ completed: false });
    // The original URL is valid, so the changes caused the rejections.
    expect((await put(signed)).status).toBe(200);
  });

  it('is rejected after its expiry', async () => {
    const { storagePath: key } = await sign(ofPng);
    const statuses = [-1000, 60_000].map(async (ttlMs) => {
      const { storage } = gateway.api.services;
      const { url, headers } = await storage.signUpload({ key, sizeBytes: png.length, ttlMs });
      return (await fetch(url, { method: 'PUT', headers, body: new Uint8Array(png) })).status;
    });
    expect(await Promise.all(statuses)).toEqual([403, 200]);
  });
});

describe('content with a false or dangerous type', () => {
  it.each<[string, string | undefined, () => Buffer, number]>([
    ['HTML as PNG', 'image/png', () => Buffer.from('<html><script>alert(1)</script>'), 415],
    ['JPEG as PNG', 'image/png', () => Buffer.from('ffd8ffe000104a464946', 'hex'), 415],
    ['SVG without a type', undefined, () => Buffer.from('<svg xmlns="http://w3.org"/>'), 415],
    ['an executable without a type', undefined, () => Buffer.from('7f454c46020101', 'hex'), 415],
    ['a picture of 2.5 gigapixels', 'image/png', () => claiming(50_000), 413],
    ['a picture of 2.5 gigapixels without a type', undefined, () => claiming(50_000), 413],
    ['a picture without a header', 'image/png', () => png.subarray(0, 12), 415],
    ['an image of 26 MB', undefined, () => padded(26), 413],
  ])('%s is rejected', async (_name, contentType, bytes, status) => {
    const before = await listStored();
    const signed = await sign({ contentType });
    expect((await put(signed, bytes())).status).toBe(status);
    expect(await listStored()).toEqual(before);
    expect(await readRow(signed.fileId)).toMatchObject({ completed: false });
  });

  it.each<[string, object, () => Promise<Buffer>, string]>([
    [
      'a browser’s recording',
      { contentType: 'audio/webm;codecs=opus' },
      () => sample('recording.webm'),
      'audio/webm',
    ],
    [
      'a recording named .weba',
      { filename: 'a.weba' },
      () => sample('recording.webm'),
      'audio/webm',
    ],
    ['AAC named .aac', { filename: 'a.aac' }, () => sample('a.aac'), 'audio/aac'],
    ['an audio book', { filename: 'book.m4b' }, () => sample('a.m4a'), 'audio/mp4'],
    ['Matroska', { contentType: 'video/x-matroska' }, () => sample('a.mkv'), 'video/x-matroska'],
    ['a film of an iPhone', { filename: 'a.m4v' }, () => sample('wide.mp4'), 'video/mp4'],
    ['a PNG named .jpg', { filename: 'photo.jpg' }, () => Promise.resolve(png), 'image/png'],
    [
      'a PNG of an unknown type',
      { contentType: 'image/x-new' },
      () => Promise.resolve(png),
      'image/png',
    ],
    ['sound declared as a film', { contentType: 'video/mp4' }, () => sample('a.m4a'), 'audio/mp4'],
  ])('%s is accepted: its bytes determine the type', async (_name, declared, load, contentType) => {
    const signed = await sign(declared);
    expect(await put(signed, await load())).toMatchObject({ status: 200, body: { contentType } });
    expect(await readRow(signed.fileId)).toMatchObject({ content_type: contentType });
  });

  it('an endless body is cut off at the size limit', async () => {
    const chunked = { 'transfer-encoding': 'chunked' };
    const { client: sending, status } = openPut(await sign(ofPng), chunked);
    const block = padded(1);
    let sentBytes = 0;
    const pump = (): void => {
      if (sending.destroyed) return;
      sentBytes += block.length;
      sending.write(block, () => setImmediate(pump));
    };
    pump();
    expect(await status).toBe(413);
    sending.destroy();
    expect(sentBytes).toBeLessThan(60 * 1024 * 1024);
  });

  const sample = (name: string): Promise<Buffer> =>
    readFile(join(import.meta.dirname, '../storage/media', name));
  function padded(megabytes: number): Buffer {
    return Buffer.concat([png, Buffer.alloc(megabytes * 1024 * 1024)]);
  }
});

/** Returns the picture with a header that claims this width and height. */
function claiming(pixels: number): Buffer {
  const bytes = Buffer.from(png);
  bytes.writeUInt32BE(pixels, 16);
  bytes.writeUInt32BE(pixels, 20);
  bytes.writeUInt32BE(crc32(bytes.subarray(12, 29)), 29);
  return bytes;
}

describe('inputs of a job', () => {
  const generate = (imageUrls: string[] | string) =>
    gateway.call('/api/v1/studio/image/generate', {
      body: { prompt: `after a reference ${newId('request')}`, imageUrls },
    });

  it('may be an upload of the same organization: the provider gets a readable URL of its own', async () => {
    const signed = await uploadFile(gateway, png, ofPng);
    const answer = await generate(signed.publicUrl);
    expect(answer.status).toBe(200);
    const [submit] = await gateway.sandbox.submits({ match: signed.fileId });
    const [url] = (submit?.body['image_urls'] ?? []) as string[];
    expect(url).toContain(`/files/${signed.storagePath}?`);
    expect(url).not.toBe(signed.publicUrl);
    expect((await fetch(url ?? '')).status).toBe(200);
  });

  it('of another organization are accepted by their signed URL, like every public URL', async () => {
    const { fileId, publicUrl: imageUrls } = await uploadFile(gateway, png, ofPng);
    const { key, organizationId } = await gateway.newCaller({ credits: 100 });
    const jobId = await gateway.startImage({ prompt: 'like this', imageUrls }, key);
    await gateway.untilDone(jobId, key);
    // The provider gets a copy that belongs to the organization of the job.
    const [submit] = await gateway.sandbox.submits({ jobId });
    expect(JSON.stringify(submit)).toContain(`/files/${organizationId}/`);
    expect(JSON.stringify(submit)).not.toContain(fileId);
  });

  it('are rejected before any credits are reserved, each with its field', async () => {
    const pending = await sign(ofPng);
    const good = await uploadFile(gateway, png, ofPng);
    const count = 'SELECT count(*) FROM reservation';
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
      { path: 'imageUrls.2', message: 'cannot be read: the host does not have a public address' },
      { path: 'imageUrls.3', message: 'is not a file of this organization' },
      { path: 'imageUrls.4', message: 'cannot be read: must be an https URL' },
    ]);
    expect(await gateway.database.query(count)).toEqual(before);
    expect(await gateway.sandbox.submits({ match: pending.fileId })).toEqual([]);
  });

  it('are rejected when they have another media type than the field', async () => {
    const { publicUrl } = await uploadFile(gateway, await makeSpeech(1), { filename: 'hum.mp3' });
    const message = 'is MP3; accepted are PNG, JPEG, WebP, GIF, HEIC and AVIF';
    expect(await generate(publicUrl)).toMatchObject({
      status: 400,
      body: { details: [{ path: 'imageUrls.0', message }] },
    });
  });

  it('are not read from a prompt that looks like a file reference', async () => {
    const mine = await uploadFile(gateway, png, ofPng);
    const { key } = await gateway.newCaller({ credits: 100 });
    const prompt = `storage:${mine.storagePath}`;
    await gateway.untilDone(await gateway.startImage({ prompt }, key), key);
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
    const [never, recent, crashed] = await Promise.all([sign(), sign(), sign()]);
    await age(never.fileId, '61 minutes');
    await age(recent.fileId, '59 minutes');
    await age(crashed.fileId, '61 minutes');
    // The object is stored, but the process stopped before it updated the row.
    const { storage, uploads } = gateway.api.services;
    const spooled = await storage.spoolPath();
    await writeFile(spooled, png);
    await storage.put(crashed.storagePath, spooled);
    // The check of an upload keeps its object when the database fails.
    const deps = { storage, pool: { query: () => Promise.reject(new Error('away')) } };
    const upload = await uploads.find(crashed.fileId);
    const checked = upload && checkObject(deps as unknown as UploadsDeps, upload);
    await expect(checked).rejects.toThrow('away');
    // So does the check of a busy gateway.
    const open = () => Promise.reject(new GatewayError('SERVICE_UNAVAILABLE'));
    const busy = { ...gateway.api.services, storage: { ...storage, open } };
    const rechecked = upload && checkObject(busy as unknown as UploadsDeps, upload);
    await expect(rechecked).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    await uploads.sweep();
    expect(await readRow(never.fileId)).toBeUndefined();
    expect(await readRow(recent.fileId)).toMatchObject({ completed: false });
    expect(await readRow(crashed.fileId)).toMatchObject({
      completed: true,
      content_type: 'image/png',
      size_bytes: String(png.length),
    });
  });
});
