/**
 * A gateway with an S3 store: callers exchange results, uploads and inputs with the store directly,
 * not through the API.
 */
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { findS3Server, startS3Server, type S3Server } from '../../dev/stack/s3-server.ts';

const executable = await findS3Server();

interface UploadUrl {
  fileId: string;
  uploadUrl: string;
  headers: Record<string, string>;
  publicUrl: string;
  storagePath: string;
}

const bucketOf = ({ endpoint, region, bucket }: S3Server) => ({
  STORAGE_DRIVER: 's3',
  S3_ENDPOINT: endpoint,
  S3_REGION: region,
  S3_BUCKET: bucket,
});

describe.skipIf(!executable)('a gateway on S3', () => {
  let gateway: TestGateway;
  let server: S3Server;
  let png: Buffer;
  beforeAll(async () => {
    if (!executable) return;
    server = await startS3Server(executable);
    // Another storage.
    gateway = await startGateway({
      env: {
        ...bucketOf(server),
        S3_ACCESS_KEY_ID: server.accessKeyId,
        S3_SECRET_ACCESS_KEY: server.secretAccessKey,
      },
    });
    png = await sharp({ create: { width: 64, height: 64, channels: 3, background: 'teal' } })
      .png()
      .toBuffer();
  });
  afterAll(async () => {
    await gateway.expectSettled();
    await gateway.close();
    await server.stop();
  });

  const path = '/api/v1/studio/image/generate';
  const uploadUrl = async (body: object = {}): Promise<UploadUrl> => {
    const answer = await gateway.call<UploadUrl>('/api/v1/storage/upload-url', {
      method: 'POST',
      body,
    });
    expect(answer.status).toBe(200);
    return answer.body;
  };
  const put = async (signed: UploadUrl, body: Buffer = png): Promise<number> =>
    (await fetch(signed.uploadUrl, { method: 'PUT', headers: signed.headers, body })).status;

  it('returns results as URLs of the store', async () => {
    const answer = await gateway.call(path, { body: { prompt: 'a jetty' } });
    expect(answer.status).toBe(200);
    const url = answer.body.data.images[0]?.url ?? '';
    expect(url.startsWith(`${server.endpoint}/${server.bucket}/`)).toBe(true);
    const file = await fetch(url);
    const { format } = await sharp(Buffer.from(await file.arrayBuffer())).metadata();
    expect(format).toBe('png');
    // The API serves no files of its own then.
    const key = new URL(url).pathname.replace(`/${server.bucket}/`, '');
    expect((await fetch(`${gateway.url}/files/${key}${new URL(url).search}`)).status).toBe(404);
    expect((await fetch(`${gateway.url}/uploads/${key}`, { method: 'PUT' })).status).toBe(404);
  });

  it('accepts uploads at the store, and checks them when they are used', async () => {
    const signed = await uploadUrl({ contentType: 'image/png', size: png.length });
    const use = () =>
      gateway.call(path, { body: { prompt: 'like this one', imageUrls: signed.publicUrl } });
    expect(await use()).toMatchObject({
      status: 400,
      body: { details: [{ path: 'imageUrls.0', message: 'has not been uploaded yet' }] },
    });
    expect(await put(signed)).toBe(200);
    expect((await use()).status).toBe(200);
    const [submit] = await gateway.sandbox.submits({ match: signed.fileId });
    const [inputUrl] = (submit?.body['image_urls'] ?? []) as string[];
    expect((await fetch(inputUrl ?? '')).status).toBe(200);
    const [row] = await gateway.database.query(
      'SELECT content_type, size_bytes::int, completed_at IS NOT NULL AS completed FROM upload WHERE id = $1',
      [signed.fileId],
    );
    expect(row).toEqual({ content_type: 'image/png', size_bytes: png.length, completed: true });
  });

  it('removes files of another type than declared, and reports it', async () => {
    const signed = await uploadUrl({ contentType: 'image/png' });
    expect(await put(signed, Buffer.from('<html><script>alert(1)</script>'))).toBe(200);
    const answer = await gateway.call(path, {
      body: { prompt: 'like this one', imageUrls: signed.publicUrl },
    });
    expect(answer).toMatchObject({
      status: 400,
      body: {
        error: 'INVALID_INPUT_URL',
        details: [
          {
            path: 'imageUrls.0',
            message: 'cannot be used: The content is not a file of the type image/png.',
          },
        ],
      },
    });
    expect(await gateway.api.services.storage.size(signed.storagePath)).toBeNull();
  });

  it('refuses an empty file with a 4xx, and removes it', async () => {
    const signed = await uploadUrl();
    expect(await put(signed, Buffer.alloc(0))).toBe(200);
    const answer = await gateway.call(path, {
      body: { prompt: 'like this one', imageUrls: signed.fileId },
    });
    expect(answer).toMatchObject({ status: 400, body: { error: 'INVALID_INPUT_URL' } });
    expect(await gateway.api.services.storage.size(signed.storagePath)).toBeNull();
  });

  it('completes uploads that arrived and deletes those that did not', async () => {
    const [came, never] = await Promise.all([uploadUrl(), uploadUrl()]);
    expect(await put(came)).toBe(200);
    await gateway.database.query(
      `UPDATE upload SET expires_at = now() - interval '2 hours' WHERE completed_at IS NULL`,
    );
    await gateway.api.services.uploads.sweep();
    const rows = await gateway.database.query(
      'SELECT id, content_type FROM upload WHERE id = ANY($1)',
      [[came.fileId, never.fileId]],
    );
    expect(rows).toEqual([{ id: came.fileId, content_type: 'image/png' }]);
  });
});

