/**
 * Files that their organization lists and deletes: a deleted file is unreadable and uses no quota,
 * its billing record stays, and a repeated delete changes nothing. Also responses with gzip.
 */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import * as undici from 'undici';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { UploadUrl } from '../../api/endpoints/upload-urls.ts';
import { createStoredFiles } from '../../storage/stored-files.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import { putFile, signUpload, uploadFile } from '../harness/uploads.ts';

interface FileList {
  data: {
    kind: string;
    fileId: string | null;
    jobId: string | null;
    storagePath: string;
    complete: boolean;
    contentCredentials: string | null;
    url: string | null;
  }[];
  hasMore: boolean;
  nextCursor: string | null;
  details: { path: string }[];
}

const listPath = '/api/v1/storage/files';
const imagePath = '/api/v1/studio/image/generate';
const gateway = useGateway({ settled: 'last' });
const png = await drawDisc(8, 8);

const files = async ({ key }: TestCaller, query = '') =>
  (await gateway.call<FileList>(`${listPath}${query}`, { key })).body;
const remove = (path: string, { key }: TestCaller) => gateway.call(path, { method: 'DELETE', key });
const removeFile = ({ fileId }: UploadUrl, caller: TestCaller) =>
  remove(`${listPath}/${fileId}`, caller);
const readUsedBytes = async ({ key }: TestCaller) =>
  (await gateway.call<{ storage: { used: number } }>('/api/v1/usage', { key })).body.storage.used;
const properties = { filename: 'a.png', size: png.length };
const sign = ({ key }: TestCaller) => signUpload(gateway, properties, key);
const upload = ({ key }: TestCaller) => uploadFile(gateway, png, properties, key);

async function paint({ key }: TestCaller, more: object = {}): Promise<string> {
  const jobId = await gateway.startImage({ prompt: 'a tree', ...more }, key);
  await gateway.untilDone(jobId, key);
  return jobId;
}

/** Range requests: more headers, the status, and the bytes or the total size of a 416. */
const rangeRequests: [string, Record<string, string>, number, [number, number] | string][] = [
  ['the first bytes', { range: 'bytes=0-2' }, 206, [0, 3]],
  ['the last byte', { range: 'bytes=-1' }, 206, [-1, 0]],
  ['the last three bytes', { range: 'bytes=-3' }, 206, [-3, 0]],
  ['all but the first bytes', { range: 'bytes=5-' }, 206, [5, 0]],
  ['more than there is', { range: 'bytes=1-999999999' }, 206, [1, 0]],
  ['more of the end than there is', { range: 'bytes=-999999999' }, 206, [0, 0]],
  ['two adjacent ranges', { range: 'bytes=0-1,2-3' }, 206, [0, 4]],
  ['two distant ranges', { range: 'bytes=0-1,9-9' }, 200, [0, 0]],
  ['another unit', { range: 'pages=1-2' }, 200, [0, 0]],
  ['bytes after the end', { range: 'bytes=999999999-' }, 416, 'none'],
  ['the last 0 bytes', { range: 'bytes=-0' }, 416, 'none'],
  ['a range that ends before it starts', { range: 'bytes=5-2' }, 416, 'none'],
  ['the rest of the same file', { range: 'bytes=1-1', 'if-range': 'same' }, 206, [1, 2]],
  ['the rest of another file', { range: 'bytes=1-1', 'if-range': '"old"' }, 200, [0, 0]],
  [
    'the rest since a date',
    { range: 'bytes=1-1', 'if-range': new Date().toUTCString() },
    200,
    [0, 0],
  ],
  ['a changed file', { 'if-none-match': 'same' }, 304, 'none'],
  ['a file that is not another', { 'if-none-match': '"old"' }, 200, [0, 0]],
];

