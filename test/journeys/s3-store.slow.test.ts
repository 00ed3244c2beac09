/**
 * A gateway with an S3 store: callers exchange results, uploads and inputs with the store directly,
 * not through the API.
 */
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { UploadUrl } from '../../api/endpoints/upload-urls.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { startHttpServer } from '../harness/http-server.ts';
import type { LogLine } from '../harness/running-gateway.ts';
import { until } from '../harness/until.ts';
import { drawDisc, download } from '../harness/media.ts';
import { putFile, signUpload } from '../harness/uploads.ts';
import { findS3Server, startS3Server, type S3Server } from '../../dev/stack/s3-server.ts';

const executable = await findS3Server();
const path = '/api/v1/studio/image/generate';

let gateway: TestGateway;
let server: S3Server;
const png = await drawDisc(64, 64);
beforeAll(async () => {
  if (!executable) return;
  server = await startS3Server(executable);
  const { endpoint, region, bucket, accessKeyId, secretAccessKey } = server;
  // Another storage.
  gateway = await startGateway({
    env: {
      STORAGE_DRIVER: 's3',
      S3_ENDPOINT: endpoint,
      S3_REGION: region,
      S3_BUCKET: bucket,
      S3_ACCESS_KEY_ID: accessKeyId,
      S3_SECRET_ACCESS_KEY: secretAccessKey,
    },
  });
});
afterAll(async () => {
  await gateway?.expectSettled();
  await gateway?.close();
  await server?.stop();
});

/** Returns the header Content-Disposition with which the store serves a URL. */
const readDisposition = (url: string) =>
  new URL(url).searchParams.get('response-content-disposition');

const put = async (signed: UploadUrl, body: Buffer = png): Promise<number> =>
  (await putFile(signed, body)).status;

/** Returns the status of the URL that the provider received as an input. */
async function inputStatus({ fileId }: UploadUrl): Promise<number> {
  const [submit] = await gateway.sandbox.submits({ match: fileId });
  const [inputUrl = ''] = (submit?.body['image_urls'] ?? []) as string[];
  return (await fetch(inputUrl)).status;
}

describe.skipIf(!executable)('a gateway on S3', () => {
  const draw = (imageUrls: string) =>
    gateway.call(path, { body: { prompt: 'like this one', imageUrls } });

  it('returns results as URLs of the store', async () => {
    const answer = await gateway.call(path, { body: { prompt: 'a jetty' } });
    expect(answer.status).toBe(200);
    const url = answer.body.data.images[0]?.url ?? '';
    expect(url.startsWith(`${server.endpoint}/${server.bucket}/`)).toBe(true);
    expect(readDisposition(url)).toBe('inline; filename="a-jetty-1.png"');
    const files = await gateway.call<{ data: { url: string }[] }>('/api/v1/storage/files');
    expect(readDisposition(files.body.data[0]?.url ?? '')).toBe(readDisposition(url));
    expect((await sharp(await download(url)).metadata()).format).toBe('png');
    // The API serves no files itself.
    const key = new URL(url).pathname.replace(`/${server.bucket}/`, '');
    expect((await fetch(`${gateway.url}/files/${key}${new URL(url).search}`)).status).toBe(404);
    expect((await fetch(`${gateway.url}/uploads/${key}`, { method: 'PUT' })).status).toBe(404);
  });

  it('accepts uploads at the store, and checks them when they are used', async () => {
    const signed = await signUpload(gateway, { contentType: 'image/png', size: png.length });
    expect(await draw(signed.publicUrl)).toMatchObject({
      status: 400,
      body: { details: [{ path: 'imageUrls.0', message: 'has not been uploaded yet' }] },
    });
    expect(await put(signed)).toBe(200);
    expect((await draw(signed.publicUrl)).status).toBe(200);
    expect(await inputStatus(signed)).toBe(200);
    const [row] = await gateway.database.query(
      'SELECT content_type, size_bytes::int, completed_at IS NOT NULL AS completed FROM upload WHERE id = $1',
      [signed.fileId],
    );
    expect(row).toEqual({ content_type: 'image/png', size_bytes: png.length, completed: true });
  });

  const message = expect.stringMatching(
    /^cannot be used: The file is HTML, SVG or XML; accepted are PNG, JPEG, WebP, GIF, /,
  ) as string;
  it.each([
    [
      'of another type than declared, and reports it',
      { contentType: 'image/png' },
      '<html><script>alert(1)</script>',
      { details: [{ path: 'imageUrls.0', message }] },
    ],
    ['that is empty', {}, '', {}],
  ])('rejects a file %s with a 4xx, and removes it', async (_what, declared, content, found) => {
    const signed = await signUpload(gateway, declared);
    expect(await put(signed, Buffer.from(content))).toBe(200);
    const body = { error: 'INVALID_INPUT_URL', ...found };
    expect(await draw(signed.fileId)).toMatchObject({ status: 400, body });
    expect(await gateway.api.services.storage.size(signed.storagePath)).toBeNull();
  });
});