describe.skipIf(!executable)('a gateway on S3 with credentials that AWS issues', () => {
  let gateway: TestGateway;
  let server: S3Server;
  beforeAll(async () => {
    server = await startS3Server(executable);
    vi.stubEnv('AWS_ACCESS_KEY_ID', server.accessKeyId);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', server.secretAccessKey);
    vi.stubEnv('AWS_SESSION_TOKEN', 'session');
    // Another storage.
    gateway = await startGateway({
      env: {
        ...bucketOf(server),
        S3_CREDENTIALS: 'aws',
      },
    });
  });
  afterAll(async () => {
    await gateway.expectSettled();
    await gateway.close();
    await server.stop();
    vi.unstubAllEnvs();
  });

  it('signs read URLs itself, and redirects them to the store for a few minutes', async () => {
    const answer = await gateway.call('/api/v1/studio/image/generate', {
      body: { prompt: 'a jetty' },
    });
    expect(answer.status).toBe(200);
    const url = answer.body.data.images[0]?.url ?? '';
    expect(url.startsWith(`${gateway.url}/files/org_`)).toBe(true);
    const redirect = await fetch(url, { redirect: 'manual' });
    expect(redirect.status).toBe(302);
    expect(redirect.headers.get('cross-origin-resource-policy')).toBe('cross-origin');
    const location = new URL(redirect.headers.get('location') ?? '');
    expect(location.origin).toBe(server.endpoint);
    expect(location.searchParams.get('X-Amz-Expires')).toBe('300');
    expect(location.searchParams.get('X-Amz-Security-Token')).toBe('session');
    // rclone sends the range with the status 200.
    const file = await fetch(url, { headers: { range: 'bytes=1-3' } });
    expect([file.ok, await file.text()]).toEqual([true, 'PNG']);
    const changed = url.replace('signature=', 'signature=x');
    expect((await fetch(changed, { redirect: 'manual' })).status).toBe(404);
  });

  it('accepts uploads at the store, and their public URL as an input', async () => {
    const png = await sharp({ create: { width: 64, height: 64, channels: 3, background: 'red' } })
      .png()
      .toBuffer();
    const { body: signed } = await gateway.call<UploadUrl>('/api/v1/storage/upload-url', {
      method: 'POST',
      body: { contentType: 'image/png', size: png.length },
    });
    expect(signed.uploadUrl.startsWith(`${server.endpoint}/`)).toBe(true);
    const { uploadUrl, headers } = signed;
    expect((await fetch(uploadUrl, { method: 'PUT', headers, body: png })).status).toBe(200);
    const answer = await gateway.call('/api/v1/studio/image/generate', {
      body: { prompt: 'like this one', imageUrls: signed.publicUrl },
    });
    expect(answer.status).toBe(200);
    const [submit] = await gateway.sandbox.submits({ match: signed.fileId });
    const [inputUrl] = (submit?.body['image_urls'] ?? []) as string[];
    expect((await fetch(inputUrl ?? '')).status).toBe(200);
    // No other route of the API writes to the store.
    const own = `${gateway.url}/uploads/${signed.storagePath}`;
    expect((await fetch(own, { method: 'PUT', body: png })).status).toBe(403);
  });
});