describe('a download', () => {
  let downloads: { url: string; headers: Record<string, string> }[];
  beforeAll(async () => {
    const caller = await gateway.newCaller({ credits: 10_000 });
    const uploaded = await upload(caller);
    const film = { prompt: 'a tide', model: 'veo', durationSeconds: 4 };
    const path = '/api/v1/studio/video/generate';
    const { body } = await gateway.call<{ data: { jobId: string } }>(path, {
      body: film,
      key: caller.key,
    });
    const { jobId } = body.data;
    await gateway.untilDone(jobId, caller.key);
    downloads = [
      { url: uploaded.publicUrl, headers: {} },
      {
        url: `${gateway.url}/api/v1/videos/${jobId}/content`,
        headers: { authorization: `Bearer ${caller.key}` },
      },
    ];
  });

  it.each(rangeRequests)('can ask for %s', async (_name, more, status, expected) => {
    for (const { url, headers } of downloads) {
      const whole = await fetch(url, { headers });
      const etag = whole.headers.get('etag') ?? '';
      expect([url, whole.status, whole.headers.get('accept-ranges')]).toEqual([url, 200, 'bytes']);
      const bytes = Buffer.from(await whole.arrayBuffer());
      const entries = Object.entries(more).map(([k, value]) => [
        k,
        value === 'same' ? etag : value,
      ]);
      const asked = { ...headers, ...Object.fromEntries(entries) };
      // `fetch` adds `Cache-Control: no-cache` to conditional requests.
      const answer = await undici.request(url, { headers: asked });
      const body = Buffer.from(await answer.body.arrayBuffer());
      expect(answer.statusCode).toBe(status);
      const range = answer.headers['content-range'] ?? null;
      if (status === 416) expect(range).toBe(`bytes */${bytes.length}`);
      if (typeof expected === 'string') continue;
      const [first, last] = expected;
      const part = bytes.subarray(first, last === 0 ? undefined : last);
      expect(body.equals(part)).toBe(true);
      const start = bytes.length + first;
      const from = first < 0 ? start : first;
      if (status === 206)
        expect(range).toBe(`bytes ${from}-${from + part.length - 1}/${bytes.length}`);
      // A HEAD request has the same headers and no body.
      const head = await fetch(url, { method: 'HEAD', headers: asked });
      expect([head.status, head.headers.get('content-length')]).toEqual([status, `${part.length}`]);
      expect(head.headers.get('content-range')).toBe(range);
    }
  });
});

describe('an upload URL', () => {
  it('that was signed before a suspension takes no file, and afterwards it does', async () => {
    const caller = await gateway.newCaller({ credits: 1 });
    const signed = await sign(caller);
    const { organizationId } = caller;
    await gateway.operate(`/organizations/${organizationId}/suspend`, {});
    const answer = await putFile(signed, png);
    expect([answer.status, await answer.json()]).toMatchObject([
      403,
      { error: 'ORGANIZATION_SUSPENDED' },
    ]);
    await gateway.operate(`/organizations/${organizationId}/activate`, {});
    expect((await putFile(signed, png)).status).toBe(200);
  });

  it('is not made for a viewer', async () => {
    const caller = await gateway.newCaller({ credits: 1 });
    const makeViewer = `UPDATE app_user SET role = 'viewer' WHERE id = $1`;
    await gateway.database.query(makeViewer, [caller.userId]);
    const body = properties;
    const answer = await gateway.call('/api/v1/storage/upload-url', { key: caller.key, body });
    expect([answer.status, answer.body.error]).toEqual([403, 'FORBIDDEN']);
    expect(await readUsedBytes(caller)).toBe(0);
  });
});

describe('files', () => {
  it('of jobs and uploads are listed together, newest first, page by page', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const jobId = await paint(caller, { numImages: 2 });
    const stored = await upload(caller);
    const open = [await sign(caller), await sign(caller)] as const;
    const all = await files(caller);
    expect(all.data.map((file) => [file.kind, file.fileId ?? file.jobId, file.complete])).toEqual([
      ['upload', open[1].fileId, false],
      ['upload', open[0].fileId, false],
      ['upload', stored.fileId, true],
      ['artifact', jobId, true],
      ['artifact', jobId, true],
    ]);
    expect(all.data[0]?.url).toBeNull();
    const marks = all.data.map(({ contentCredentials }) => contentCredentials);
    expect(marks).toEqual([null, null, null, 'gateway', 'gateway']);
    for (const { url } of all.data.slice(2)) expect((await fetch(url ?? '')).status).toBe(200);
    // Files with equal times are ordered by their paths.
    const update = 'UPDATE upload SET created_at = $2 WHERE id = $1';
    const now = new Date();
    for (const { fileId } of [stored, ...open]) {
      await gateway.database.query(update, [fileId, now]);
    }
    const pages = [await files(caller, '?limit=1')];
    for (let page = pages[0]; page?.nextCursor; pages.push(page)) {
      page = await files(caller, `?limit=1&cursor=${page.nextCursor}`);
    }
    const paths = (list: FileList) => list.data.map(({ storagePath }) => storagePath);
    expect(pages.flatMap(paths)).toEqual(paths(all));
    expect(pages.map(({ hasMore }) => hasMore)).toEqual([true, true, true, true, false]);
    expect((await files(caller, '?kind=upload')).data).toHaveLength(3);
    for (const [query, named] of [
      ['?kind=film', 'kind'],
      ['?cursor=AAAA', 'cursor'],
      ['?limit=0', 'limit'],
    ] as const) {
      expect((await files(caller, query)).details[0]?.path).toBe(named);
    }
  });
});