describe.skipIf(!executable)('an API on S3 with credentials that AWS issues', () => {
  let url: string;
  beforeAll(async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', server.accessKeyId);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', server.secretAccessKey);
    vi.stubEnv('AWS_SESSION_TOKEN', 'session');
    url = await gateway.startSecondApi({ S3_CREDENTIALS: 'aws' });
  });
  afterAll(() => vi.unstubAllEnvs());

  async function post<Body>(to: string, body: object): Promise<Body> {
    const answer = await fetch(url + to, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${gateway.caller.key}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify(body),
    });
    expect(answer.status).toBe(200);
    return (await answer.json()) as Body;
  }

  it('signs read URLs itself, and redirects them to the store for a few minutes', async () => {
    const { data } = await post<{ data: { images: { url: string }[] } }>(path, {
      prompt: 'a pier at Århus',
    });
    const [image] = data.images;
    const fileUrl = image?.url ?? '';
    expect(fileUrl.startsWith(`${url}/files/org_`)).toBe(true);
    const redirect = await fetch(fileUrl, { redirect: 'manual' });
    expect(redirect.status).toBe(302);
    expect(redirect.headers.get('cross-origin-resource-policy')).toBe('cross-origin');
    const location = new URL(redirect.headers.get('location') ?? '');
    expect(location.origin).toBe(server.endpoint);
    expect(location.searchParams.get('X-Amz-Expires')).toBe('300');
    expect(readDisposition(location.href)).toBe(
      'inline; filename="a-pier-at-_rhus-1.png"; filename*=UTF-8\'\'a-pier-at-%C3%85rhus-1.png',
    );
    expect(location.searchParams.get('X-Amz-Security-Token')).toBe('session');
    // rclone sends the range with the status 200.
    const file = await fetch(fileUrl, { headers: { range: 'bytes=1-3' } });
    expect([file.ok, await file.text()]).toEqual([true, 'PNG']);
    const changed = fileUrl.replace('signature=', 'signature=x');
    expect((await fetch(changed, { redirect: 'manual' })).status).toBe(404);
  });

  it('accepts uploads at the store, and their public URL as an input', async () => {
    const file = { contentType: 'image/png', size: png.length };
    const signed = await post<UploadUrl>('/api/v1/storage/upload-url', file);
    expect(signed.uploadUrl.startsWith(`${server.endpoint}/`)).toBe(true);
    expect(await put(signed)).toBe(200);
    await post(path, { prompt: 'like this one', imageUrls: signed.publicUrl });
    expect(await inputStatus(signed)).toBe(200);
    // No other route of the API writes to the store.
    const own = `${url}/uploads/${signed.storagePath}`;
    expect((await fetch(own, { method: 'PUT', body: png })).status).toBe(403);
  });
});

describe.skipIf(!executable)('an API that receives uploads for a store without conditions', () => {
  it('writes each to the store once, and providers read it', async () => {
    const url = await gateway.startSecondApi({ S3_UPLOADS: 'api' });
    const file = { contentType: 'image/png', size: png.length };
    const signed = await gateway.call<UploadUrl>('/api/v1/storage/upload-url', {
      base: url,
      body: file,
    });
    expect(signed.body.uploadUrl.startsWith(`${url}/uploads/`)).toBe(true);
    expect(signed.body.headers).toEqual({ 'Content-Type': 'image/png' });
    expect(await put(signed.body)).toBe(200);
    expect(await put(signed.body)).toBe(409);
    expect(await gateway.api.services.storage.size(signed.body.storagePath)).toBe(png.length);
    const body = { prompt: 'like this one', imageUrls: signed.body.publicUrl };
    expect((await gateway.call(path, { base: url, body })).status).toBe(200);
    expect(await inputStatus(signed.body)).toBe(200);
  });
});

it('a worker starts once its store accepts objects, and logs the reason until then', async () => {
  let isDenied = true;
  const store = await startHttpServer((request, response) => {
    if (!isDenied) return void response.end(request.method === 'GET' ? 'studio-gateway' : '');
    return void response.writeHead(403).end('<Error><Code>SignatureDoesNotMatch</Code></Error>');
  });
  try {
    const endpoint = { STORAGE_DRIVER: 's3', S3_ENDPOINT: store.url, S3_REGION: 'eu' };
    const account = { S3_BUCKET: 'media', S3_ACCESS_KEY_ID: 'id', S3_SECRET_ACCESS_KEY: 'key' };
    const settings = { ...endpoint, ...account, TASK_QUEUE_PREFIX: 'unused-', LOG_LEVEL: 'error' };
    let isReady = false;
    const lines: LogLine[] = [];
    const starting = gateway.spawn('worker', settings, lines).then((worker) => {
      isReady = true;
      return worker;
    });
    await until(() => lines.filter(({ msg }) => msg === 'storage.unusable').length >= 2);
    expect(isReady).toBe(false);
    expect(lines[0]).toMatchObject({
      error: { message: 'the store responded to PUT with status 403 (SignatureDoesNotMatch)' },
    });
    isDenied = false;
    await starting;
  } finally {
    await gateway.endSpawned();
    store.close();
  }
});
