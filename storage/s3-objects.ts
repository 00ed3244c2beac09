/** Reads and writes the objects of an S3-compatible store with signed requests. */
import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { Agent, request, type Dispatcher } from 'undici';
import { buildBucketUrl, signRequest, type S3Bucket } from './s3-bucket.ts';
import { contentTypeOf, type ByteRange, type StorageObjects } from './storage.ts';

/** Unexpected response from the store. The message contains no URL and no key. */
class S3Error extends Error {
  override readonly name = 'S3Error';
}

/** Timeout in milliseconds of a request without an object, and of an object's headers. */
const exchangeTimeoutMs = 15_000;
/** Timeout of a transfer in milliseconds: enough for a gigabyte over a slow connection. */
const transferTimeoutMs = 900_000;

interface S3Request {
  method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  key: string;
  headers?: Record<string, string>;
  body?: Dispatcher.DispatchOptions['body'];
  timeoutMs?: number;
}

type SendRequest = (s3Request: S3Request) => Promise<Dispatcher.ResponseData>;

/**
 * Creates the function that sends a signed request to the bucket. The caller must read the body of
 * a successful GET response; all other bodies are discarded.
 */
function createSendRequest(bucket: S3Bucket): SendRequest {
  const agent = new Agent({
    connections: 128,
    keepAliveTimeout: 10_000,
    connect: { timeout: 5000 },
  });

  return async (s3Request) => {
    const signedRequest = await signRequest(bucket, {
      method: s3Request.method,
      url: buildBucketUrl(bucket) + s3Request.key,
      headers: s3Request.headers ?? {},
    });
    const response = await request(signedRequest.url, {
      dispatcher: agent,
      method: s3Request.method,
      headers: Object.fromEntries(signedRequest.headers),
      body: s3Request.body ?? null,
      headersTimeout: s3Request.method === 'GET' ? exchangeTimeoutMs : 0,
      signal: AbortSignal.timeout(s3Request.timeoutMs ?? exchangeTimeoutMs),
    });
    if (s3Request.method !== 'GET' || response.statusCode >= 300) await response.body.dump();
    return response;
  };
}

function throwStatusError(method: string, response: Dispatcher.ResponseData): never {
  throw new S3Error(`the store responded to ${method} with status ${response.statusCode}`);
}

/** Opens the objects of a bucket. Sends no request to the store. */
export function openS3Objects(bucket: S3Bucket): StorageObjects {
  const sendRequest = createSendRequest(bucket);

  async function size(key: string): Promise<number | null> {
    const response = await sendRequest({ method: 'HEAD', key });
    if (response.statusCode === 404) return null;
    if (response.statusCode !== 200) throwStatusError('HEAD', response);
    return readObjectSize(response);
  }

  async function upload(key: string, path: string, onlyIfAbsent: boolean): Promise<number> {
    const { size: sizeBytes } = await stat(path);
    const response = await sendRequest({
      method: 'PUT',
      key,
      headers: {
        'content-type': contentTypeOf(key),
        'content-length': String(sizeBytes),
        ...(onlyIfAbsent && { 'if-none-match': '*' }),
      },
      body: createReadStream(path),
      timeoutMs: transferTimeoutMs,
    });
    // A store that does not support If-None-Match responds with 501. Then only the check in `put`
    // prevents an overwrite.
    if (onlyIfAbsent && response.statusCode === 501) return upload(key, path, false);
    if (response.statusCode !== 200 && response.statusCode !== 412)
      throwStatusError('PUT', response);
    return response.statusCode;
  }

  return {
    size,
    async put(key, path) {
      // The size is read first: some stores ignore If-None-Match and would overwrite the object.
      const exists = (await size(key)) !== null || (await upload(key, path, true)) === 412;
      await rm(path, { force: true });
      return exists ? 'exists' : 'stored';
    },
    async open(key, range) {
      const headers = range && { range: `bytes=${range.first}-${range.last}` };
      const response = await sendRequest({
        method: 'GET',
        key,
        timeoutMs: transferTimeoutMs,
        ...(headers && { headers }),
      });
      if (response.statusCode === 404) return null;
      if (response.statusCode !== 200 && response.statusCode !== 206)
        throwStatusError('GET', response);
      const sizeBytes = readObjectSize(response);
      if (range && !hasRangeLength(response, range, sizeBytes)) {
        throwUnusable(response, 'does not support range requests');
      }
      return { stream: response.body, sizeBytes, contentType: contentTypeOf(key) };
    },
    async remove(key) {
      const response = await sendRequest({ method: 'DELETE', key });
      if (response.statusCode !== 404 && response.statusCode >= 300)
        throwStatusError('DELETE', response);
    },
  };
}

/**
 * Returns the size of the complete object, even if the response contains only a range of it.
 * @throws S3Error
 */
function readObjectSize(response: Dispatcher.ResponseData): number {
  const { headers } = response;
  const [, totalBytes] = /\/(\d+)$/.exec(String(headers['content-range'])) ?? [];
  const size = Number(totalBytes ?? headers['content-length']);
  return Number.isSafeInteger(size)
    ? size
    : throwUnusable(response, 'did not send the size of the object');
}

/**
 * Discards an unusable response without reading its body.
 * @throws S3Error always
 */
function throwUnusable(response: Dispatcher.ResponseData, problem: string): never {
  response.body.on('error', () => {}).destroy();
  throw new S3Error(`the store ${problem}`);
}

/**
 * Returns whether the response has the length of the requested range. The status is not checked,
 * because some stores send the wrong one.
 */
function hasRangeLength(
  response: Dispatcher.ResponseData,
  range: ByteRange,
  sizeBytes: number,
): boolean {
  const rangeBytes = Math.min(range.last, sizeBytes - 1) - range.first + 1;
  return Number(response.headers['content-length']) === rangeBytes;
}