describe('a deleted upload', () => {
  it('is unreadable, uses no quota, and may be deleted again', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const signed = await upload(caller);
    const { fileId } = signed;
    expect(await readUsedBytes(caller)).toBe(png.length);
    const deleted = await removeFile(signed, caller);
    expect(deleted).toMatchObject({ status: 200, body: { data: { fileId } } });
    expect((await removeFile(signed, caller)).body.data).toEqual(deleted.body.data);
    expect(await readUsedBytes(caller)).toBe(0);
    expect((await files(caller)).data).toEqual([]);
    const read = await fetch(signed.publicUrl);
    expect([read.status, await read.text()]).toEqual([404, expect.stringContaining('was deleted')]);
    const body = { prompt: 'a tree', imageUrls: fileId };
    const used = await gateway.call(imagePath, { key: caller.key, body });
    expect([used.status, used.body.error]).toEqual([400, 'INVALID_INPUT_URL']);
    // A later PUT to its URL is rejected, and its row is swept.
    expect((await putFile(signed, png)).status).toBe(403);
    await gateway.database.query(
      `UPDATE upload SET expires_at = now() - interval '2 hours' WHERE id = $1`,
      [fileId],
    );
    await gateway.api.services.uploads.sweep();
    expect((await removeFile(signed, caller)).status).toBe(404);
    expect(await readUsedBytes(caller)).toBe(0);
  });

  it('is not confirmed for a request that found it before', async () => {
    const signed = await upload(gateway.caller);
    const { uploads } = gateway.api.services;
    const found = await uploads.find(signed.fileId);
    expect(found && (await uploads.confirm(found))).toBe('image/png');
    await removeFile(signed, gateway.caller);
    expect(found && (await uploads.confirm(found))).toBeNull();
  });

  it('before its file arrived accepts no file, and frees its reserved bytes', async () => {
    const caller = await gateway.newCaller({ credits: 0 });
    const signed = await sign(caller);
    expect(await readUsedBytes(caller)).toBe(png.length);
    expect((await removeFile(signed, caller)).status).toBe(200);
    expect(await readUsedBytes(caller)).toBe(0);
    expect((await putFile(signed, png)).status).toBe(403);
  });
});

describe('deleting the media of a job', () => {
  // The rows of other files are in the database too.
  beforeEach(() => gateway.api.services.storedFiles.sweep());

  it('removes the files, and keeps the record and the billing', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const { key } = caller;
    const headers = { 'idempotency-key': 'a-picture' };
    const send = () => gateway.call(imagePath, { key, headers, body: { prompt: 'a tree' } });
    const url = (await send()).body.data.images[0]?.url ?? '';
    const jobId = (await files(caller)).data[0]?.jobId ?? '';
    const path = `/api/v1/studio/jobs/${jobId}/media`;
    const deleted = await remove(path, caller);
    expect(deleted).toMatchObject({
      status: 200,
      body: {
        data: {
          jobId,
          status: 'completed',
          result: null,
          mediaDeletedAt: expect.stringMatching(/Z$/),
          billing: { state: 'charged', charged: 3.9 },
        },
      },
    });
    expect((await remove(path, caller)).body.data).toEqual(deleted.body.data);
    expect((await gateway.untilDone(jobId, key)).body.data).toEqual(deleted.body.data);
    expect((await fetch(url)).status).toBe(404);
    expect((await files(caller)).data).toEqual([]);
    expect(await send()).toMatchObject({ status: 410, body: { error: 'MEDIA_DELETED', jobId } });
    const body = { imageUrl: url };
    const used = await gateway.call('/api/v1/studio/image/upscale', { key, body });
    expect([used.status, used.body.error]).toEqual([400, 'INVALID_INPUT_URL']);
    expect((await gateway.call('/api/v1/usage', { key })).body.credits).toBe(96.1);
    const audit = await gateway.admin('/audit?results=true');
    expect(audit.status).toBe(200);
    expect(JSON.stringify(audit.body)).not.toContain(jobId);
  });

  it('is completed by the sweeper when the storage did not delete the files', async () => {
    const jobId = await paint(gateway.caller, { numImages: 2 });
    const { data } = await files(gateway.caller, '?limit=2');
    await gateway.database.query('UPDATE artifact SET deleted_at = now() WHERE job_id = $1', [
      jobId,
    ]);
    const { storedFiles, storage, ...services } = gateway.api.services;
    const refuseOne = vi.fn(storage.remove).mockRejectedValueOnce(new Error('not this one'));
    const sweeper = createStoredFiles({ ...services, storage: { ...storage, remove: refuseOne } });
    // A file that is not deleted does not stop the others.
    expect(await sweeper.sweep()).toEqual({ done: 1, skipped: 1 });
    expect(await storedFiles.sweep()).toEqual({ done: 1, skipped: 0 });
    for (const { url } of data) expect((await fetch(url ?? '')).status).toBe(404);
  });

  it('goes on behind more files than one sweep takes that the storage does not remove', async () => {
    const jobId = await paint(gateway.caller);
    const { database } = gateway;
    await database.query(
      `INSERT INTO artifact (storage_key, job_id, organization_id, content_type, size_bytes, sha256, deleted_at)
       SELECT 'stuck-' || n, job_id, organization_id, content_type, size_bytes, sha256, now() - interval '1 day'
       FROM artifact, generate_series(1, 250) n WHERE job_id = $1`,
      [jobId],
    );
    await database.query(
      `UPDATE artifact SET deleted_at = now() WHERE job_id = $1 AND deleted_at IS NULL`,
      [jobId],
    );
    const { storage, ...services } = gateway.api.services;
    const removeReal = (key: string) =>
      key.startsWith('stuck-') ? Promise.reject(new Error('not this one')) : storage.remove(key);
    const sweeper = createStoredFiles({ ...services, storage: { ...storage, remove: removeReal } });
    const reports = [await sweeper.sweep(), await sweeper.sweep()];
    expect(reports.map(({ done }) => done).reduce((sum, done) => sum + done)).toBe(1);
    await database.query(`DELETE FROM artifact WHERE storage_key LIKE 'stuck-%'`);
  });

  it('is rejected for a running job', async () => {
    const jobId = await gateway.startImage({ prompt: '[[slow:900s]] a tree' });
    const path = `/api/v1/studio/jobs/${jobId}/media`;
    expect((await remove(path, gateway.caller)).body.error).toBe('JOB_NOT_DONE');
    await gateway.cancel(jobId);
    await gateway.untilDone(jobId);
  });
});

describe('a response', () => {
  /** Returns the response without decompression. */
  async function raw(path: string, headers: Record<string, string>, body?: object) {
    const sending = request(`${gateway.url}${path}`, {
      method: body ? 'POST' : 'GET',
      headers: {
        authorization: `Bearer ${gateway.caller.key}`,
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
    });
    sending.on('error', () => {}).end(body && JSON.stringify(body));
    const [response] = (await once(sending, 'response')) as [IncomingMessage];
    const { statusCode: status, headers: answered } = response;
    return { status, headers: answered, bytes: await buffer(response) };
  }
  const zipped = { 'accept-encoding': 'gzip, deflate, br' };

  it('in JSON is compressed only for a client that accepts gzip', async () => {
    for (const path of ['/api/v1/models', '/api/v1/openapi.json']) {
      const plain = await raw(path, {});
      const small = await raw(path, zipped);
      expect(plain.headers['content-encoding']).toBeUndefined();
      expect(small.headers).toMatchObject({
        'content-encoding': 'gzip',
        'content-type': plain.headers['content-type'],
        'content-length': String(small.bytes.length),
      });
      for (const { headers } of [plain, small]) {
        expect(headers['vary']).toContain('Accept-Encoding');
      }
      expect(small.bytes.length).toBeLessThan(plain.bytes.length / 2);
      expect(gunzipSync(small.bytes).equals(plain.bytes)).toBe(true);
    }
    const rejected = await raw('/api/v1/models', { 'accept-encoding': 'gzip;q=0' });
    expect(rejected.headers['content-encoding']).toBeUndefined();
    const { headers } = await raw('/api/v1/models', zipped);
    const etag = { 'if-none-match': String(headers['etag']) };
    const known = await raw('/api/v1/models', { ...zipped, ...etag });
    expect([known.status, known.bytes.length]).toEqual([304, 0]);
  });

  it('is not compressed when it is short, a stream, a file or a chat', async () => {
    const jobId = await paint(gateway.caller);
    const [file] = (await files(gateway.caller, '?limit=1')).data;
    const chat = { model: 'gpt-4o', messages: [{ role: 'user', content: 'x'.repeat(4000) }] };
    const answers = await Promise.all([
      raw('/api/v1/api-keys', zipped),
      raw(`/api/v1/studio/jobs/${jobId}/events`, zipped),
      raw((file?.url ?? '').replace(gateway.url, ''), zipped),
      raw('/api/v1/chat', zipped, chat),
    ]);
    for (const { status, headers } of answers) {
      expect([status, headers['content-encoding']]).toEqual([200, undefined]);
    }
    expect(answers[3].bytes.length).toBeGreaterThan(1024);
  });
});
